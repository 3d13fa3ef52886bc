package candidate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Submission is what a trainer hands in for a cut.
type Submission struct {
	Cut        string `json:"cut"`         // cut-N
	Version    string `json:"version"`     // the new policy version, as the engine will report it
	Base       string `json:"base"`        // the version it was trained from: the live one at the cut
	WeightsURI string `json:"weights_uri"` // the folder of the files, and nothing else in it; without a scheme: a key in Millrace's own object store
	Files      []File `json:"files"`
	RootDigest string `json:"root_digest"` // RootDigest of the files
	Format     Format `json:"format"`

	Run         string   `json:"run"` // of the trainer
	Step        int64    `json:"step"`
	Shards      []string `json:"shards_consumed,omitempty"` // source shards, or parts of the cut as "cut-1/0"
	RowsTrained int64    `json:"rows_trained"`
	RowsDropped []Drop   `json:"rows_dropped,omitempty"` // trained + dropped = rows of the cut

	KL                 *float64 `json:"kl,omitempty"`
	Loss               *float64 `json:"loss,omitempty"`
	TokenizerDigest    string   `json:"tokenizer_digest,omitempty"`
	ChatTemplateDigest string   `json:"chat_template_digest,omitempty"`
}

// File is one file of the weights.
type File struct {
	Path   string `json:"path"` // below WeightsURI, slashes
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Drop declares rows of the cut that were not trained on.
type Drop struct {
	Reason      string `json:"reason"`      // "longer than the context", …
	Disposition string `json:"disposition"` // what became of them: "filtered", "truncated", …
	Rows        int64  `json:"rows"`
}

// Format is how the weights are stored.
type Format string

// The formats. A delta is on the declared base.
const (
	Safetensors Format = "hf-safetensors"
	LoRA        Format = "lora"
	Delta       Format = "delta"
)

// RootDigest is SHA-256 (hex) over the files' digests (64 hex characters each), in the order of their names.
func RootDigest(files []File) string {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	h := sha256.New()
	for _, f := range sorted {
		h.Write([]byte(f.SHA256))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Code names a refusal. Clients may rely on it; the message is for people.
type Code string

// The refusals of a submission.
const (
	Malformed        Code = "malformed"          // a field is missing or makes no sense
	UnknownCut       Code = "unknown_cut"        // no such cut, or it was never packed
	CandidateClosed  Code = "candidate_closed"   // the cut's candidate has ended (its time is over)
	WrongBase        Code = "wrong_base"         // not the version that was live at the cut
	VersionExists    Code = "version_exists"     // another checkpoint has that name
	DigestMismatch   Code = "digest_mismatch"    // a digest does not fit the files
	ChangedTokenizer Code = "changed_tokenizer"  // tokenizer or chat template differ from the rows'
	ForeignShard     Code = "foreign_shard"      // consumed something that is not in the cut
	UndeclaredDrop   Code = "undeclared_drop"    // fewer rows than the cut has, and no word why
	RowsDoNotAddUp   Code = "rows_do_not_add_up" // more rows than the cut has
	OtherContent     Code = "second_submission"  // the cut has a submission with other content
	FileMissing      Code = "file_missing"       // a declared file is not in the store
)

// Refusal says why a submission is not taken, where, and what to do.
type Refusal struct {
	Code    Code   `json:"code"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("submission refused (%s): %s", r.Code, r.Message)
}

func refuse(code Code, field, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Cut is what a submission is held against.
type Cut struct {
	ID                 string
	Base               string
	Rows               int64 // taken
	Parts              int
	Shards             []string // taken source shards
	TokenizerDigest    string   // "" if the rows name none
	ChatTemplateDigest string
}

// Check holds a submission against its cut: a pure function. nil means that it may be taken.
func Check(s *Submission, cut Cut) *Refusal {
	if r := wellFormed(s); r != nil {
		return r
	}
	if s.Base != cut.Base {
		return refuse(WrongBase, "base", "trained from %q, but %s is of %q: train from the version that was live at the cut", s.Base, cut.ID, cut.Base)
	}
	if got := RootDigest(s.Files); got != s.RootDigest {
		return refuse(DigestMismatch, "root_digest", "root_digest is %s, but the files' digests in name order give %s", s.RootDigest, got)
	}
	if cut.TokenizerDigest != "" && s.TokenizerDigest != cut.TokenizerDigest {
		return refuse(ChangedTokenizer, "tokenizer_digest", "tokenizer %q, the rows of %s have %q: token ids would mean other text", s.TokenizerDigest, cut.ID, cut.TokenizerDigest)
	}
	if cut.ChatTemplateDigest != "" && s.ChatTemplateDigest != cut.ChatTemplateDigest {
		return refuse(ChangedTokenizer, "chat_template_digest", "chat template %q, the rows of %s have %q", s.ChatTemplateDigest, cut.ID, cut.ChatTemplateDigest)
	}
	known := map[string]bool{}
	for _, id := range cut.Shards {
		known[id] = true
	}
	for n := range cut.Parts {
		known[fmt.Sprintf("%s/%d", cut.ID, n)] = true
	}
	for i, id := range s.Shards {
		if !known[id] {
			return refuse(ForeignShard, fmt.Sprintf("shards_consumed[%d]", i), "%s is not in %s: a candidate is trained on its own cut only", id, cut.ID)
		}
	}
	sum := s.RowsTrained
	for _, d := range s.RowsDropped {
		sum += d.Rows
	}
	switch {
	case sum < cut.Rows:
		return refuse(UndeclaredDrop, "rows_dropped", "%d rows trained and %d declared dropped, %s has %d: declare the other %d with reason and disposition", s.RowsTrained, sum-s.RowsTrained, cut.ID, cut.Rows, cut.Rows-sum)
	case sum > cut.Rows:
		return refuse(RowsDoNotAddUp, "rows_trained", "%d rows trained and %d declared dropped, but %s has only %d", s.RowsTrained, sum-s.RowsTrained, cut.ID, cut.Rows)
	}
	return nil
}

// CheckVersion says whether a policy version's name can be used: it becomes a folder in the store.
func CheckVersion(version string) *Refusal {
	if version == "" || strings.ContainsAny(version, "/\\ \t\n") || strings.HasPrefix(version, ".") || len(version) > 200 {
		return refuse(Malformed, "version", "version %q: 1 to 200 characters, no slash, no space, not beginning with a dot", version)
	}
	return nil
}

func wellFormed(s *Submission) *Refusal {
	for _, f := range []struct{ name, value string }{
		{"cut", s.Cut}, {"version", s.Version}, {"base", s.Base}, {"weights_uri", s.WeightsURI}, {"root_digest", s.RootDigest}, {"run", s.Run},
	} {
		if f.value == "" {
			return refuse(Malformed, f.name, "%s is missing", f.name)
		}
	}
	if r := CheckVersion(s.Version); r != nil {
		return r
	}
	if _, err := plainURI(s.WeightsURI); err != nil {
		return refuse(Malformed, "weights_uri", "weights_uri %v", err)
	}
	switch s.Format {
	case Safetensors, LoRA, Delta:
	default:
		return refuse(Malformed, "format", "format %q: one of %s, %s, %s", s.Format, Safetensors, LoRA, Delta)
	}
	if len(s.Files) == 0 {
		return refuse(Malformed, "files", "no files: name each with its path, SHA-256 and size")
	}
	seen := map[string]bool{}
	for i, f := range s.Files {
		field := fmt.Sprintf("files[%d]", i)
		if f.Path == "" || path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.HasPrefix(f.Path, "..") || strings.Contains(f.Path, "\\") {
			return refuse(Malformed, field+".path", "path %q: a relative path with slashes, below weights_uri", f.Path)
		}
		if seen[f.Path] {
			return refuse(Malformed, field+".path", "%s is named twice", f.Path)
		}
		seen[f.Path] = true
		if raw, err := hex.DecodeString(f.SHA256); err != nil || len(raw) != sha256.Size || strings.ToLower(f.SHA256) != f.SHA256 {
			return refuse(Malformed, field+".sha256", "sha256 of %s: 64 lower-case hex digits", f.Path)
		}
		if f.Bytes < 0 {
			return refuse(Malformed, field+".bytes", "%s has %d bytes", f.Path, f.Bytes)
		}
	}
	if s.RowsTrained < 0 || s.Step < 0 {
		return refuse(Malformed, "rows_trained", "rows_trained and step are counts, not below 0")
	}
	for i, d := range s.RowsDropped {
		if d.Reason == "" || d.Disposition == "" || d.Rows <= 0 {
			return refuse(UndeclaredDrop, fmt.Sprintf("rows_dropped[%d]", i), "a drop needs a reason, a disposition and rows > 0")
		}
	}
	return nil
}

// same says whether two submissions have the same content, byte for byte of their canonical JSON.
func same(a, b *Submission) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

package assignment

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/vectors.json anew")

const vectorsFile = "testdata/vectors.json"

// vectors are documents and what is to come of them, in every language that evaluates rulesets.
type vectors struct {
	Note      string            `json:"note"`
	Keys      map[string]string `json:"keys"`      // public ones
	Documents map[string]string `json:"documents"` // as GET /v1/ruleset gives them
	Refused   []refusedVector   `json:"refused"`
	Cases     []vector          `json:"cases"`
	Groups    map[string]tally  `json:"groups"` // what 10,000 units unit-0 … unit-9999 are given at the time "now"
	Now       string            `json:"now"`
}

// refusedVector is a document that must be refused, with the error's name.
type refusedVector struct {
	Document string   `json:"document"`
	Keys     []string `json:"keys"`
	Error    string   `json:"error"`
}

type vector struct {
	Name       string  `json:"name"`
	Document   string  `json:"document"`
	Now        string  `json:"now"`
	Unit       string  `json:"unit"`
	Checkpoint string  `json:"checkpoint,omitempty"`
	Experiment string  `json:"experiment,omitempty"`
	Expected   *answer `json:"expected,omitempty"`
	Error      string  `json:"error,omitempty"`
}

type answer struct {
	Version    string `json:"version"`
	Variant    string `json:"variant"`
	Experiment string `json:"experiment"`
	Arm        string `json:"arm"`
}

// tally counts units by "variant version arm".
type tally map[string]int

// names of errors in the vectors.
var errorNames = map[string]error{
	"malformed": ErrMalformed, "unsupported": ErrUnsupported, "signature": ErrSignature, "expired": ErrExpired, "no_unit": ErrNoUnit,
}

func nameOf(t *testing.T, err error) string {
	t.Helper()
	for name, e := range errorNames {
		if errors.Is(err, e) {
			return name
		}
	}
	require.NoError(t, err, "an error without a name")
	return ""
}

var (
	trusted = ed25519.NewKeyFromSeed([]byte("the trusted key of the vectors!!"))
	former  = ed25519.NewKeyFromSeed([]byte("the key before that of vectors!!"))
	strange = ed25519.NewKeyFromSeed([]byte("a key that nobody trusts at all!"))
	noon    = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
)

func public(key ed25519.PrivateKey) ed25519.PublicKey {
	p, _ := key.Public().(ed25519.PublicKey)
	return p
}

func experimentOf(coverage int) *Experiment {
	return &Experiment{
		ID: "exp-9", Salt: "exp-9-0123456789ab", Coverage: coverage, Control: "base-8", Candidate: "cand-9",
		StartsAt: noon.Add(-time.Hour), EndsAt: noon.Add(time.Hour),
	}
}

func rulesetWith(change func(*Ruleset)) Ruleset {
	r := Ruleset{IssuedAt: noon, ValidUntil: noon.Add(2 * time.Hour), Live: "base-8", Kept: []string{"base-7"}}
	change(&r)
	return r
}

func holdBack() *HoldBack {
	return &HoldBack{ID: "anchor-1", Salt: "anchor-1-ba9876543210", Buckets: 500, Version: "base-1"}
}

// makeVectors writes down what the Go code says. Read the difference before committing it.
func makeVectors(t *testing.T) vectors {
	t.Helper()
	v := vectors{
		Note:      "go test ./assignment -update writes this file; every implementation reads it",
		Keys:      map[string]string{},
		Documents: map[string]string{}, Groups: map[string]tally{}, Now: noon.Format(time.RFC3339),
	}
	for name, key := range map[string]ed25519.PrivateKey{"trusted": trusted, "former": former, "strange": strange} {
		v.Keys[name] = base64.StdEncoding.EncodeToString(public(key))
	}
	rulesets := map[string]Ruleset{
		"live":       rulesetWith(func(*Ruleset) {}),
		"coverage 0": rulesetWith(func(r *Ruleset) { r.Experiment = experimentOf(0) }),
		"coverage 1": rulesetWith(func(r *Ruleset) { r.Experiment = experimentOf(1) }),
		"coverage 2 %": rulesetWith(func(r *Ruleset) {
			r.Experiment = experimentOf(200)
		}),
		"coverage 10 %":  rulesetWith(func(r *Ruleset) { r.Experiment = experimentOf(1000) }),
		"coverage 40 %":  rulesetWith(func(r *Ruleset) { r.Experiment = experimentOf(4000) }),
		"coverage 100 %": rulesetWith(func(r *Ruleset) { r.Experiment = experimentOf(Buckets) }),
		"hold-back":      rulesetWith(func(r *Ruleset) { r.HoldBack = holdBack() }),
		"all": rulesetWith(func(r *Ruleset) {
			r.HoldBack, r.Experiment = holdBack(), experimentOf(4000)
		}),
		"odd names": rulesetWith(func(r *Ruleset) {
			r.Live, r.Kept = `ba"se\<é>`, nil
			x := experimentOf(Buckets)
			x.Salt, x.Control, x.Candidate = "sält-🌊", r.Live, "кандидат-9"
			r.Experiment = x
		}),
	}
	for name, r := range rulesets {
		document, err := Sign(r, trusted)
		require.NoError(t, err)
		v.Documents[name] = string(document)
	}
	all := v.Documents["all"]
	tampered := strings.Replace(all, `\"coverage\":4000`, `\"coverage\":9000`, 1)
	require.NotEqual(t, all, tampered)
	v.Documents["tampered"] = tampered
	v.Documents["no signature"] = `{"ruleset":"{}","key_id":"x"}`
	v.Documents["signature of another length"] = strings.Replace(all, `"signature":"`, `"signature":"AAAA`, 1)
	v.Documents["no JSON"] = "<html>"
	v.Documents["a list"] = "[]"
	sign := func(name, ruleset string) {
		document, err := json.Marshal(Signed{
			Ruleset: ruleset, KeyID: KeyID(public(trusted)),
			Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(trusted, signedBytes(ruleset))),
		})
		require.NoError(t, err)
		v.Documents[name] = string(document)
	}
	sign("signed, no JSON", "x")
	sign("signed, of tomorrow", `{"format":"millrace.ruleset/2","hash_version":{"new":true}}`)
	sign("signed, another hash", `{"format":"millrace.ruleset/1","hash_version":3,"live":"base-8","valid_until":"2026-11-01T14:00:00Z"}`)
	sign("signed, nothing live", `{"format":"millrace.ruleset/1","hash_version":2,"valid_until":"2026-11-01T14:00:00Z"}`)
	sign("signed, no end", `{"format":"millrace.ruleset/1","hash_version":2,"live":"base-8"}`)
	sign("signed, bad time", `{"format":"millrace.ruleset/1","hash_version":2,"live":"base-8","valid_until":"soon"}`)
	sign("signed, coverage 10,001", `{"format":"millrace.ruleset/1","hash_version":2,"live":"base-8","valid_until":"2026-11-01T14:00:00Z",`+
		`"experiment":{"id":"x","salt":"x","coverage":10001,"control":"a","candidate":"b","starts_at":"2026-11-01T11:00:00Z","ends_at":"2026-11-01T13:00:00Z"}}`)
	sign("signed, experiment without salt", `{"format":"millrace.ruleset/1","hash_version":2,"live":"base-8","valid_until":"2026-11-01T14:00:00Z",`+
		`"experiment":{"id":"x","coverage":100,"control":"a","candidate":"b","starts_at":"2026-11-01T11:00:00Z","ends_at":"2026-11-01T13:00:00Z"}}`)
	sign("signed, half held back and more", `{"format":"millrace.ruleset/1","hash_version":2,"live":"base-8","valid_until":"2026-11-01T14:00:00Z",`+
		`"hold_back":{"id":"x","salt":"x","buckets":5001,"version":"a"}}`)
	for _, r := range []refusedVector{
		{Document: "all", Keys: nil},
		{Document: "all", Keys: []string{"strange"}},
		{Document: "all", Keys: []string{"former", "strange"}},
		{Document: "tampered", Keys: []string{"trusted"}},
		{Document: "no signature", Keys: []string{"trusted"}},
		{Document: "signature of another length", Keys: []string{"trusted"}},
		{Document: "no JSON", Keys: []string{"trusted"}},
		{Document: "a list", Keys: []string{"trusted"}},
		{Document: "signed, no JSON", Keys: []string{"trusted"}},
		{Document: "signed, of tomorrow", Keys: []string{"trusted"}},
		{Document: "signed, another hash", Keys: []string{"trusted"}},
		{Document: "signed, nothing live", Keys: []string{"trusted"}},
		{Document: "signed, no end", Keys: []string{"trusted"}},
		{Document: "signed, bad time", Keys: []string{"trusted"}},
		{Document: "signed, coverage 10,001", Keys: []string{"trusted"}},
		{Document: "signed, experiment without salt", Keys: []string{"trusted"}},
		{Document: "signed, half held back and more", Keys: []string{"trusted"}},
	} {
		_, err := Verify([]byte(v.Documents[r.Document]), keysOf(t, &v, r.Keys)...)
		r.Error = nameOf(t, err)
		v.Refused = append(v.Refused, r)
	}
	for _, c := range cases() {
		a, err := mustVerify(t, &v, c.Document).Assign(Query{Unit: c.Unit, Checkpoint: c.Checkpoint, Experiment: c.Experiment}, at(t, c.Now))
		if err != nil {
			c.Error = nameOf(t, err)
		} else {
			c.Expected = &answer{a.Version, string(a.Variant), a.Experiment, a.Arm}
		}
		v.Cases = append(v.Cases, c)
	}
	for name := range rulesets {
		v.Groups[name] = group(t, mustVerify(t, &v, name))
	}
	return v
}

func cases() []vector {
	const now = "2026-11-01T12:00:00Z"
	var out []vector
	add := func(name, document, at, unit string, session ...string) {
		c := vector{Name: name, Document: document, Now: at, Unit: unit}
		if len(session) > 0 {
			c.Checkpoint = session[0]
		}
		if len(session) > 1 {
			c.Experiment = session[1]
		}
		out = append(out, c)
	}
	units := []struct{ what, unit string }{
		{"plain", "user-17"},
		{"one letter", "a"},
		{"a space", " "},
		{"a zero byte", "a\x00b"},
		{"accents, composed", "Zo\u00eb"},
		{"accents, decomposed: another unit", "Zoe\u0308"},
		{"Greek", "χρήστης-7"},
		{"emoji", "👩‍💻-42"},
		{"half an emoji: U+FFFD in UTF-8", "u-\ufffd"},
		{"right to left", "משתמש"},
		{"long", strings.Repeat("långt-", 100)},
		{"markup", "<a href=\"x\">&</a>\u2028"},
	}
	for _, u := range units {
		for _, document := range []string{"live", "coverage 100 %", "coverage 40 %", "all", "odd names"} {
			add(u.what, document, now, u.unit)
		}
	}
	add("nobody", "all", now, "")
	add("before the experiment", "coverage 100 %", "2026-11-01T10:59:59Z", "user-17")
	add("as it starts", "coverage 100 %", "2026-11-01T11:00:00Z", "user-17")
	add("just before its end", "coverage 100 %", "2026-11-01T12:59:59Z", "user-17")
	add("at its end", "coverage 100 %", "2026-11-01T13:00:00Z", "user-17")
	add("just before the ruleset's end", "all", "2026-11-01T13:59:59Z", "user-17")
	add("at the ruleset's end", "all", "2026-11-01T14:00:00Z", "user-17")
	add("long after it", "live", "2027-11-01T14:00:00Z", "user-17")
	add("nobody, after it", "live", "2027-11-01T14:00:00Z", "")
	for _, unit := range []string{"user-0", "user-1", "user-2", "user-3", "user-4", "user-5", "user-6"} {
		add("session of the control arm", "coverage 100 %", now, unit, "base-8", "exp-9")
		add("session of the candidate's arm", "coverage 100 %", now, unit, "cand-9", "exp-9")
		add("session from before the experiment", "coverage 100 %", now, unit, "base-8")
		add("session on the candidate, experiment not told", "coverage 100 %", now, unit, "cand-9")
		add("session of an older experiment", "coverage 100 %", now, unit, "base-8", "exp-8")
		add("session on a former version", "coverage 100 %", now, unit, "base-7")
		add("session on what was withdrawn", "coverage 100 %", now, unit, "cand-6", "exp-6")
		add("session of an arm, the experiment over", "coverage 100 %", "2026-11-01T13:30:00Z", unit, "cand-9", "exp-9")
		add("session, with a hold-back", "all", now, unit, "base-1", "anchor-1")
		add("session on live, with a hold-back", "all", now, unit, "base-8", "anchor-1")
		add("session after the ruleset's end", "all", "2026-11-01T14:00:00Z", unit, "base-8")
	}
	return out
}

func group(t *testing.T, r *Ruleset) tally {
	t.Helper()
	counts := tally{}
	for i := range Buckets {
		a, err := r.Assign(Query{Unit: unitName(i)}, noon)
		require.NoError(t, err)
		counts[strings.TrimSpace(string(a.Variant)+" "+a.Version+" "+a.Arm)]++
	}
	return counts
}

func keysOf(t *testing.T, v *vectors, names []string) (keys []ed25519.PublicKey) {
	t.Helper()
	for _, name := range names {
		key, err := ParseKey(v.Keys[name])
		require.NoError(t, err)
		keys = append(keys, key)
	}
	return keys
}

func mustVerify(t *testing.T, v *vectors, document string) *Ruleset {
	t.Helper()
	r, err := Verify([]byte(v.Documents[document]), keysOf(t, v, []string{"former", "trusted"})...)
	require.NoError(t, err, document)
	return r
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return when
}

func TestVectors(t *testing.T) {
	t.Parallel()
	v := makeVectors(t)
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(v))
	if *update {
		require.NoError(t, os.WriteFile(vectorsFile, want.Bytes(), 0o644))
	}
	stored, err := os.ReadFile(vectorsFile)
	require.NoError(t, err)
	require.Equal(t, string(stored), want.String(), "an assignment has changed; if that is meant, it is another format")
	seen := map[string]int{}
	for _, c := range v.Cases {
		if c.Expected != nil {
			seen[c.Expected.Variant]++
		}
		seen[c.Error]++
	}
	for _, r := range v.Refused {
		seen[r.Error]++
	}
	for _, what := range []string{"live", "hold_back", "control", "candidate", "kept", "malformed", "unsupported", "signature", "expired", "no_unit"} {
		require.Positive(t, seen[what], "no vector for "+what)
	}
}

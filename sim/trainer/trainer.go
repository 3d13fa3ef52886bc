package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"millrace/internal/arrowfile"
)

// Trainer trains one candidate at a time.
type Trainer struct{ cfg Config }

// Result is what came of one cut.
type Result struct {
	Cut, Version string
	RowsTrained  int64
	RowsDropped  int64
	Tokens       int64   // trained on
	Loss, KL     float64 // KL of the base from the new policy, nats per token
	Gain         float64 // of the mean advantage that the new policy would have had on these rows
	Folder       string  // of the weights
}

// New makes a trainer.
func New(cfg Config) (*Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Trainer{cfg: cfg.withDefaults()}, nil
}

// Run trains every cut that wants it until the context ends. report is told of each result, and of each error, after
// which it tries again; it may be nil.
func (t *Trainer) Run(ctx context.Context, report func(*Result, error)) error {
	tick := time.NewTicker(t.cfg.Every)
	defer tick.Stop()
	for {
		r, err := t.Step(ctx)
		if report != nil && ctx.Err() == nil && (r != nil || err != nil) {
			report(r, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Step trains the cut that wants a candidate, and hands the candidate in; nil if there is none. The candidate's
// version is its id. It may be repeated after any failure: the same cut gives the same weights and the same
// submission, and that is taken once.
func (t *Trainer) Step(ctx context.Context) (*Result, error) {
	var list struct {
		Candidates []candidateInfo `json:"candidates"`
	}
	if err := t.get(ctx, "/v1/candidates", &list); err != nil {
		return nil, fmt.Errorf("trainer: look for a cut: %w", err)
	}
	for _, c := range list.Candidates {
		if c.State == "training" {
			r, err := t.train(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("trainer: %s of %s: %w", c.ID, c.Cut, err)
			}
			return r, nil
		}
	}
	return nil, nil
}

func (t *Trainer) train(ctx context.Context, c candidateInfo) (*Result, error) {
	m, err := t.manifest(ctx, c)
	if err != nil {
		return nil, err
	}
	var stats statistics
	dropped := map[string]int64{}
	s := submission{
		Cut: m.Cut, Version: c.ID, Base: m.Base, Format: "hf-safetensors", Run: "reference-trainer/" + m.Cut, Step: int64(t.cfg.Steps),
		TokenizerDigest: m.TokenizerDigest, ChatTemplateDigest: m.ChatTemplateDigest,
	}
	for _, p := range m.Parts {
		if err := t.read(ctx, m, p, func(why string) {
			if why == "" {
				s.RowsTrained++
			} else {
				dropped[why]++
			}
		}, &stats); err != nil {
			return nil, fmt.Errorf("part %d: %w", p.Number, err)
		}
		s.Shards = append(s.Shards, m.Cut+"/"+strconv.Itoa(p.Number))
	}
	out, err := stats.train(t.cfg.Steps, t.cfg.Rate, t.cfg.KL)
	if err != nil {
		return nil, err
	}
	weights, err := safetensors(out.logits, m.Base, m.Cut)
	if err != nil {
		return nil, err
	}
	folder, err := t.write(s.Version, weights)
	if err != nil {
		return nil, err
	}
	digest := arrowfile.SHA256(weights)
	s.WeightsURI = (&url.URL{Scheme: "file", Path: folder}).String()
	s.Files = []file{{Path: weightsFile, SHA256: digest, Bytes: int64(len(weights))}}
	s.RootDigest = arrowfile.SHA256([]byte(digest)) // over all files' digests, of which there is one
	s.Loss, s.KL = out.loss, out.kl
	result := &Result{
		Cut: m.Cut, Version: s.Version, RowsTrained: s.RowsTrained, Tokens: stats.seen,
		Loss: out.loss, KL: out.kl, Gain: out.gain, Folder: folder,
	}
	for _, why := range slices.Sorted(maps.Keys(dropped)) {
		s.RowsDropped = append(s.RowsDropped, drop{Reason: why, Disposition: "filtered", Rows: dropped[why]})
		result.RowsDropped += dropped[why]
	}
	return result, t.submit(ctx, &s)
}

// manifest reads the cut's manifest and holds it against what the cut says of it.
func (t *Trainer) manifest(ctx context.Context, c candidateInfo) (*manifest, error) {
	var cut cutInfo
	if err := t.get(ctx, "/v1/cuts/"+url.PathEscape(c.Cut), &cut); err != nil {
		return nil, err
	}
	raw, err := t.call(ctx, http.MethodGet, "/v1/cuts/"+url.PathEscape(c.Cut)+"/manifest", nil, longestDocument)
	if err != nil {
		return nil, err
	}
	if got := arrowfile.SHA256(raw); got != cut.ManifestSHA256 {
		return nil, fmt.Errorf("the manifest has the digest %s, the cut says %s", got, cut.ManifestSHA256)
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("the manifest: %w", err)
	}
	rows := int64(0)
	for _, p := range m.Parts {
		rows += p.Rows
	}
	switch {
	case m.Version != 1:
		return nil, fmt.Errorf("the manifest has format %d; this trainer reads 1", m.Version)
	case m.Cut != c.Cut || m.Base != c.Base:
		return nil, fmt.Errorf("the manifest is of %s on %s, wanted was %s on %s", m.Cut, m.Base, c.Cut, c.Base)
	case rows != m.Rows || rows != cut.Rows:
		return nil, fmt.Errorf("the parts have %d rows, the manifest says %d and the cut %d", rows, m.Rows, cut.Rows)
	}
	return &m, nil
}

var errPart = errors.New("not what the manifest says")

// read verifies one part, parses it and adds its rows to the statistics.
func (t *Trainer) read(ctx context.Context, m *manifest, p part, count func(why string), stats *statistics) error {
	raw, err := t.call(ctx, http.MethodGet, "/v1/cuts/"+url.PathEscape(m.Cut)+"/parts/"+strconv.Itoa(p.Number), nil, p.Bytes)
	if err != nil {
		return err
	}
	// Size and digest come before parsing: a parser is no place for bytes that nobody vouches for.
	if got := arrowfile.SHA256(raw); int64(len(raw)) != p.Bytes || got != p.SHA256 {
		return fmt.Errorf("%w: %d bytes of digest %s instead of %d of %s", errPart, len(raw), got, p.Bytes, p.SHA256)
	}
	_, rows, err := arrowfile.ReadShard(raw)
	if err != nil {
		return err
	}
	if int64(len(rows)) != p.Rows {
		return fmt.Errorf("%w: %d rows instead of %d", errPart, len(rows), p.Rows)
	}
	for i := range rows {
		r := &rows[i]
		switch {
		case !slices.Contains(m.PolicyVersions, r.PolicyVersion):
			return fmt.Errorf("%w: row %s is of policy version %q", errPart, r.SampleID, r.PolicyVersion)
		case m.TokenizerDigest != "" && r.TokenizerDigest != m.TokenizerDigest:
			return fmt.Errorf("%w: row %s has the tokenizer %q", errPart, r.SampleID, r.TokenizerDigest)
		}
		count(stats.add(r, t.cfg.Context))
	}
	return nil
}

func (t *Trainer) submit(ctx context.Context, s *submission) error {
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the submission: %w", err)
	}
	_, err = t.call(ctx, http.MethodPost, "/v1/candidates", body, longestDocument)
	return err
}

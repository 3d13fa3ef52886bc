package trainer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// The parts of the API's documents that a trainer reads.
type (
	candidateInfo struct {
		ID    string `json:"id"`
		Cut   string `json:"cut"`
		Base  string `json:"base"`
		State string `json:"state"`
	}
	cutInfo struct {
		ID             string `json:"id"`
		State          string `json:"state"`
		Rows           int64  `json:"rows"`
		ManifestSHA256 string `json:"manifest_sha256"`
	}
	manifest struct {
		Version            int      `json:"millrace.cut"`
		Cut                string   `json:"cut"`
		Base               string   `json:"base"`
		PolicyVersions     []string `json:"policy_versions"`
		Rows               int64    `json:"rows"`
		TokenizerDigest    string   `json:"tokenizer_digest"`
		ChatTemplateDigest string   `json:"chat_template_digest"`
		Parts              []part   `json:"parts"`
	}
	part struct {
		Number int    `json:"number"`
		SHA256 string `json:"sha256"`
		Bytes  int64  `json:"bytes"`
		Rows   int64  `json:"rows"`
	}
	submission struct {
		Cut                string   `json:"cut"`
		Version            string   `json:"version"`
		Base               string   `json:"base"`
		WeightsURI         string   `json:"weights_uri"`
		Files              []file   `json:"files"`
		RootDigest         string   `json:"root_digest"`
		Format             string   `json:"format"`
		Run                string   `json:"run"`
		Step               int64    `json:"step"`
		Shards             []string `json:"shards_consumed"`
		RowsTrained        int64    `json:"rows_trained"`
		RowsDropped        []drop   `json:"rows_dropped,omitempty"`
		KL                 float64  `json:"kl"`
		Loss               float64  `json:"loss"`
		TokenizerDigest    string   `json:"tokenizer_digest,omitempty"`
		ChatTemplateDigest string   `json:"chat_template_digest,omitempty"`
	}
	file struct {
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
		Bytes  int64  `json:"bytes"`
	}
	drop struct {
		Reason      string `json:"reason"`
		Disposition string `json:"disposition"`
		Rows        int64  `json:"rows"`
	}
)

// longestDocument bounds every answer that is no part of a cut, bytes.
const longestDocument = 64 << 20

const mostTries = 8

var errAway = errors.New("the server is away")

// get reads a JSON document.
func (t *Trainer) get(ctx context.Context, path string, into any) error {
	raw, err := t.call(ctx, http.MethodGet, path, nil, longestDocument)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// call asks the API, again with growing pauses while it is away, and bounds the answer.
func (t *Trainer) call(ctx context.Context, method, path string, body []byte, most int64) ([]byte, error) {
	for tries := 0; ; tries++ {
		raw, wait, err := t.once(ctx, method, path, body, most)
		if err == nil || !errors.Is(err, errAway) || tries == mostTries-1 {
			return raw, err
		}
		if wait == 0 {
			wait = 50 * time.Millisecond << tries
		}
		timer := time.NewTimer(min(wait, 5*time.Second))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%s %s: %w", method, path, context.Cause(ctx))
		}
	}
}

func (t *Trainer) once(ctx context.Context, method, path string, body []byte, most int64) (raw []byte, wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, method, t.cfg.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Authorization", "Bearer "+t.cfg.Token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := t.cfg.Client.Do(r)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errAway, err)
	}
	defer w.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(w.Body, most+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("%s %s: %w: %w", method, path, errAway, err)
	case w.StatusCode == http.StatusTooManyRequests || w.StatusCode >= 500:
		seconds, _ := strconv.Atoi(w.Header.Get("Retry-After"))
		return nil, time.Duration(seconds) * time.Second, fmt.Errorf("%s %s: %w: %s: %.300s", method, path, errAway, w.Status, raw)
	case w.StatusCode >= 300:
		return nil, 0, fmt.Errorf("%s %s: %s: %.600s", method, path, w.Status, raw)
	case int64(len(raw)) > most:
		return nil, 0, fmt.Errorf("%s %s: longer than the %d bytes that it should have", method, path, most)
	}
	return raw, 0, nil
}

package trainer

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/internal/arrowfile"
	"millrace/schemas/sample"
)

// server answers as the checkpoint role does, for one cut of two parts.
type server struct {
	mu        sync.Mutex
	state     string
	manifest  map[string]any
	parts     [][]byte
	trouble   int // so many answers are 503 first
	submitted []submission
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer mr_t" {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	if s.trouble > 0 {
		s.trouble--
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	}
	document, _ := json.Marshal(s.manifest)
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch {
	case r.Method == http.MethodPost:
		var x submission
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &x)
		s.submitted = append(s.submitted, x)
		s.state = "submitted"
		answer(map[string]string{"id": "cand-2"})
	case r.URL.Path == "/v1/candidates":
		answer(map[string]any{"candidates": []map[string]any{
			{"id": "cand-1", "cut": "cut-1", "base": "base-0", "state": "held"},
			{"id": "cand-2", "cut": "cut-2", "base": "base-0", "state": s.state},
		}})
	case r.URL.Path == "/v1/cuts/cut-2":
		answer(map[string]any{"id": "cut-2", "state": "packed", "rows": s.manifest["rows"], "manifest_sha256": arrowfile.SHA256(document)})
	case r.URL.Path == "/v1/cuts/cut-2/manifest":
		_, _ = w.Write(document)
	case strings.HasPrefix(r.URL.Path, "/v1/cuts/cut-2/parts/"):
		n, _ := strconv.Atoi(filepath.Base(r.URL.Path))
		_, _ = w.Write(s.parts[n])
	default:
		http.NotFound(w, r)
	}
}

// setup serves a cut of 300 rows, one of them too long and one without a trained token.
func setup(t *testing.T) (*Trainer, *server) {
	t.Helper()
	rows := drawn(300)
	rows[10] = tokens(map[uint32]float64{1: .3}, 60, 1)
	rows[20] = tokens(nil, 4)
	for i := range rows {
		rows[i].SampleID, rows[i].TurnID, rows[i].SessionID = "s/"+strconv.Itoa(i), strconv.Itoa(i), "s"
		rows[i].TokenizerDigest, rows[i].SettledAt = "tok", time.Unix(1_800_000_000, 0).UTC()
	}
	s := &server{state: "training"}
	var parts []map[string]any
	for n, some := range [][]sample.Row{rows[:200], rows[200:]} {
		raw, err := arrowfile.WriteShard(arrowfile.ShardMeta{ShardID: "cut-2/" + strconv.Itoa(n)}, some, arrowfile.Zstd)
		require.NoError(t, err)
		s.parts = append(s.parts, raw)
		parts = append(parts, map[string]any{"number": n, "sha256": arrowfile.SHA256(raw), "bytes": len(raw), "rows": len(some)})
	}
	s.manifest = map[string]any{
		"millrace.cut": 1, "cut": "cut-2", "base": "base-0", "policy_versions": []string{"base-0"}, "rows": 300,
		"tokenizer_digest": "tok", "parts": parts,
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	trainer, err := New(Config{URL: web.URL, Token: "mr_t", Outbox: t.TempDir(), Context: 50})
	require.NoError(t, err)
	return trainer, s
}

func TestStep(t *testing.T) {
	t.Parallel()
	trainer, s := setup(t)
	s.trouble = 2
	r, err := trainer.Step(t.Context())
	require.NoError(t, err)
	require.Equal(t, "cut-2", r.Cut)
	require.Equal(t, "cand-2", r.Version)
	require.EqualValues(t, 298, r.RowsTrained)
	require.EqualValues(t, 2, r.RowsDropped)

	require.Len(t, s.submitted, 1)
	x := s.submitted[0]
	require.Equal(t, []drop{
		{"longer than the context of 50 tokens", "filtered", 1},
		{"no token to train on", "filtered", 1},
	}, x.RowsDropped)
	require.EqualValues(t, 298, x.RowsTrained)
	require.Equal(t, []string{"cut-2/0", "cut-2/1"}, x.Shards)
	require.Equal(t, "base-0", x.Base)
	require.Equal(t, "tok", x.TokenizerDigest)
	require.Equal(t, "file://"+r.Folder, x.WeightsURI)
	weights, err := os.ReadFile(filepath.Join(r.Folder, x.Files[0].Path))
	require.NoError(t, err)
	require.Equal(t, x.Files[0].SHA256, arrowfile.SHA256(weights))
	require.EqualValues(t, len(weights), x.Files[0].Bytes)
	require.Equal(t, arrowfile.SHA256([]byte(x.Files[0].SHA256)), x.RootDigest)

	none, err := trainer.Step(t.Context())
	require.NoError(t, err)
	require.Nil(t, none, "nothing wants a candidate now")

	s.state = "training" // as after a crash before the answer came
	again, err := trainer.Step(t.Context())
	require.NoError(t, err)
	require.Equal(t, r, again)
	require.Equal(t, x, s.submitted[1], "the same submission")
	left, err := os.ReadDir(r.Folder)
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")
}

func TestNothingUnverifiedIsTrainedOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(s *server)
		want  string
	}{
		"a flipped bit":        {func(s *server) { s.parts[1][len(s.parts[1])/2] ^= 1 }, "part 1: not what the manifest says"},
		"a part cut short":     {func(s *server) { s.parts[0] = s.parts[0][:100] }, "part 0: not what the manifest says"},
		"a part that goes on":  {func(s *server) { s.parts[0] = append(s.parts[0], 0) }, "longer than the"},
		"another base":         {func(s *server) { s.manifest["base"] = "cand-1" }, "wanted was cut-2 on base-0"},
		"rows that don't add":  {func(s *server) { s.manifest["rows"] = 299 }, "the parts have 300 rows"},
		"a foreign version":    {func(s *server) { s.manifest["policy_versions"] = []string{"cand-1"} }, `policy version "base-0"`},
		"another tokenizer":    {func(s *server) { s.manifest["tokenizer_digest"] = "other" }, `tokenizer "tok"`},
		"a format of tomorrow": {func(s *server) { s.manifest["millrace.cut"] = 2 }, "format 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trainer, s := setup(t)
			c.spoil(s)
			_, err := trainer.Step(t.Context())
			require.ErrorContains(t, err, c.want)
			require.Empty(t, s.submitted)
		})
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	trainer, s := setup(t)
	trainer.cfg.Every = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	results := 0
	require.NoError(t, trainer.Run(ctx, func(r *Result, err error) {
		require.NoError(t, err)
		require.Equal(t, "cand-2", r.Version)
		results++
		cancel()
	}))
	require.Equal(t, 1, results)
	require.Len(t, s.submitted, 1)
}

func TestErrorsSayWhere(t *testing.T) {
	t.Parallel()
	trainer, _ := setup(t)
	trainer.cfg.Token = "mr_wrong"
	_, err := trainer.Step(t.Context())
	require.ErrorContains(t, err, "GET /v1/candidates: 401")

	for want, cfg := range map[string]Config{
		"URL is missing":  {Outbox: "/x"},
		`Outbox is "out"`: {URL: "http://x", Outbox: "out"},
		"Context is -1":   {URL: "http://x", Outbox: "/x", Context: -1},
		"Rate is -1":      {URL: "http://x", Outbox: "/x", Rate: -1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

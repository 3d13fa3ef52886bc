package checkpoint

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/adoption"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/experiment"
	"millrace/checkpoint/gate"
	"millrace/checkpoint/release"
	"millrace/internal/arrowfile"
	"millrace/internal/auth"
	"millrace/internal/objstore"
	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

// serve serves the world's API; a request's scope is what its header says.
func (w *world) serve(now *time.Time) func(method, path, scope string, body any) (int, http.Header, []byte) {
	w.t.Helper()
	api := &API{
		DB: w.pool, Store: w.store, Now: func() time.Time { return *now }, Topic: "events", Partitions: 2, Log: slog.New(slog.DiscardHandler),
		Guard: func(scope auth.Scope) func(http.Handler) http.Handler {
			return func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Scope") != string(scope) {
						rw.WriteHeader(http.StatusForbidden)
						return
					}
					next.ServeHTTP(rw, r)
				})
			}
		},
	}
	server := httptest.NewServer(api.Handler())
	w.t.Cleanup(server.Close)
	return func(method, path, scope string, body any) (int, http.Header, []byte) {
		text, err := json.Marshal(body)
		require.NoError(w.t, err)
		r, err := http.NewRequestWithContext(w.t.Context(), method, server.URL+path, bytes.NewReader(text))
		require.NoError(w.t, err)
		r.Header.Set("Scope", scope)
		if s, ok := body.(string); ok && method == http.MethodGet {
			r.Header.Set("Range", s)
		}
		answer, err := server.Client().Do(r)
		require.NoError(w.t, err)
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		require.NoError(w.t, err)
		return answer.StatusCode, answer.Header, got
	}
}

func decode[T any](t *testing.T, body []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(body, &v), string(body))
	return v
}

func TestAPI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	now := at(0, 0)
	call := w.serve(&now)
	c := w.control()

	code, _, body := call("GET", "/v1/release", "gates:read", nil)
	require.Equal(t, 200, code)
	require.Equal(t, "base", decode[Status](t, body).Live.Version)
	code, _, body = call("POST", "/v1/cuts", "releases:write", nil)
	require.Equal(t, 409, code, string(body))
	code, _, _ = call("GET", "/v1/cuts", "events:write", nil)
	require.Equal(t, 403, code)

	w.interval()
	w.step(c, 0, 0)
	code, _, body = call("GET", "/v1/cuts", "shards:read", nil)
	require.Equal(t, 200, code)
	require.Equal(t, "cut-1", decode[map[string][]cut.Cut](t, body)["cuts"][0].ID)
	code, _, body = call("GET", "/v1/cuts/cut-9", "shards:read", nil)
	require.Equal(t, 404, code)
	require.Equal(t, "not_found", decode[Failure](t, body).Error)

	code, header, body := call("GET", "/v1/cuts/cut-1/manifest", "shards:read", nil)
	require.Equal(t, 200, code)
	require.Equal(t, `"`+arrowfile.SHA256(body)+`"`, header.Get("ETag"))
	m := w.manifest("cut-1")
	code, _, whole := call("GET", "/v1/cuts/cut-1/parts/0", "shards:read", nil)
	require.Equal(t, 200, code)
	require.Equal(t, m.Parts[0].SHA256, arrowfile.SHA256(whole))
	code, _, body = call("GET", "/v1/cuts/cut-1/parts/0", "shards:read", "bytes=8-99")
	require.Equal(t, 206, code)
	require.Equal(t, whole[8:100], body)
	code, _, _ = call("GET", "/v1/cuts/cut-1/parts/99", "shards:read", nil)
	require.Equal(t, 404, code)

	now = at(0, 30)
	good := w.submission("cut-1", "cand-1")
	for name, x := range map[string]struct {
		body   any
		status int
		code   string
	}{
		"a misspelt field": {map[string]any{"cut": "cut-1", "weight_uri": "x"}, 400, "malformed"},
		"a missing field":  {candidate.Submission{Cut: "cut-1"}, 400, "malformed"},
		"an unknown cut":   {func() any { s := *good; s.Cut = "cut-7"; return s }(), 404, "unknown_cut"},
		"a wrong base":     {func() any { s := *good; s.Base = "x"; return s }(), 422, "wrong_base"},
		"an existing name": {func() any { s := *good; s.Version = "base"; return s }(), 409, "version_exists"},
	} {
		code, _, body = call("POST", "/v1/candidates", "candidates:write", x.body)
		require.Equal(t, x.status, code, name)
		require.Equal(t, x.code, decode[Failure](t, body).Error, name)
	}
	code, _, body = call("POST", "/v1/candidates", "candidates:write", good)
	require.Equal(t, 200, code, string(body))
	require.Equal(t, candidate.Submitted, decode[candidate.Candidate](t, body).State)
	w.step(c, 0, 31)
	w.step(c, 1, 15)
	code, _, body = call("GET", "/v1/candidates/cand-1", "gates:read", nil)
	require.Equal(t, 200, code)
	require.Len(t, decode[candidate.Candidate](t, body).Events, 5)

	now = at(4, 41)
	w.traffic("exp-1", 0)
	w.committed(at(4, 40))
	code, _, body = call("GET", "/v1/experiments/exp-1/evidence", "gates:read", nil)
	require.Equal(t, 200, code)
	require.Equal(t, gate.Hold, decode[gate.Record](t, body).Verdict.Decision)
	code, _, _ = call("GET", "/v1/candidates/cand-1/verdict", "gates:read", nil)
	require.Equal(t, 404, code)
	w.step(c, 4, 41)
	code, _, body = call("GET", "/v1/candidates/cand-1/verdict", "gates:read", nil)
	require.Equal(t, 200, code)
	require.Contains(t, string(body), `"verdict":"HOLD"`)

	code, _, body = call("POST", "/v1/release", "releases:write", Move{Action: release.ActionPromote, Candidate: "cand-1"})
	require.Equal(t, 400, code)
	require.Contains(t, decode[Failure](t, body).Message, "why is missing")
	code, _, body = call("POST", "/v1/release", "releases:write", Move{Action: release.ActionPromote, Candidate: "cand-1", Why: "we want it"})
	require.Equal(t, 200, code, string(body))
	require.Equal(t, "cand-1", decode[release.Release](t, body).Version)
	code, _, _ = call("POST", "/v1/release", "releases:write", Move{Action: release.ActionPromote, Candidate: "cand-1", Why: "again"})
	require.Equal(t, 409, code)
	code, _, body = call("POST", "/v1/release", "releases:write", Move{Action: release.ActionRollback, Why: "no"})
	require.Equal(t, 200, code)
	require.Equal(t, "base", decode[release.Release](t, body).Version)
	code, _, body = call("POST", "/v1/release", "releases:write", Move{Action: release.ActionRollback, Why: "once more"})
	require.Equal(t, 409, code, string(body))
	code, _, body = call("POST", "/v1/release", "releases:write", Move{Action: release.ActionInit, Version: "other"})
	require.Equal(t, 409, code)
	require.Contains(t, decode[Failure](t, body).Message, "base since")
	code, _, body = call("GET", "/v1/release/history", "gates:read", nil)
	require.Equal(t, 200, code)
	require.Len(t, decode[map[string][]release.Release](t, body)["releases"], 3)
	code, _, _ = call("POST", "/v1/cuts", "releases:write", nil)
	require.Equal(t, 200, code)
	code, _, body = call("GET", "/v1/release", "gates:read", nil)
	require.Equal(t, 200, code)
	require.Equal(t, at(5, 0), *decode[Status](t, body).NextCut)
}

// TestTheRewardIsAdoptedOverTheAPI: the documents lie in the store before the workers hear of them.
func TestTheRewardIsAdoptedOverTheAPI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, document := rewardspec.Default()
	require.NoError(t, w.store.PutIfAbsent(t.Context(), objstore.DocumentKey(arrowfile.SHA256(document)), document))
	w.tx(func(tx pgx.Tx) error {
		return experiment.Propose(t.Context(), tx, at(-1, 0), "the shipped spec", func(c *event.ConfigAdopted) error {
			c.RewardSpecDigest = arrowfile.SHA256(document)
			return nil
		})
	})
	now := at(0, 0)
	call, c := w.serve(&now), w.control()

	second := strings.Replace(string(document), "version: 1", "version: 2", 1)
	code, _, _ := call("POST", "/v1/reward", "releases:write", adoption.Request{Spec: second, Why: "x"})
	require.Equal(t, 403, code)
	code, _, body := call("POST", "/v1/reward", "rewards:write", adoption.Request{Spec: "kind: RewardSpec", Why: "x"})
	require.Equal(t, 422, code)
	require.Equal(t, "spec", decode[Failure](t, body).Field)
	code, _, body = call("POST", "/v1/reward", "rewards:write", adoption.Request{Spec: second, Why: "x", Replaces: "other"})
	require.Equal(t, 409, code, string(body))
	code, _, body = call("POST", "/v1/reward", "rewards:write", adoption.Request{Spec: second, Why: "a try"})
	require.Equal(t, 200, code, string(body))
	require.False(t, decode[adoption.InForce](t, body).InLog)

	w.step(c, -1, 30)
	told := w.controls[len(w.controls)-1].GetConfigAdopted()
	require.Equal(t, arrowfile.SHA256([]byte(second)), told.RewardSpecDigest)
	require.Equal(t, "composer@2", told.RewardSpecName)
	code, _, body = call("GET", "/v1/reward", "gates:read", nil)
	require.Equal(t, 200, code)
	require.Equal(t, second, decode[Reward](t, body).Documents.Spec)
	require.True(t, decode[Reward](t, body).InLog)
	code, _, body = call("GET", "/v1/reward/history", "gates:read", nil)
	require.Equal(t, 200, code)
	require.Len(t, decode[map[string][]adoption.InForce](t, body)["rewards"], 3)
}

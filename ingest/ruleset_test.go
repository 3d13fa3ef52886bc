package ingest_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/assignment"
	"millrace/ingest"
)

func TestRulesetIsSignedAndKeepsItsTag(t *testing.T) {
	t.Parallel()
	b := setupAssign(t, ingest.AssignConfig{ValidFor: 10 * time.Minute})
	get := func(path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		b.assigner.Handler(reader{}).ServeHTTP(w, r)
		return w
	}
	require.Equal(t, http.StatusServiceUnavailable, get("/v1/ruleset", "").Code)
	b.refresh(t)
	first := get("/v1/ruleset", "")
	require.Equal(t, http.StatusOK, first.Code)

	var key map[string]string
	require.NoError(t, json.Unmarshal(get("/v1/ruleset/key", "").Body.Bytes(), &key))
	public, err := assignment.ParseKey(key["public_key"])
	require.NoError(t, err)
	require.Equal(t, b.key.Public(), public)
	rules, err := assignment.Verify(first.Body.Bytes(), public)
	require.NoError(t, err)
	require.Equal(t, b.now.Add(10*time.Minute), rules.ValidUntil)
	for i := range 200 { // the same answers, whoever evaluates
		unit := fmt.Sprint("user-", i)
		local, err := rules.Assign(assignment.Query{Unit: unit}, b.now)
		require.NoError(t, err)
		require.Equal(t, b.evaluate(t, unit, ""), local)
	}

	tag := first.Header().Get("ETag")
	b.now = b.now.Add(2 * time.Minute)
	b.refresh(t)
	require.Equal(t, http.StatusNotModified, get("/v1/ruleset", tag).Code, "nothing has changed")
	b.err = errors.New("postgres is away")
	require.Error(t, b.assigner.Refresh(t.Context()))
	b.now = b.now.Add(30 * time.Second)
	second := get("/v1/ruleset", tag)
	require.Equal(t, http.StatusOK, second.Code, "a fresh one in good time, also while Postgres is away")
	rules, err = assignment.Verify(second.Body.Bytes(), public)
	require.NoError(t, err)
	require.Equal(t, b.now.Add(10*time.Minute), rules.ValidUntil)

	b.err = nil
	b.rules.Experiment = nil
	b.refresh(t)
	third := get("/v1/ruleset", second.Header().Get("ETag"))
	require.Equal(t, http.StatusOK, third.Code, "what changes is signed at once")
	rules, err = assignment.Verify(third.Body.Bytes(), public)
	require.NoError(t, err)
	require.Nil(t, rules.Experiment)
}

// TestClientAgainstTheGateway: fetched, not modified, changed, away, expired, and signed by a stranger.
func TestClientAgainstTheGateway(t *testing.T) {
	t.Parallel()
	b := setupAssign(t, ingest.AssignConfig{ValidFor: 10 * time.Minute})
	var answered []int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		b.assigner.Handler(reader{}).ServeHTTP(recorder, r)
		answered = append(answered, recorder.Code)
		w.Header().Set("ETag", recorder.Header().Get("ETag"))
		w.WriteHeader(recorder.Code)
		w.Write(recorder.Body.Bytes())
	}))
	defer server.Close()
	clientOf := func(key ed25519.PrivateKey) *assignment.Client {
		public, ok := key.Public().(ed25519.PublicKey)
		require.True(t, ok)
		c, err := assignment.New(assignment.Config{URL: server.URL + "/", Token: "mr_x", Keys: []ed25519.PublicKey{public}, Clock: func() time.Time { return b.now }})
		require.NoError(t, err)
		return c
	}
	client, suspicious := clientOf(b.key), clientOf(ed25519.NewKeyFromSeed([]byte("a key that nobody trusts at all!")))
	fallback := assignment.Assignment{Version: "mine", Variant: "default"}
	refused := func(c *assignment.Client, unit string, because ...error) {
		t.Helper()
		a, err := c.Assign(assignment.Query{Unit: unit}, "mine")
		require.Equal(t, fallback, a)
		for _, e := range because {
			require.ErrorIs(t, err, e)
		}
	}
	refused(client, "u", assignment.ErrNoRuleset)
	require.ErrorContains(t, client.Refresh(t.Context()), "503")
	b.refresh(t)
	require.NoError(t, client.Refresh(t.Context()))
	require.NoError(t, client.Refresh(t.Context()))
	require.Equal(t, []int{503, 200, 304}, answered)
	refused(client, "", assignment.ErrNoUnit)
	unit := unitIn(t, b, "candidate")
	a, err := client.Assign(assignment.Query{Unit: unit}, "mine")
	require.NoError(t, err)
	require.Equal(t, "cand", a.Version)

	require.ErrorIs(t, suspicious.Refresh(t.Context()), assignment.ErrSignature)
	refused(suspicious, unit, assignment.ErrNoRuleset, assignment.ErrSignature)

	server.Close()
	require.Error(t, client.Refresh(t.Context()))
	b.now = b.now.Add(10*time.Minute - time.Second)
	a, err = client.Assign(assignment.Query{Unit: unit}, "mine")
	require.NoError(t, err, "nobody is needed until the ruleset's end")
	require.Equal(t, "cand", a.Version)
	b.now = b.now.Add(time.Second)
	refused(client, unit, assignment.ErrExpired)
}

func TestAssignConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := ingest.NewAssigner(ingest.AssignConfig{}, nil, nil, nil, nil)
	require.ErrorContains(t, err, "signing key")
	for want, cfg := range map[string]assignment.Config{
		"URL":       {Keys: []ed25519.PublicKey{make([]byte, 32)}},
		"no key":    {URL: "http://x"},
		"3 bytes":   {URL: "http://x", Keys: []ed25519.PublicKey{{1, 2, 3}}},
		"every -1s": {URL: "http://x", Keys: []ed25519.PublicKey{make([]byte, 32)}, Every: -time.Second},
	} {
		_, err := assignment.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

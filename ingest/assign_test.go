package ingest_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"millrace/assignment"
	"millrace/ingest"
	"millrace/internal/auth"
	"millrace/internal/unithash"
)

// reader lets in who may read assignments.
type reader struct{}

func (reader) Middleware(scope auth.Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if scope != auth.AssignRead {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

type assignBundle struct {
	assigner *ingest.Assigner
	rules    assignment.Ruleset
	err      error
	now      time.Time
	key      ed25519.PrivateKey
}

func setupAssign(t *testing.T, cfg ingest.AssignConfig) *assignBundle {
	t.Helper()
	b := &assignBundle{now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	b.rules = assignment.Ruleset{Live: "base", Experiment: &assignment.Experiment{
		ID: "x1", Salt: "salt-1", Coverage: 4000, Control: "base", Candidate: "cand", StartsAt: b.now, EndsAt: b.now.Add(time.Hour),
	}}
	cfg.Key = b.key
	var err error
	b.assigner, err = ingest.NewAssigner(cfg, func(context.Context) (assignment.Ruleset, error) { return b.rules, b.err },
		func() time.Time { return b.now }, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	return b
}

func (b *assignBundle) refresh(t *testing.T) {
	t.Helper()
	require.NoError(t, b.assigner.Refresh(t.Context()))
}

func (b *assignBundle) evaluate(t *testing.T, unit, session string) assignment.Assignment {
	t.Helper()
	a, err := b.assigner.Evaluate(assignment.Query{Unit: unit}, session)
	require.NoError(t, err)
	return a
}

// unitIn finds a unit that the experiment puts into the arm ("" is outside).
func unitIn(t *testing.T, b *assignBundle, arm string) string {
	t.Helper()
	for i := range 1000 {
		unit := fmt.Sprint("user-", i)
		if b.evaluate(t, unit, "").Arm == arm {
			return unit
		}
	}
	require.Fail(t, "no unit in arm "+arm)
	return ""
}

func TestAssignment(t *testing.T) {
	t.Parallel()
	b := setupAssign(t, ingest.AssignConfig{})
	_, err := b.assigner.Evaluate(assignment.Query{Unit: "u"}, "")
	require.ErrorIs(t, err, assignment.ErrNoRuleset)
	b.refresh(t)
	for i := range 2_000 {
		unit := fmt.Sprint("user-", i)
		a := b.evaluate(t, unit, "")
		bucket := unithash.Bucket("salt-1", unit)
		switch {
		case bucket < 2000:
			require.Equal(t, assignment.Assignment{Version: "base", Variant: "control", Experiment: "x1", Arm: "control", ValidUntil: b.rules.Experiment.EndsAt}, a)
		case bucket >= 5000 && bucket < 7000:
			require.Equal(t, "cand", a.Version)
		default:
			require.Equal(t, assignment.Assignment{Version: "base", Variant: "live"}, a)
		}
	}

	candidate := unitIn(t, b, "candidate")
	b.now = b.now.Add(time.Hour)
	require.EqualValues(t, "live", b.evaluate(t, candidate, "").Variant, "the experiment is over")

	b.err = errors.New("postgres is away")
	require.Error(t, b.assigner.Refresh(t.Context()))
	b.now = b.now.AddDate(0, 0, 7)
	require.Equal(t, "base", b.evaluate(t, candidate, "").Version, "the last ruleset stays in force")
	b.err, b.rules = nil, assignment.Ruleset{}
	require.ErrorContains(t, b.assigner.Refresh(t.Context()), "release init")
}

func TestSessionsKeepTheirCheckpoint(t *testing.T) {
	t.Parallel()
	b := setupAssign(t, ingest.AssignConfig{Sessions: 3})
	b.refresh(t)
	unit := unitIn(t, b, "candidate")
	began := b.evaluate(t, unit, "s1")
	require.Equal(t, "cand", began.Version)

	experiment := b.rules.Experiment
	b.rules = assignment.Ruleset{Live: "later", Kept: []string{"cand", "base"}}
	b.refresh(t)
	require.Equal(t, began, b.evaluate(t, unit, "s1"), "the session that began before")
	require.Equal(t, "later", b.evaluate(t, unit, "s2").Version)

	b.rules.Kept = []string{"base"}
	b.refresh(t)
	require.Equal(t, "later", b.evaluate(t, unit, "s1").Version, "nobody keeps what was rolled back")

	b.rules = assignment.Ruleset{Live: "newest", Experiment: experiment, Kept: []string{"later"}}
	b.refresh(t)
	require.Equal(t, "later", b.evaluate(t, unit, "s2").Version, "a session begun before an experiment stays out of it")
	for _, s := range []string{"s3", "s4", "s5"} {
		b.evaluate(t, unit, s)
	}
	require.Equal(t, "cand", b.evaluate(t, unit, "s1").Version, "the longest unused session is forgotten")
}

func TestTheSameSessionIDOfTwoUnits(t *testing.T) {
	t.Parallel()
	b := setupAssign(t, ingest.AssignConfig{})
	b.refresh(t)
	for _, arm := range []string{"candidate", "control", ""} {
		require.Equal(t, arm, b.evaluate(t, unitIn(t, b, arm), "main").Arm)
	}
}

// What the backend says its session is on is kept where this gateway doesn't remember the session.
func TestTheBackendRemembers(t *testing.T) {
	t.Parallel()
	b := setupAssign(t, ingest.AssignConfig{})
	b.rules.Kept = []string{"older"}
	b.refresh(t)
	inside, control, outside := unitIn(t, b, "candidate"), unitIn(t, b, "control"), unitIn(t, b, "")
	for name, c := range map[string]struct{ unit, checkpoint, experiment, version, arm string }{
		"new session":                        {inside, "", "", "cand", "candidate"},
		"the candidate, in its arm":          {inside, "cand", "x1", "cand", "candidate"},
		"live, before the test":              {inside, "base", "", "base", ""},
		"live, before the test, and control": {control, "base", "", "base", ""},
		"live, in the test":                  {control, "base", "x1", "base", "control"},
		"live before":                        {inside, "older", "", "older", ""},
		"held":                               {outside, "held", "", "base", ""},
		"nobody knows it":                    {outside, "made-up", "", "base", ""},
		"the candidate, out of its arm":      {outside, "cand", "x1", "base", ""},
	} {
		a, err := b.assigner.Evaluate(assignment.Query{Unit: c.unit, Checkpoint: c.checkpoint, Experiment: c.experiment}, name)
		require.NoError(t, err)
		require.Equal(t, c.version, a.Version, name)
		require.Equal(t, c.arm, a.Arm, name)
		again, err := b.assigner.Evaluate(assignment.Query{Unit: c.unit, Checkpoint: "another"}, name)
		require.NoError(t, err)
		require.Equal(t, a, again, "remembered from now on")
	}
}

func TestOFREP(t *testing.T) {
	t.Parallel()
	b := setupAssign(t, ingest.AssignConfig{})
	ask := func(path, body string, headers ...string) (*httptest.ResponseRecorder, map[string]any) {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		b.assigner.Handler(reader{}).ServeHTTP(w, r)
		var answer map[string]any
		if w.Body.Len() > 0 {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
		}
		return w, answer
	}
	const one, all = "/ofrep/v1/evaluate/flags/composer-checkpoint", "/ofrep/v1/evaluate/flags"
	w, _ := ask(one, `{"context":{"targetingKey":"u"}}`)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	b.refresh(t)
	for name, c := range map[string]struct {
		path, body string
		status     int
		code       string
	}{
		"not JSON":      {one, `{`, 400, "PARSE_ERROR"},
		"nothing":       {one, ``, 400, "PARSE_ERROR"},
		"no context":    {one, `{}`, 400, "TARGETING_KEY_MISSING"},
		"no key":        {one, `{"context":{}}`, 400, "TARGETING_KEY_MISSING"},
		"empty key":     {all, `{"context":{"targetingKey":""}}`, 400, "TARGETING_KEY_MISSING"},
		"number as key": {one, `{"context":{"targetingKey":1}}`, 400, "INVALID_CONTEXT"},
		"session":       {one, `{"context":{"targetingKey":"u","sessionId":1}}`, 400, "INVALID_CONTEXT"},
		"checkpoint":    {one, `{"context":{"targetingKey":"u","currentCheckpoint":1}}`, 400, "INVALID_CONTEXT"},
		"experiment":    {one, `{"context":{"targetingKey":"u","currentExperiment":true}}`, 400, "INVALID_CONTEXT"},
		"context":       {one, `{"context":[]}`, 400, "INVALID_CONTEXT"},
		"a list":        {all, `[]`, 400, "INVALID_CONTEXT"},
		"twice":         {one, `{"context":{"targetingKey":"u"}} {}`, 400, "PARSE_ERROR"},
		"too large":     {one, `{"context":{"targetingKey":"u","x":"` + strings.Repeat("x", 70_000) + `"}}`, 400, "PARSE_ERROR"},
		"endless":       {one, `{"context":{"targetingKey":"u","sessionId":"` + strings.Repeat("x", 5000) + `"}}`, 400, "INVALID_CONTEXT"},
		"another flag":  {"/ofrep/v1/evaluate/flags/colour", `{"context":{"targetingKey":"u"}}`, 404, "FLAG_NOT_FOUND"},
		"bulk not JSON": {all, `x`, 400, "PARSE_ERROR"},
	} {
		w, answer := ask(c.path, c.body)
		require.Equal(t, c.status, w.Code, name)
		require.Equal(t, c.code, answer["errorCode"], name)
		require.NotEmpty(t, answer["errorDetails"], name)
	}

	unit := unitIn(t, b, "candidate")
	w, answer := ask(one, `{"context":{"targetingKey":"`+unit+`","sessionId":"s1","plan":"pro"}}`)
	require.Equal(t, http.StatusOK, w.Code)
	want := map[string]any{
		"key": "composer-checkpoint", "reason": "SPLIT", "variant": "candidate", "value": "cand",
		"metadata": map[string]any{"experiment": "x1", "arm": "candidate", "hash_version": 2., "valid_until": "2026-11-01T13:00:00Z"},
	}
	require.Equal(t, want, answer)
	_, answer = ask(one, `{"context":{"targetingKey":"`+unitIn(t, b, "")+`"}}`)
	require.Equal(t, map[string]any{"key": "composer-checkpoint", "reason": "STATIC", "variant": "live", "value": "base", "metadata": map[string]any{"hash_version": 2.}}, answer)

	_, answer = ask(one, `{"context":{"targetingKey":"`+unit+`","sessionId":"s2","currentCheckpoint":"base"}}`)
	require.Equal(t, map[string]any{
		"key": "composer-checkpoint", "reason": "TARGETING_MATCH", "variant": "kept", "value": "base", "metadata": map[string]any{"hash_version": 2.},
	}, answer, "the session is on it and stays")

	body := `{"context":{"targetingKey":"` + unit + `"}}`
	w, answer = ask(all, body)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, []any{want}, answer["flags"])
	tag := w.Header().Get("ETag")
	require.NotEmpty(t, tag)
	w, _ = ask(all, body, "If-None-Match", "\"other\", W/"+tag)
	require.Equal(t, http.StatusNotModified, w.Code)
	require.Empty(t, w.Body.String())
	b.rules = assignment.Ruleset{Live: "next"}
	b.refresh(t)
	w, _ = ask(all, body, "If-None-Match", tag)
	require.Equal(t, http.StatusOK, w.Code, "another cycle, another tag")
}

func TestAssignerRun(t *testing.T) {
	t.Parallel()
	read := make(chan struct{}, 1)
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	a, err := ingest.NewAssigner(ingest.AssignConfig{RefreshEvery: time.Millisecond, Key: key}, func(context.Context) (assignment.Ruleset, error) {
		select {
		case read <- struct{}{}:
		default:
		}
		return assignment.Ruleset{Live: "base"}, nil
	}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	<-read
	<-read
	cancel()
	require.NoError(t, <-done)
	decided, err := a.Evaluate(assignment.Query{Unit: "u"}, "s")
	require.NoError(t, err)
	require.Equal(t, "base", decided.Version)
}

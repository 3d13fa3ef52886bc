package checkpoint

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/audit"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/evals"
	"millrace/checkpoint/release"
)

func suites(t *testing.T) *evals.Suites {
	t.Helper()
	s, err := evals.Parse([]byte("apiVersion: millrace/v1\nkind: EvalSuites\nsuites: [{name: swe, bounds: [{metric: solved, min: 0.3, max_drop: 0.02}]}]\n"))
	require.NoError(t, err)
	return s
}

func (w *world) evaluated(version string, solved float64, now time.Time) {
	w.t.Helper()
	w.tx(func(tx pgx.Tx) error {
		return evals.Store(w.t.Context(), tx, evals.Report{Version: version, Suite: "swe", HarnessVersion: "1", Metrics: map[string]float64{"solved": solved}, At: now, Who: "bench"})
	})
}

// A candidate meets live traffic only when its suites let it: missing reports block until its time is over, a bound that
// isn't kept ends it.
func TestOfflineSuitesBlock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report func(w *world)
		state  candidate.State
		reason string
	}{
		"kept": {func(w *world) { w.evaluated("base", .42, at(-2, 0)); w.evaluated("cand-1", .41, at(0, 50)) }, candidate.Testing, "exp-1"},
		"reported anew": {func(w *world) {
			w.evaluated("base", .42, at(-2, 0))
			w.evaluated("cand-1", .1, at(0, 40))
			w.evaluated("cand-1", .41, at(0, 50))
		}, candidate.Testing, "exp-1"},
		"not kept":         {func(w *world) { w.evaluated("base", .42, at(-2, 0)); w.evaluated("cand-1", .39, at(0, 50)) }, candidate.Rejected, "swe: solved is 0.39, its base's is 0.42"},
		"missing":          {func(*world) {}, candidate.TimedOut, "swe on cand-1: no report"},
		"the base's is":    {func(w *world) { w.evaluated("cand-1", .9, at(0, 50)) }, candidate.TimedOut, "swe on its base base: no report"},
		"too old to count": {func(w *world) { w.evaluated("base", .42, at(-2, 0)); w.evaluated("cand-1", .9, at(-30, 0)) }, candidate.TimedOut, "at most 24h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.cfg.Suites = suites(t)
			ctl := w.control()
			w.interval()
			w.step(ctl, -1, 0)
			w.step(ctl, 0, 0)
			w.submit(w.submission("cut-1", "cand-1"), at(0, 30))
			w.step(ctl, 0, 31)
			require.Equal(t, candidate.Evaluating, w.state("cand-1"))
			c.report(w)
			w.step(ctl, 0, 55)
			w.step(ctl, 1, 15)
			w.step(ctl, 1, 16)
			require.Equal(t, c.state, w.state("cand-1"))
			k, err := candidate.Get(t.Context(), w.pool, "cand-1")
			require.NoError(t, err)
			require.Contains(t, k.Reason, c.reason)
		})
	}
}

func (w *world) pause(paused bool, now time.Time) {
	w.t.Helper()
	w.tx(func(tx pgx.Tx) error {
		return release.SetPause(w.t.Context(), tx, release.Pause{Paused: paused, At: now, Who: "eva", Why: "incident 7"})
	})
}

// While the loop is paused no cut and no test begins, and a test that runs promotes nothing; resumed, all goes on.
func TestPaused(t *testing.T) {
	t.Parallel()
	t.Run("no cut begins", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		c := w.control()
		w.interval()
		w.step(c, -1, 0)
		w.pause(true, at(-1, 30))
		w.step(c, 0, 0)
		require.Equal(t, "skipped", string(w.cut("cut-1").State))
		require.Contains(t, w.cut("cut-1").Reason, "the loop is paused by eva: incident 7")
		w.pause(false, at(1, 0))
		w.step(c, 5, 0)
		require.Equal(t, "packed", string(w.cut("cut-2").State))
		require.EqualValues(t, 260, w.cut("cut-2").Taken)
	})
	t.Run("no test begins", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		c := w.control()
		w.interval()
		w.step(c, -1, 0)
		w.step(c, 0, 0)
		w.submit(w.submission("cut-1", "cand-1"), at(0, 30))
		w.pause(true, at(0, 20))
		w.step(c, 0, 31)
		w.step(c, 1, 16)
		require.Equal(t, candidate.TimedOut, w.state("cand-1"))
	})
	t.Run("nothing is promoted by itself", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		c := w.control()
		w.interval()
		w.step(c, -1, 0)
		w.step(c, 0, 0)
		w.submit(w.submission("cut-1", "cand-1"), at(0, 30))
		w.step(c, 0, 31)
		w.step(c, 1, 15)
		w.traffic("exp-1", .1)
		w.pause(true, at(2, 0))
		w.committed(at(4, 40))
		w.step(c, 4, 41)
		require.Equal(t, candidate.Held, w.state("cand-1"))
		require.Equal(t, "base", w.live().Version)
		now := at(4, 45)
		w.tx(func(tx pgx.Tx) error { return PromoteHeld(t.Context(), tx, "cand-1", "eva", "seen", now) })
		require.Equal(t, "cand-1", w.live().Version)
	})
}

// Every unit's version at every time comes out of the history as the assignment gave it.
func TestServed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.run(func(h, m int) { w.step(c, h, m) })
	require.Equal(t, "cand-1", w.live().Version)
	count := func(when time.Time) map[string]int {
		got := map[string]int{}
		for i := range 200 {
			s, err := release.ServedAt(t.Context(), w.pool, string(rune('a'+i%26))+time.Duration(i).String(), when)
			require.NoError(t, err)
			got[s.Version+" "+s.Arm]++
		}
		return got
	}
	require.Equal(t, map[string]int{"base ": 200}, count(at(0, 30)))
	arms := count(at(2, 0))
	require.Equal(t, 200, arms["base control"]+arms["cand-1 candidate"]+arms["base "])
	require.Greater(t, arms["cand-1 candidate"], 60)
	require.Greater(t, arms["base control"], 60)
	require.Equal(t, map[string]int{"cand-1 ": 200}, count(at(4, 50)))
	_, err := release.ServedAt(t.Context(), w.pool, "u", at(-100, 0))
	require.ErrorIs(t, err, release.ErrNoLive)
}

// What was done stands in the audit log with who, why and what was seen, over the API too.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.run(func(h, m int) { w.step(c, h, m) })
	now := at(5, 0)
	call := w.serve(&now)
	yes := true
	status, _, _ := call(http.MethodPost, "/v1/release/pause", "releases:write", PauseRequest{Paused: &yes, Why: "incident 7"})
	require.Equal(t, http.StatusOK, status)
	status, _, body := call(http.MethodPost, "/v1/release/pause", "releases:write", PauseRequest{Paused: &yes, Why: "again"})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(body), "incident 7")
	status, _, _ = call(http.MethodPost, "/v1/release/pause", "releases:write", PauseRequest{Paused: &yes})
	require.Equal(t, http.StatusBadRequest, status)
	status, _, _ = call(http.MethodPost, "/v1/evals", "candidates:write", EvalReport{Candidate: "cand-1", Suite: "swe", HarnessVersion: "1", Metrics: map[string]float64{"solved": .4}})
	require.Equal(t, http.StatusOK, status)
	status, _, body = call(http.MethodPost, "/v1/evals", "candidates:write", EvalReport{Version: "nope", Suite: "swe", HarnessVersion: "1", Metrics: map[string]float64{"solved": .4}})
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, string(body), "nope")

	var answer struct{ Entries []audit.Entry }
	status, _, body = call(http.MethodGet, "/v1/audit", "gates:read", nil)
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, json.Unmarshal(body, &answer))
	types := map[string]audit.Entry{}
	for i, e := range answer.Entries {
		types[e.Type] = e
		if i > 0 {
			require.False(t, e.At.Before(answer.Entries[i-1].At))
		}
	}
	for _, want := range []string{"release.init", "cut.packed", "candidate.submitted", "candidate.testing", "candidate.promoted", "release.promote", "loop.paused", "evals.reported", "config.adopted"} {
		require.Contains(t, types, want)
	}
	require.Contains(t, string(types["release.promote"].Detail), `"verdict":"SHIP"`)
	require.Contains(t, string(types["candidate.promoted"].Detail), `"evidence"`)
	require.Equal(t, "incident 7", types["loop.paused"].Why)

	status, _, body = call(http.MethodGet, "/v1/audit?object=cand-1&limit=2", "gates:read", nil)
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, json.Unmarshal(body, &answer))
	require.Len(t, answer.Entries, 2)
	for _, bad := range []string{"/v1/audit?limit=0", "/v1/audit?since=monday", "/v1/release/served", "/v1/release/served?unit=u&at=now"} {
		status, _, _ = call(http.MethodGet, bad, "gates:read", nil)
		require.Equal(t, http.StatusBadRequest, status, bad)
	}
	_, err := w.pool.Exec(t.Context(), `delete from pause`)
	require.ErrorContains(t, err, "append-only")
	_, err = w.pool.Exec(t.Context(), `update eval_report set metrics = '{}'`)
	require.ErrorContains(t, err, "append-only")
}

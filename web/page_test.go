package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func of[T any](x T) *T { return &x }

// example is a cycle at its end.
func example() Status {
	at := time.Date(2026, 3, 2, 13, 45, 0, 0, time.UTC)
	return Status{
		LogTime: at, Parts: []string{"postgres 15 (local)", "kafka (embedded)"}, Note: "Simulated traffic on a simulated clock.",
		Live:    &Live{Version: "cand-1", Since: at, Previous: "base-0", Reason: "SHIP of cand-1"},
		Verdict: &Verdict{Candidate: "cand-1", Decision: "SHIP", At: at, Sentences: []string{"kept edits win: +8.6 % [+5.2, +12.0], needed above 0", "edit rate and latency are not worse by more than 2 %"}},
		Experiment: &Experiment{
			ID: "exp-1", Running: true, StartsAt: at.Add(-4 * time.Hour), EndsAt: at, SRM: of(.7134),
			Control: Arm{"base-0", 2051, 4711}, Candidate: Arm{"cand-1", 2047, 4698},
			Metrics: []Metric{
				{Name: "kept_edits", Title: "kept edits", Role: "success", Control: of(.591), Candidate: of(.643), Unit: Percent, Lift: of(.086), Low: of(.052), High: of(.12), Passes: of(true)},
				{Name: "edit_rate", Title: "edit rate", Role: "guardrail", Control: of(.80), Candidate: of(.83), Unit: Percent, Lift: of(.036), Low: of(.014), High: of(.058), Margin: of(.02), Passes: of(true)},
				{Name: "latency", Title: "latency", Role: "guardrail", Control: of(2.99), Candidate: of(2.88), Unit: Percent, Lift: of(.104), Low: of(.07), High: of(.14), Margin: of(.02), Passes: of(false)},
				{Name: "malformed_calls", Title: "malformed calls", Role: "watched", Control: of(.021), Candidate: of(.01), Unit: Points, Lift: of(-.002), Low: of(-.01), High: of(.006)},
				{Name: "slow_turns", Title: "slow turns", Role: "watched"},
			},
		},
		Records: Records{Read: 309_812, Applied: 300_000, Amended: 812, Duplicate: 1500, Orphan: 0, Expired: 0, DeadLettered: 0, Control: 7500},
		Turns:   Turns{Sessions: of(int64(4112)), Opened: 15_230, Open: 626, Settled: []Disposition{{"rewarded", 13_000}, {"no_tokens", 400}, {"censored", 1204}}},
		Shards:  Shards{Count: 38, Rows: 13_211, Bytes: 41_000_000},
		Rewards: []Reward{{"base-0", 9000, of(.21)}, {"cand-1", 4000, of(.27)}, {"none", 3, nil}},
		Cuts:    []Cut{{ID: "cut-1", At: at, State: "done", Base: "base-0", Rows: of(int64(1822)), Shards: of(int64(8))}, {ID: "cut-2", At: at, State: "waiting"}},
		Candidates: []Candidate{
			{ID: "cand-1", Version: "cand-1", Cut: "cut-1", State: "promoted", At: at},
			{ID: "cand-2", Version: "weights-<b>", Cut: "cut-2", State: "timed_out", At: at, Reason: "no submission by 14:45"},
		},
		NextCutAt: at.Add(15 * time.Minute), ByRows: "at 2000 rows (312 wait), not before 2026-03-01 07:30", Next: "submit by 08:00, 23 min left",
	}
}

// get asks the page, with headers given as pairs.
func get(t *testing.T, p *Page, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	return w
}

// tokens are those that may read; nil: everybody may.
type tokens map[string]bool

func (ok tokens) admit(_ context.Context, token string) (string, bool) {
	return "digest of " + token, ok[token]
}

func (ok tokens) holds(_ context.Context, digest string) bool {
	return ok[strings.TrimPrefix(digest, "digest of ")]
}

func setup(t *testing.T, s Status, err error, ok tokens) *Page {
	t.Helper()
	cfg := Config{Status: func(context.Context) (Status, error) { return s, err }}
	if ok != nil {
		cfg.Admit, cfg.Holds = ok.admit, ok.holds
	}
	p, newErr := New(cfg)
	require.NoError(t, newErr)
	return p
}

func TestPageShowsTheFacts(t *testing.T) {
	t.Parallel()
	w := get(t, setup(t, example(), nil, nil), "/")
	require.Equal(t, http.StatusOK, w.Code)
	page := w.Body.String()
	for _, want := range []string{
		"cand-1", "SHIP", "kept edits win", "2,051 units", "p = .713", "&#43;8.6 % [&#43;5.2, &#43;12.0]", "no data yet",
		"309,812", "balanced", "4,112 sessions", "39.1 MiB", "timed out: no submission by 14:45", "weights-&lt;b&gt;", "postgres 15 (local)",
		"next cut at 2000 rows (312 wait), not before 2026-03-01 07:30, at the latest", "· next: submit by 08:00, 23 min left",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "NOT balanced")
	require.NotContains(t, page, "style=")
	require.NotContains(t, page, "http://", "nothing comes from elsewhere")
	require.NotContains(t, page, "https://")
}

func TestPageOfAnEmptyStart(t *testing.T) {
	t.Parallel()
	p := setup(t, Status{}, nil, nil)
	page := get(t, p, "/").Body.String()
	for _, want := range []string{"release init", "none yet", "No cut yet", "No experiment yet", "log time –"} {
		require.Contains(t, page, want)
	}
	raw := get(t, p, "/v1/status").Body.Bytes()
	require.Contains(t, string(raw), `"cuts":[]`)
	require.Contains(t, string(raw), `"experiment":null`)
}

func TestAnImbalanceIsSeen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Status){
		"records": func(s *Status) { s.Records.Read++ },
		"turns":   func(s *Status) { s.Turns.Open-- },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := example()
			change(&s)
			require.False(t, s.Balanced())
			require.Contains(t, get(t, setup(t, s, nil, nil), "/").Body.String(), "NOT balanced")
		})
	}
}

func TestStatusAsJSON(t *testing.T) {
	t.Parallel()
	w := get(t, setup(t, example(), nil, nil), "/v1/status")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var back Status
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &back))
	want := example()
	want.Alarms = []string{}
	require.Equal(t, want, back)
}

func TestFactsAreAway(t *testing.T) {
	t.Parallel()
	p := setup(t, Status{}, errors.New("postgres: connection refused <x>"), nil)
	w := get(t, p, "/")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "connection refused &lt;x&gt;")
	require.Equal(t, http.StatusServiceUnavailable, get(t, p, "/v1/status").Code)
}

func TestStrictHeaders(t *testing.T) {
	t.Parallel()
	p := setup(t, example(), nil, nil)
	for _, path := range []string{"/", "/v1/status", "/assets/page.css", "/assets/page.js", "/nothing"} {
		w := get(t, p, path)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'", path)
		require.NotContains(t, w.Header().Get("Content-Security-Policy"), "unsafe", path)
	}
	require.Equal(t, http.StatusNotFound, get(t, p, "/assets/page.html").Code, "templates are no assets")
}

func TestLogin(t *testing.T) {
	t.Parallel()
	valid := tokens{"mr_right": true}
	p := setup(t, example(), nil, valid)
	post := func(token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		return w
	}
	w := get(t, p, "/")
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.NotContains(t, w.Body.String(), "cand-1")
	require.Equal(t, http.StatusUnauthorized, get(t, p, "/v1/status").Code)
	require.Equal(t, http.StatusUnauthorized, get(t, p, "/v1/status", "Authorization", "Bearer mr_wrong").Code)
	require.Equal(t, http.StatusOK, get(t, p, "/v1/status", "Authorization", "Bearer mr_right").Code)

	require.Equal(t, http.StatusUnauthorized, post("mr_wrong").Code)
	w = post("mr_right")
	require.Equal(t, http.StatusSeeOther, w.Code)
	cookie := w.Result().Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.NotContains(t, cookie.Value, "mr_right")
	require.Equal(t, http.StatusOK, get(t, p, "/", "Cookie", cookie.Name+"="+cookie.Value).Code)
	require.Equal(t, http.StatusUnauthorized, get(t, p, "/", "Cookie", cookie.Name+"=made-up").Code)

	delete(valid, "mr_right")
	require.Equal(t, http.StatusUnauthorized, get(t, p, "/", "Cookie", cookie.Name+"="+cookie.Value).Code, "a login doesn't outlive its token")
	require.Equal(t, http.StatusUnauthorized, get(t, p, "/v1/status", "Cookie", cookie.Name+"="+cookie.Value).Code)
}

func TestLoginsAreBounded(t *testing.T) {
	t.Parallel()
	l := logins{of: map[string]login{}}
	now := time.Now()
	for range mostLogins + 50 {
		l.add("d", now)
	}
	require.LessOrEqual(t, len(l.of), mostLogins)
	last := l.add("digest", now)
	digest, ok := l.find(last, now)
	require.True(t, ok)
	require.Equal(t, "digest", digest)
	_, ok = l.find(last, now.Add(loginLasts))
	require.False(t, ok)
}

func TestWords(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "−1,234"} {
		require.Equal(t, want, count(n))
	}
	require.Equal(t, "−0.2 pp [−1.0, +0.6]", lift(Metric{Unit: Points, Lift: of(-.002), Low: of(-.01), High: of(.006)}))
	require.Equal(t, "< .001", probability(of(.0002)))
	require.Equal(t, "–", probability(nil))
	require.Equal(t, "1.0 KiB", size(1024))
	b := newBar(Metric{Lift: of(.1), Low: of(.05), High: of(.2)})
	require.True(t, b.Known)
	require.True(t, b.Good)
	require.InDelta(t, 95, b.X+b.Width, .01)
}

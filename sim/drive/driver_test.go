package drive

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
	"millrace/sim"
)

// gateway answers as the real one does, with a temper: some requests fail, some items must be sent again.
type gateway struct {
	mu        sync.Mutex
	random    *rand.Rand
	trouble   float64 // share of requests and of items that go wrong
	mostItems int
	log       []*event.SessionEvent
	schemas   int
	assigned  int
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer mr_t" {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	if g.random.Float64() < g.trouble {
		switch g.random.IntN(3) {
		case 0:
			panic(http.ErrAbortHandler) // the connection breaks
		case 1:
			http.Error(w, "later", http.StatusServiceUnavailable)
		case 2:
			http.Error(w, "slower", http.StatusTooManyRequests)
		}
		return
	}
	body, _ := io.ReadAll(r.Body)
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/tool-schemas/"):
		g.schemas++
	case r.URL.Path == "/ofrep/v1/evaluate/flags/composer-checkpoint" && strings.Contains(string(body), `"targetingKey":"u`) && strings.Contains(string(body), `"sessionId":"s`):
		g.assigned++
		_, _ = io.WriteString(w, `{"key":"composer-checkpoint","value":"cand-1","variant":"candidate","metadata":{"experiment":"exp-1","arm":"candidate"}}`)
	default:
		g.events(w, body)
	}
}

func (g *gateway) events(w http.ResponseWriter, body []byte) {
	var batch event.EventBatch
	if err := batch.UnmarshalVT(body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if g.mostItems > 0 && len(batch.Events) > g.mostItems {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	var results []map[string]string
	for _, ev := range batch.Events {
		status := "accepted"
		switch {
		case g.random.Float64() < g.trouble:
			status = "retry"
		case ev.GetChecksRan() != nil:
			status = "rejected"
		default:
			g.log = append(g.log, ev)
		}
		results = append(results, map[string]string{"eventId": ev.EventId, "status": status, "reason": "nope"})
	}
	w.WriteHeader(http.StatusMultiStatus)
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
}

// setup is a gateway, a driver of it and a small simulation that asks the driver.
func setup(t *testing.T, g *gateway, cfg Config) (*Driver, *sim.Sim) {
	t.Helper()
	g.random = rand.New(rand.NewPCG(1, 2))
	server := httptest.NewServer(g)
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	cfg.URL, cfg.Token, cfg.Pause = server.URL, "mr_t", time.Microsecond
	cfg.MostPause = time.Millisecond
	d, err := New(cfg)
	require.NoError(t, err)
	s, err := sim.New(sim.Config{Seed: 9, Units: 400, Start: start, Assign: d.Assign})
	require.NoError(t, err)
	return d, s
}

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func TestNothingIsLostInTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trouble   float64
		mostItems int
		step      time.Duration
	}{
		"calm":           {0, 0, 5 * time.Second},
		"trouble":        {.2, 0, time.Minute},
		"small requests": {.1, 7, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gateway{trouble: c.trouble, mostItems: c.mostItems}
			var clock time.Time
			steps := 0
			d, s := setup(t, g, Config{
				Step: c.step, Batch: 100,
				Documents: map[string][]byte{sim.ToolSchemaDigest: sim.ToolSchemaDocument},
				SetClock:  func(now time.Time) { clock = now },
				Advance: func(_ context.Context, now time.Time) error {
					steps++
					require.Equal(t, clock, now)
					return nil
				},
			})
			require.NoError(t, d.Run(t.Context(), s, start.Add(time.Hour)))

			// The same traffic without a network between.
			want, err := sim.New(sim.Config{Seed: 9, Units: 400, Start: start, Assign: func(string, string) (string, string, string) {
				return "cand-1", "exp-1", "candidate"
			}})
			require.NoError(t, err)
			sent, accepted, checks := 0, map[string]int{}, int64(0)
			for _, ev := range want.Next(start.Add(time.Hour)) {
				sent++
				if ev.GetChecksRan() != nil {
					checks++
					continue
				}
				accepted[ev.Source+ev.EventId]++
			}
			got := map[string]int{}
			for _, ev := range g.log {
				got[ev.Source+ev.EventId]++
			}
			require.Equal(t, accepted, got)
			stats := d.Stats()
			require.EqualValues(t, sent, stats.Sent)
			require.EqualValues(t, len(g.log), stats.Accepted)
			require.Equal(t, map[string]int64{"nope": checks}, stats.Rejected)
			require.Contains(t, stats.Example, "nope")
			require.EqualValues(t, g.assigned, stats.Assigned)
			require.Equal(t, 1, g.schemas)
			require.Equal(t, int(time.Hour/c.step), steps)
			require.Equal(t, c.trouble > 0, stats.SentAgain > 0)
		})
	}
}

// TestSessionsKeepTheirOrder compares, session by session, what arrived with what was sent.
func TestSessionsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	g := &gateway{}
	d, s := setup(t, g, Config{Step: 10 * time.Minute, Batch: 30})
	require.NoError(t, d.Run(t.Context(), s, start.Add(time.Hour)))
	want, err := sim.New(sim.Config{Seed: 9, Units: 400, Start: start, Assign: func(string, string) (string, string, string) { return "cand-1", "exp-1", "candidate" }})
	require.NoError(t, err)
	sent, arrived := map[string][]string{}, map[string][]string{}
	for _, ev := range want.Next(start.Add(time.Hour)) {
		if ev.GetChecksRan() == nil {
			sent[ev.SessionId] = append(sent[ev.SessionId], ev.EventId)
		}
	}
	for _, ev := range g.log {
		arrived[ev.SessionId] = append(arrived[ev.SessionId], ev.EventId)
	}
	require.Equal(t, sent, arrived)
}

func TestRunEnds(t *testing.T) {
	t.Parallel()
	t.Run("with a wrong token", func(t *testing.T) {
		t.Parallel()
		d, s := setup(t, &gateway{}, Config{})
		d.cfg.Token = "mr_wrong"
		err := d.Run(t.Context(), s, start.Add(time.Hour))
		require.ErrorContains(t, err, "401")
	})
	t.Run("with the context, also when the server is away", func(t *testing.T) {
		t.Parallel()
		d, s := setup(t, &gateway{trouble: 1}, Config{Documents: map[string][]byte{"d": nil}})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, d.Run(ctx, s, start.Add(time.Hour)), context.DeadlineExceeded)
		d.cfg.Documents = nil
		require.ErrorIs(t, d.Run(ctx, s, start.Add(time.Hour)), context.DeadlineExceeded)
	})
	t.Run("with the error of who has to keep up", func(t *testing.T) {
		t.Parallel()
		d, s := setup(t, &gateway{}, Config{Advance: func(context.Context, time.Time) error { return io.ErrUnexpectedEOF }})
		require.ErrorIs(t, d.Run(t.Context(), s, start.Add(time.Hour)), io.ErrUnexpectedEOF)
	})
	t.Run("at the time asked for, and goes on from there", func(t *testing.T) {
		t.Parallel()
		d, s := setup(t, &gateway{}, Config{Step: time.Minute})
		require.NoError(t, d.Run(t.Context(), s, start.Add(90*time.Second)))
		require.Equal(t, start.Add(90*time.Second), s.Now())
		require.NoError(t, d.Run(t.Context(), s, start.Add(3*time.Minute)))
		require.Equal(t, start.Add(3*time.Minute), s.Now())
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"URL is missing":      {},
		"Step is 1ns":         {URL: "http://x", Step: 1},
		"Batch is -1":         {URL: "http://x", Batch: -1},
		"InFlight is 65":      {URL: "http://x", InFlight: 65},
		"MostPause 1ns; the ": {URL: "http://x", MostPause: 1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

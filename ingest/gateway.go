package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"millrace/internal/auth"
)

// Gateway takes events over HTTP, writes them to the log and answers for each. Any number of gateways may run; they share
// nothing but the log and the object store.
type Gateway struct {
	cfg     Config
	deps    Deps
	clock   func() time.Time
	schemas toolSchemas
	health  health
	rates   rates
	memory  memory
	metrics *metrics

	storeTrouble struct {
		sync.Mutex
		at time.Time
	}
}

// New makes a gateway; it takes events as soon as its Handler is served, and writes ticks while Run runs.
func New(cfg Config, deps Deps) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("ingest metrics: %w", err)
	}
	g := &Gateway{
		cfg: cfg, deps: deps, clock: deps.Clock, metrics: m,
		schemas: toolSchemas{store: deps.Schemas, known: map[string]bool{}},
		health:  health{logger: deps.Logger, gauge: m.ready, probe: deps.Probe},
		rates:   rates{rate: cfg.RatePerToken, burst: max(cfg.RatePerToken, float64(cfg.Limits.Items)), buckets: map[string]bucket{}},
		memory:  memory{limit: cfg.MemoryBytes},
	}
	if g.clock == nil {
		g.clock = time.Now
	}
	return g, nil
}

// Handler serves the gateway's part of the API.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	write := g.deps.Guard.Middleware(auth.EventsWrite)
	mux.Handle("POST /v1/events", write(http.HandlerFunc(g.events)))
	mux.Handle("PUT /v1/tool-schemas/{digest}", write(http.HandlerFunc(g.putToolSchemas)))
	mux.Handle("GET /v1/tool-schemas/{digest}", write(http.HandlerFunc(g.getToolSchemas)))
	mux.HandleFunc("GET /v1/limits", g.limits)
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", g.readyz)
	return mux
}

// events is POST /v1/events: the body's items become messages, the log makes them durable, each item has its answer.
func (g *Gateway) events(w http.ResponseWriter, r *http.Request) {
	found, release, p := g.readItems(w, r)
	defer release()
	if p == nil {
		p = g.admit(r.Context(), len(found.raw))
	}
	if p != nil {
		g.metrics.requests.WithLabelValues(strconv.Itoa(p.status)).Inc()
		p.write(w)
		return
	}
	answer := g.take(r.Context(), found)
	for i := range answer.Results {
		g.metrics.events.WithLabelValues(string(answer.Results[i].Status), answer.Results[i].Reason).Inc()
	}
	status := answer.httpStatus()
	if answer.Retry > 0 {
		w.Header().Set("Retry-After", "2")
	}
	g.metrics.requests.WithLabelValues(strconv.Itoa(status)).Inc()
	writeJSON(w, status, answer)
}

// admit holds a caller to its rate.
func (g *Gateway) admit(ctx context.Context, n int) *problem {
	token, _ := auth.FromContext(ctx)
	seconds, ok := g.rates.take(token.ID, n, time.Now())
	if ok {
		return nil
	}
	return &problem{
		status: http.StatusTooManyRequests, retryAfter: seconds, Code: "too_many_events",
		Message: fmt.Sprintf("this token may send %g events per second", g.cfg.RatePerToken),
	}
}

// take brings the items to the log and says what became of each.
func (g *Gateway) take(ctx context.Context, found items) *Answer {
	b := newBatch(g.clock(), len(found.raw))
	for i, raw := range found.raw {
		g.add(ctx, b, i, raw, found.format)
	}
	if len(b.messages) > 0 {
		g.write(ctx, b)
	}
	b.answer.count()
	return &b.answer
}

// write makes the batch's messages durable. An item whose message isn't is answered "retry", whatever was its answer.
func (g *Gateway) write(ctx context.Context, b *batch) {
	failed := make([]error, len(b.messages))
	if err := g.health.ready(ctx); err != nil {
		for i := range failed {
			failed[i] = err
		}
	} else {
		// The client's going away is no reason to stop half-way.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.WriteTimeout)
		defer cancel()
		start := time.Now()
		failed = g.deps.Log.Write(ctx, b.messages...)
		g.metrics.write.Observe(time.Since(start).Seconds())
		g.health.saw(worst(failed))
	}
	for i, err := range failed {
		if err != nil {
			b.answer.Results[b.places[i]].retry(ReasonLogAway, "the log doesn't take it now; send it again")
		}
	}
	for index, message := range b.same {
		if failed[message] != nil {
			b.answer.Results[index].retry(ReasonLogAway, "the log doesn't take it now; send it again")
		}
	}
}

// worst is an error if none of the messages became durable: then the log is away, not one partition or message.
func worst(failed []error) error {
	for _, err := range failed {
		if err == nil {
			return nil
		}
	}
	return failed[0]
}

// limits is GET /v1/limits.
func (g *Gateway) limits(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"limits":          g.cfg.Limits,
		"eventsPerSecond": g.cfg.RatePerToken, // per token; 0: no bound
		"contentTypes":    []string{"application/json", "application/x-ndjson", "application/x-protobuf"},
		"encodings":       []string{"gzip", "zstd"},
		"durability":      "accepted means that the log has the event on all in-sync replicas (acks=all)",
		"identity":        "source and eventId; sending an event again is always safe",
	})
}

// logStoreTrouble says once in a while that the object store is away.
func (g *Gateway) logStoreTrouble(err error) {
	g.storeTrouble.Lock()
	defer g.storeTrouble.Unlock()
	if time.Since(g.storeTrouble.at) < time.Minute {
		return
	}
	g.storeTrouble.at = time.Now()
	g.deps.Logger.Error("tool schemas: the object store does not answer; what refers to them is answered retry", "error", err)
}

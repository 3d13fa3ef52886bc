package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// logState is what the gateway knows of the log.
type logState int

const (
	logUnknown logState = iota // nothing written yet
	logThere                   // the last write or probe succeeded
	logAway                    // the last write or probe failed
)

const (
	probePause   = time.Second     // how often a log that is away is looked for
	probeTimeout = 2 * time.Second // how long one look may take
)

// health follows whether the gateway can take events. It says so once when the log goes away and once when it comes back.
type health struct {
	logger *slog.Logger
	gauge  interface{ Set(float64) }
	probe  func(context.Context) error

	mu       sync.Mutex
	state    logState
	since    time.Time // of the state
	probed   time.Time
	back     time.Time // when it last came back
	why      error     // it is away
	closing  bool      // nobody new is let in
	draining bool      // nothing more is taken
}

var errDraining = errors.New("the gateway is shutting down")

// ready says whether events can be taken now, looking for the log where that isn't known.
func (h *health) ready(ctx context.Context) error {
	h.mu.Lock()
	draining, state, due := h.draining, h.state, time.Since(h.probed) >= probePause
	why := h.why
	if state != logThere && due {
		h.probed = time.Now()
	}
	h.mu.Unlock()
	switch {
	case draining:
		return errDraining
	case state == logThere:
		return nil
	case !due && state == logAway:
		return why
	case h.probe == nil || !due:
		return nil // only writing tells
	}
	return h.look(ctx)
}

// look asks the log itself. What it finds holds for everybody, so it must not depend on whether this caller still waits.
func (h *health) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	err := h.probe(ctx)
	h.saw(err)
	return err
}

// backFor says whether the log has been there for d since it was last away.
func (h *health) backFor(d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.back.IsZero() || time.Since(h.back) >= d
}

// saw takes the result of a write or probe.
func (h *health) saw(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := logThere
	if err != nil {
		next, h.why = logAway, err
	}
	if next == h.state {
		return
	}
	before, since := h.state, h.since
	h.state, h.since = next, time.Now()
	if next == logAway {
		h.probed = h.since
		h.gauge.Set(0)
		h.logger.Error("the log takes nothing; events are answered retry until it is back", "error", err)
		return
	}
	h.gauge.Set(1)
	if before == logAway {
		h.back = h.since
		h.logger.Info("the log is back", "away", h.since.Sub(since).Round(time.Millisecond).String())
	}
}

// close: the door closes. Who is inside already is still served.
func (h *health) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing = true
	h.gauge.Set(0)
}

func (h *health) closed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closing
}

func (h *health) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
	h.gauge.Set(0)
}

// healthz: the process answers.
func healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
}

// Ready says whether the gateway may be sent events, and if not, why.
func (g *Gateway) Ready(ctx context.Context) error {
	if g.health.closed() {
		return errDraining
	}
	return g.health.ready(ctx)
}

func (g *Gateway) readyz(w http.ResponseWriter, r *http.Request) {
	if err := g.Ready(r.Context()); err != nil {
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"ready": false, "reason": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"ready": true})
}

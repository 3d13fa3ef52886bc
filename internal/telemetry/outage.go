package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Place is a service that the process works with and that may be away for a while.
type Place struct {
	Name     string                          // as in "Postgres does not answer"
	At       string                          // where it is, without secrets
	Suspects func(error) bool                // may this error come from the place's being away?
	Probe    func(ctx context.Context) error // what is wrong with the place now; nil: it works
}

const (
	probeTimeout = 2 * time.Second
	probePause   = 500 * time.Millisecond
)

// Outages keeps an outage from being told by every part that notices it. The first error record that has to do with a
// place leads to a look at the place. If it is away, this is said in one line, and in another when it is back; what the
// parts say about it meanwhile is left to the debug level.
type Outages struct {
	places []Place
	pause  time.Duration
	out    slog.Handler
	ctx    context.Context
	cancel context.CancelFunc
	looks  sync.WaitGroup

	mu   sync.Mutex
	away map[string]bool // by name
}

// Watch gives a logger that follows the places' outages, until Close.
func Watch(logger *slog.Logger, places ...Place) (*slog.Logger, *Outages) {
	o := &Outages{places: places, pause: probePause, out: logger.Handler(), away: map[string]bool{}}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return slog.New(&outageHandler{logger.Handler(), o}), o
}

// Close ends the looks at places that are away.
func (o *Outages) Close() {
	o.cancel()
	o.looks.Wait()
}

// causes says whether the record is about a place that is away. The first to ask makes it known.
func (o *Outages) causes(err error) bool {
	for _, place := range o.places {
		if !suspects(place, err) {
			continue
		}
		o.mu.Lock()
		away := o.away[place.Name]
		o.mu.Unlock()
		if away {
			return true
		}
		if why := o.look(place); why != nil {
			o.announce(place, why)
			return true
		}
	}
	return false
}

func (o *Outages) look(place Place) error {
	ctx, cancel := context.WithTimeout(o.ctx, probeTimeout)
	defer cancel()
	return place.Probe(ctx)
}

func (o *Outages) announce(place Place, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away[place.Name] || o.ctx.Err() != nil {
		return
	}
	o.away[place.Name] = true
	began := time.Now()
	o.say(slog.LevelError, place.Name+" is away; what needs it waits, and goes on by itself when it is back", "at", place.At, "error", why)
	o.looks.Go(func() {
		for o.look(place) != nil {
			select {
			case <-o.ctx.Done():
				return
			case <-time.After(o.pause):
			}
		}
		o.mu.Lock()
		delete(o.away, place.Name)
		o.mu.Unlock()
		o.say(slog.LevelWarn, place.Name+" is back", "after", time.Since(began).Round(time.Millisecond).String())
	})
}

func (o *Outages) say(level slog.Level, message string, attributes ...any) {
	if !o.out.Enabled(o.ctx, level) {
		return
	}
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.Add(attributes...)
	_ = o.out.Handle(o.ctx, record) // whoever can't log can't tell
}

// suspects looks at every part of a joined error: none may be about something else.
func suspects(place Place, err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, part := range joined.Unwrap() {
			if !suspects(place, part) {
				return false
			}
		}
		return true
	}
	return place.Suspects(err)
}

type outageHandler struct {
	slog.Handler
	outages *Outages
}

// Handle passes a record on, at the debug level if it is about an outage that was told.
func (h *outageHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		if err := errorOf(record); err != nil && h.outages.causes(err) {
			record = record.Clone()
			record.Level = slog.LevelDebug
		}
	}
	if !h.Enabled(ctx, record.Level) {
		return nil
	}
	if err := h.Handler.Handle(ctx, record); err != nil {
		return fmt.Errorf("logging: %w", err)
	}
	return nil
}

func errorOf(record slog.Record) (found error) {
	record.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			found = err
		}
		return found == nil
	})
	return found
}

func (h *outageHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return &outageHandler{h.Handler.WithAttrs(attributes), h.outages}
}

func (h *outageHandler) WithGroup(name string) slog.Handler {
	return &outageHandler{h.Handler.WithGroup(name), h.outages}
}

package ingest

import (
	"context"
	"fmt"
	"time"

	"millrace/schemas/event"
)

// Tick writes one tick into every partition, with the clock's time, if the gateway accepts events. It writes none while
// the log is away or the gateway drains, and none at the moment the log comes back: time must not pass for turns whose
// events nobody could send, and emitters need a moment to send again what was answered "retry".
func (g *Gateway) Tick(ctx context.Context) error {
	back, err := g.health.ready(ctx)
	if err != nil {
		return fmt.Errorf("no tick: the gateway accepts nothing: %w", err)
	}
	if back {
		return nil
	}
	at := g.clock()
	record := &event.ControlRecord{
		Id:   fmt.Sprintf("tick:%s:%d", g.cfg.Name, at.UnixMilli()),
		Body: &event.ControlRecord_Tick{Tick: &event.Tick{}},
	}
	writing, cancel := context.WithTimeout(ctx, g.cfg.WriteTimeout)
	defer cancel()
	err = g.deps.Control(writing, record, at)
	if err == nil || ctx.Err() == nil { // that we were told to stop says nothing about the log
		g.health.saw(err)
	}
	if err != nil {
		return fmt.Errorf("tick at %s: %w", at.UTC().Format(time.RFC3339), err)
	}
	g.metrics.ticks.Inc()
	return nil
}

// Run writes ticks until ctx ends, looks for the log while it is away, and then lets no more events in: the server that
// serves Handler may shut down after it.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.health.drain()
	look := time.NewTicker(probePause)
	defer look.Stop()
	var ticks <-chan time.Time
	if g.cfg.TickEvery > 0 {
		ticker := time.NewTicker(g.cfg.TickEvery)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			g.health.ready(ctx) //nolint:errcheck // what it finds is in the health
		case <-ticks:
			if err := g.Tick(ctx); err != nil {
				g.deps.Logger.Debug("no tick", "error", err)
			}
		}
	}
}

package ingest

import (
	"context"
	"fmt"
	"time"

	"millrace/schemas/event"
)

// Tick writes one tick into every partition, with the clock's time, if the gateway accepts events. It writes none while
// the log is away or the gateway shuts down, and none for a while after the log came back: time must not pass for turns
// whose events nobody could send, and emitters need a moment to send again what was answered "retry".
func (g *Gateway) Tick(ctx context.Context) error {
	if err := g.Ready(ctx); err != nil {
		return fmt.Errorf("no tick: the gateway accepts nothing: %w", err)
	}
	if !g.health.backFor(g.cfg.TickHold) {
		return nil
	}
	at := g.clock()
	record := &event.ControlRecord{
		Id:   fmt.Sprintf("tick:%s:%d", g.cfg.Name, at.UnixMilli()),
		Body: &event.ControlRecord_Tick{Tick: &event.Tick{}},
	}
	writing, cancel := context.WithTimeout(ctx, g.cfg.WriteTimeout)
	defer cancel()
	if err := g.deps.Control(writing, record, at); err != nil {
		// One partition may be why, which says nothing about the log; nor does it that we were told to stop.
		if ctx.Err() == nil && g.health.probe != nil {
			g.health.look(ctx) //nolint:errcheck // what it finds is in the health
		}
		return fmt.Errorf("tick at %s: %w", at.UTC().Format(time.RFC3339), err)
	}
	g.health.saw(nil)
	g.metrics.ticks.Inc()
	return nil
}

// Run writes ticks until the server lets nobody in any more, looks for the log while it is away, and once ctx ends takes
// no more events: the server that serves Handler may shut down before it.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.health.drain()
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-g.deps.Stopping:
			g.health.close()
			stop() // a tick on its way too
		case <-working.Done():
		}
	}()
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
		case <-working.Done():
			<-ctx.Done()
			return nil
		case <-look.C:
			g.health.ready(working) //nolint:errcheck // what it finds is in the health
		case <-ticks:
			if err := g.Tick(working); err != nil {
				g.deps.Logger.Debug("no tick", "error", err)
			}
		}
	}
}

package embedded

import (
	"context"
	"fmt"
	"time"
)

// keep starts the server again whenever it has ended, at the same socket, until ctx ends.
func (p *Postgres) keep(ctx context.Context, cfg PostgresConfig) {
	defer close(p.kept)
	for {
		how := p.awaitEnd(ctx)
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		cfg.Progress(fmt.Sprintf("Postgres has ended (%s); starting it again", how))
		said := ""
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			err := p.start(ctx, cfg)
			if err == nil {
				break
			}
			if ctx.Err() == nil && err.Error() != said { // each reason once
				said = err.Error()
				cfg.Progress("Postgres doesn't start, trying again: " + said)
			}
			if pause(ctx, wait) != nil {
				return
			}
		}
		cfg.Progress(fmt.Sprintf("Postgres takes connections again, after %s", time.Since(began).Round(time.Millisecond)))
	}
}

// awaitEnd returns when the server has ended, and says how.
func (p *Postgres) awaitEnd(ctx context.Context) string {
	if p.child != nil {
		select {
		case <-ctx.Done():
			return ""
		case <-p.child.exited:
			if p.child.err != nil {
				return p.child.err.Error()
			}
			return "told to by somebody else"
		}
	}
	for { // an adopted one is nobody's child
		if _, running := commandOf(p.pid); !running {
			return "for an unknown reason"
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return ""
		}
	}
}

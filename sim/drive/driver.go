package drive

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/schemas/event"
)

// Driver sends the traffic of one source.
type Driver struct {
	cfg  Config
	seed maphash.Seed

	mu    sync.Mutex
	stats Stats

	// Of Run, for Assign, which is called inside of it.
	ctx        context.Context
	unassigned error
}

// Stats are what became of the traffic so far.
type Stats struct {
	Sent       int64 // events handed out by the source
	Accepted   int64 // durable, by the gateway's word
	Duplicates int64 // repeats within a request
	Rejected   map[string]int64
	Example    string // the first rejection, as the gateway put it
	SentAgain  int64  // events that were sent more than once because they were not taken
	Requests   int64
	Assigned   int64 // sessions
}

// New makes a driver. Its Assign is given to the source, then Run plays it.
func New(cfg Config) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg.withDefaults(), seed: maphash.MakeSeed(), stats: Stats{Rejected: map[string]int64{}}}, nil
}

// Stats may be asked at any time.
func (d *Driver) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Rejected = maps.Clone(s.Rejected)
	return s
}

// Run plays the source up to a time, step by step. Every event is sent until the gateway has answered for it: an outage
// holds the simulated clock and loses nothing. It ends early with the context's error, an answer that can't be repaired
// by sending again (a wrong token), or Advance's error. It may be called again to go on.
func (d *Driver) Run(ctx context.Context, source Source, until time.Time) error {
	d.ctx, d.unassigned = ctx, nil
	if err := d.register(ctx); err != nil {
		return err
	}
	for now := source.Now(); now.Before(until); {
		now = now.Add(d.cfg.Step)
		if now.After(until) {
			now = until
		}
		d.cfg.SetClock(now)
		events := source.Next(now)
		if d.unassigned != nil {
			return fmt.Errorf("drive: assign a session at %s: %w", now.Format(time.TimeOnly), d.unassigned)
		}
		if err := d.send(ctx, events); err != nil {
			return fmt.Errorf("drive: send the events up to %s: %w", now.Format(time.TimeOnly), err)
		}
		if err := d.cfg.Advance(ctx, now); err != nil {
			return fmt.Errorf("drive: advance to %s: %w", now.Format(time.TimeOnly), err)
		}
	}
	return nil
}

// fewest events make a second request at the same time worth its cost.
const fewest = 200

// send makes a step's events durable. Sessions are dealt to a few lanes, and a lane's batches go one after another, so
// that a session keeps its order.
func (d *Driver) send(ctx context.Context, events []*event.SessionEvent) error {
	d.count(func(s *Stats) { s.Sent += int64(len(events)) })
	lanes := make([][]*event.SessionEvent, min(max(len(events)/fewest, 1), d.cfg.InFlight))
	if len(lanes) == 1 {
		lanes[0] = events
	} else {
		for _, ev := range events {
			lane := maphash.String(d.seed, ev.SessionId) % uint64(len(lanes))
			lanes[lane] = append(lanes[lane], ev)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, lane := range lanes {
		group.Go(func() error {
			for len(lane) > 0 {
				n := min(len(lane), d.cfg.Batch)
				if err := d.deliver(ctx, lane[:n]); err != nil {
					return err
				}
				lane = lane[n:]
			}
			return nil
		})
	}
	return group.Wait()
}

func (d *Driver) count(add func(*Stats)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	add(&d.stats)
}

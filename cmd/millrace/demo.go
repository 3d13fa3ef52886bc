package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"millrace/checkpoint"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/ingest"
	"millrace/sim"
	"millrace/sim/drive"
	"millrace/sim/trainer"
)

// demoFolder is the demo's place below the data folder. Each demo begins anew: its clock is simulated.
const demoFolder = "demo"

// The demo's cycle: traffic on the base alone, then the cut, and from it on the shipped ladder of five hours.
const (
	warmUp     = 45 * time.Minute
	demoBatch  = 4 * time.Minute // log time of a batch; the last one must be in before the verdict is due
	demoHours  = 5
	behindMost = 15 * time.Minute // how far the committed log may fall behind the simulated clock
)

// simulatedClock is the time of the gateway, the log and the schedule of a demo. It stands still between two settings,
// until it is let go: from then on it runs as real time does.
type simulatedClock struct {
	micros atomic.Int64
	since  atomic.Pointer[time.Time] // nil: it stands
}

// Now is the simulated time.
func (c *simulatedClock) Now() time.Time {
	now := time.UnixMicro(c.micros.Load()).UTC()
	if since := c.since.Load(); since != nil {
		now = now.Add(time.Since(*since))
	}
	return now
}

// Set moves a standing clock.
func (c *simulatedClock) Set(t time.Time) { c.micros.Store(t.UnixMicro()) }

// LetGo lets the clock run on in real time.
func (c *simulatedClock) LetGo() {
	now := time.Now()
	c.since.Store(&now)
}

// demo is a whole cycle under simulated traffic.
type demo struct {
	*house
	out      *Output
	clock    *simulatedClock
	start    time.Time
	ticker   *ingest.Gateway
	control  *checkpoint.Control
	assigner *ingest.Assigner
	trainer  *trainer.Trainer
	traffic  *sim.Sim
	driver   *drive.Driver
	screen   *screen

	trained map[string]bool
	stepped time.Time
}

func (c *UpCommand) runDemo(ctx context.Context, out *Output) error {
	err := c.demonstrate(ctx, out)
	switch {
	case ctx.Err() == nil:
		return err
	case c.Once:
		return errors.New("stopped before the cycle was over: no law was checked")
	}
	out.Print("stopped")
	return nil
}

func (c *UpCommand) demonstrate(ctx context.Context, out *Output) error {
	dir, err := filepath.Abs(filepath.Join(c.Data, demoFolder))
	if err != nil {
		return err
	}
	if err := c.clearDemo(ctx, out, dir); err != nil {
		return err
	}
	// Yesterday at eight: the log takes past times, and keeps them.
	start := time.Now().UTC().Truncate(24 * time.Hour).Add(-16 * time.Hour)
	c.BatchInterval = demoBatch
	h, err := c.openHouse(ctx, out, dir, start)
	if err != nil {
		return err
	}
	defer h.close()
	d := &demo{house: h, out: out, clock: &simulatedClock{}, start: start, trained: map[string]bool{}, screen: newScreen(out)}
	d.clock.Set(start)
	cfg, err := c.config()
	if err != nil {
		return err
	}
	cfg.Anchor = start.Add(warmUp)
	// So that a small team sees the whole cycle too: of few users a cut takes what there is.
	cfg.Cut.MinRows = min(cfg.Cut.MinRows, max(1, int64(c.Units)/16))
	cfg.Cut.MinUnits = min(cfg.Cut.MinUnits, max(1, int64(c.Units)/32))
	roles, hands, err := h.roles(cfg, d.clock.Now, -1, []string{"Simulated traffic on a simulated clock."})
	if err != nil {
		return err
	}
	d.ticker, d.control, d.assigner = hands.gateway, hands.control, hands.assigner
	for i := range roles {
		if roles[i].name == "checkpoint" {
			roles[i].run = untilDone // its clock is the demo's: the driver calls its steps
		}
	}
	if err := d.prepare(c, dir); err != nil {
		return err
	}
	d.greet(out)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- h.door.work(serving, h.parts, roles) }()
	began := time.Now()
	err = d.play(ctx)
	if err == nil {
		err = d.finish(ctx, time.Since(began), c.Seed)
	}
	if err == nil && !c.Once {
		out.Print("everything stays up, its clock goes on in real time from %s UTC; what is sent now, or cut, is committed within %s: look around, then Ctrl-C",
			minute(d.clock.Now()), strings.TrimSuffix(demoBatch.String(), "0s"))
		if err := d.goOn(ctx, served); err != nil {
			return err
		}
	}
	stop()
	return errors.Join(err, <-served)
}

func untilDone(ctx context.Context) error { <-ctx.Done(); return nil }

// clearDemo deletes the last demo's data, once it is certain that this one is not refused.
func (c *UpCommand) clearDemo(ctx context.Context, out *Output, dir string) error {
	if err := (sim.Config{Start: time.Now(), Units: c.Units, Kind: sim.Kind(c.Candidate)}).Validate(); err != nil {
		return usagef("--units %d: %v", c.Units, err)
	}
	if err := c.check(); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		out.Print("the last demo's data in %s is replaced", dir)
	}
	return emptyFolder(ctx, dir)
}

// onward is how often the house is looked after once the demo's traffic has ended.
const onward = 5 * time.Second

// goOn lets the clock run in real time and does at each beat what roles do by themselves elsewhere: the tick into the
// log, and a pass of the loop. So events, cuts and releases go their way as in any other Millrace. It ends with ctx, or
// with the house.
func (d *demo) goOn(ctx context.Context, served chan error) error {
	d.clock.LetGo()
	beat := time.NewTicker(onward)
	defer beat.Stop()
	for {
		if err := errors.Join(d.ticker.Tick(ctx), d.control.Step(ctx, d.clock.Now())); err != nil && ctx.Err() == nil {
			d.logger.Error("the demo's house: trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			served <- err
			return err
		case <-beat.C:
		}
	}
}

// prepare makes the traffic, its driver and the trainer.
func (d *demo) prepare(c *UpCommand, dir string) error {
	url := "http://" + d.listener.Addr().String()
	var err error
	d.driver, err = drive.New(drive.Config{
		URL: url, Token: d.token, Flag: ingest.FlagKey, SetClock: d.clock.Set, Advance: d.advance,
		Documents: map[string][]byte{sim.ToolSchemaDigest: sim.ToolSchemaDocument},
	})
	if err != nil {
		return err
	}
	traffic, err := sim.New(sim.Config{
		Seed: c.Seed, Start: d.start, Units: c.Units, BaseVersion: c.Init, Kind: sim.Kind(c.Candidate),
		Assign: d.driver.Assign,
	})
	if err != nil {
		return err
	}
	d.traffic = traffic
	d.trainer, err = trainer.New(trainer.Config{URL: url, Token: d.token, Outbox: filepath.Join(dir, "weights")})
	return err
}

// play runs the traffic until the first candidate's story is over.
func (d *demo) play(ctx context.Context) error {
	err := d.driver.Run(ctx, d.traffic, d.start.Add(7*time.Hour))
	if errors.Is(err, errCycleOver) {
		return nil
	}
	if err == nil {
		return errors.New("the simulated day ended without a verdict")
	}
	return err
}

// errCycleOver ends the traffic when the candidate's story is.
var errCycleOver = errors.New("the cycle is over")

// advance moves everything to a moment of the simulated clock: ticks into the log, and every minute the ladder. It
// waits for the workers, for the cut and for the trainer, whose time is real.
func (d *demo) advance(ctx context.Context, now time.Time) error {
	if err := d.ticker.Tick(ctx); err != nil {
		return err
	}
	if now.Sub(d.stepped) < time.Minute {
		return nil
	}
	d.stepped = now
	if err := d.awaitCommits(ctx, now.Add(-behindMost)); err != nil {
		return err
	}
	if err := d.control.Step(ctx, now); err != nil {
		return err
	}
	if err := d.assigner.Refresh(ctx); err != nil {
		return err
	}
	over, err := d.followCandidate(ctx, now)
	if err != nil {
		return err
	}
	if err := d.show(ctx, now); err != nil {
		return err
	}
	if over {
		return errCycleOver
	}
	return nil
}

// awaitCommits waits until every partition has committed through a time.
func (d *demo) awaitCommits(ctx context.Context, through time.Time) error {
	return d.await(ctx, "the workers", func() (bool, error) {
		var behind, halted int
		err := d.pool.QueryRow(ctx, `select count(*) filter (where log_time is null or log_time < $2), count(halted)
			from partition where topic = $1`, d.cfg.Topic, through).Scan(&behind, &halted)
		if halted > 0 {
			return false, fmt.Errorf("%d partitions are halted; see the page", halted)
		}
		return behind == 0 || !through.After(d.start), err
	})
}

// await polls what happens in real time; a part that makes no progress for a minute is named.
func (d *demo) await(ctx context.Context, whom string, ready func() (bool, error)) error {
	deadline := time.Now().Add(time.Minute)
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited a minute for %s", whom)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// followCandidate lets the trainer have a packed cut before time goes on, and says when the story is over.
func (d *demo) followCandidate(ctx context.Context, now time.Time) (over bool, err error) {
	cuts, err := cut.List(ctx, d.pool)
	if err != nil || len(cuts) == 0 {
		return false, err
	}
	first := cuts[0]
	if first.State == cut.Skipped {
		return false, fmt.Errorf("%s was skipped: %s", first.ID, first.Reason)
	}
	if first.State == cut.Packed && !d.trained[first.ID] {
		if _, err := d.trainer.Step(ctx); err != nil {
			return false, err
		}
		d.trained[first.ID] = true
		if err := d.control.Step(ctx, now); err != nil {
			return false, err
		}
	}
	c, err := candidate.OfCut(ctx, d.pool, first.ID)
	if errors.Is(err, candidate.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch c.State {
	case candidate.Training, candidate.Submitted, candidate.Refused, candidate.Verified, candidate.Evaluating, candidate.Testing:
		return false, nil
	default:
		return true, nil
	}
}

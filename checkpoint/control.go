package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/robfig/cron/v3"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/release"
	"millrace/checkpoint/schedule"
	"millrace/checkpoint/webhook"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/event"
	"millrace/schemas/gatepolicy"
)

// Leader is the name of the leadership that one checkpoint process has.
const Leader = "checkpoint"

// Deps are what the role stands on.
type Deps struct {
	DB    *pgxpool.Pool
	Store Store
	// WriteControl writes one signed control record into every partition and returns when all have it.
	WriteControl func(ctx context.Context, r *event.ControlRecord) error
	// Announce writes a record on the checkpoint topic, keyed by the policy version.
	Announce func(ctx context.Context, version string, body []byte) error
	Log      *slog.Logger
}

// Store is the object store with the pointer that is replaced.
type Store interface {
	objstore.Store
	Replace(ctx context.Context, key string, body []byte) error
}

// Control is the loop. One process leads; the others stand by.
type Control struct {
	cfg       Config
	deps      Deps
	policy    gatepolicy.Policy
	packer    *cut.Packer
	publisher *release.Publisher
	webhooks  *webhook.Sender
	weights   candidate.Weights

	term   int64     // of the last election
	looked time.Time // log time of the last look at the running test
	test   string    // which test that was
}

// New checks the configuration and builds the loop.
func New(cfg Config, deps Deps) (*Control, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	policy, err := gatepolicy.Parse(cfg.Policy)
	if err != nil {
		return nil, err
	}
	deps.WriteControl = bounded(deps.WriteControl, cfg.StepFor)
	weights, err := candidate.NewPlaces(deps.Store, cfg.WeightsRoots)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	c := &Control{cfg: cfg, deps: deps, policy: policy, weights: weights}
	if c.packer, err = cut.NewPacker(cfg.Cut, deps.DB, deps.Store, c.write); err != nil {
		return nil, err
	}
	c.publisher = &release.Publisher{DB: deps.DB, Store: deps.Store, Write: c.write, Announce: deps.Announce}
	c.webhooks = &webhook.Sender{DB: deps.DB, Write: c.write, Endpoints: cfg.Webhooks}
	return c, nil
}

// write runs a transaction that first checks that this process still leads.
func (c *Control) write(ctx context.Context, fn func(pgx.Tx) error) error {
	return postgres.InTx(ctx, c.deps.DB, func(tx pgx.Tx) error {
		if err := postgres.CheckTerm(ctx, tx, Leader, c.term); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Run leads, whenever no other process does, until the context ends. It passes in real time: every few seconds, and
// at the slots of the schedule.
func (c *Control) Run(ctx context.Context) error {
	leader, err := postgres.NewLeader(postgres.LeaderConfig{Name: Leader, Owner: c.cfg.Owner, Lease: c.cfg.Lease}, c.deps.DB)
	if err != nil {
		return err
	}
	return leader.Run(ctx, func(ctx context.Context, term int64) error {
		c.term = term
		c.lead(ctx)
		return nil
	})
}

// bounded gives up a write to a log that is away: it would be tried until the context ends.
func bounded(write func(context.Context, *event.ControlRecord) error, limit time.Duration) func(context.Context, *event.ControlRecord) error {
	return func(ctx context.Context, r *event.ControlRecord) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return write(ctx, r)
	}
}

// lead passes until the term ends. Publication goes its own way: a pass may be busy with a large cut while a person
// takes a checkpoint back.
func (c *Control) lead(ctx context.Context) {
	wake := make(chan struct{}, 1)
	clock := cron.New(cron.WithLocation(time.UTC))
	clock.Schedule(slots{c}, cron.FuncJob(func() {
		select {
		case wake <- struct{}{}:
		default: // a pass is due already
		}
	}))
	clock.Start()
	defer clock.Stop()
	var beside sync.WaitGroup
	beside.Go(func() { c.repeat(ctx, nil, []part{c.publication()}, nil) })
	beside.Go(func() { c.repeat(ctx, nil, []part{c.telling()}, nil) }) // an endpoint may be slow
	c.repeat(ctx, wake, c.steps(), c.inTime)
	beside.Wait()
}

// repeat passes every few seconds, and when it is woken, until the context ends. What may says no to does not pass.
func (c *Control) repeat(ctx context.Context, wake <-chan struct{}, parts []part, may func(context.Context, time.Time) error) {
	tick := time.NewTicker(c.cfg.Every)
	defer tick.Stop()
	for {
		now, err := time.Now(), error(nil)
		if may != nil {
			err = may(ctx, now)
		}
		if err == nil {
			err = c.pass(ctx, now, parts)
		}
		if err != nil && ctx.Err() == nil {
			c.deps.Log.Error("checkpoint: a pass failed; the next one tries again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
	}
}

// inTime compares the clock of this process with Postgres's. Deadlines end candidates, so a clock that jumps by a day
// must not be believed before a second one agrees.
func (c *Control) inTime(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StepFor)
	defer cancel()
	var theirs time.Time
	asked := time.Now()
	if err := c.deps.DB.QueryRow(ctx, `select clock_timestamp()`).Scan(&theirs); err != nil {
		return fmt.Errorf("checkpoint: ask Postgres for the time: %w", err)
	}
	took := time.Since(asked) // monotonic
	if skew := now.Sub(theirs).Abs(); skew > c.cfg.MaxSkew+took {
		return fmt.Errorf("checkpoint: this process's clock says %s, Postgres's %s: nothing is decided by time until they agree within %s; set the wrong one right",
			now.UTC().Format(time.RFC3339), theirs.UTC().Format(time.RFC3339), c.cfg.MaxSkew)
	}
	return nil
}

// slots reads the schedule from Postgres at each turn, since another process may have moved it.
type slots struct{ c *Control }

// Next implements cron.Schedule.
func (s slots) Next(t time.Time) time.Time {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	plan, err := schedule.Load(ctx, s.c.deps.DB, t)
	if err != nil {
		return t.Add(s.c.cfg.Every) // the passes go on all the same; their error is logged
	}
	if plan.ByRows.Rows > 0 {
		return t.Add(s.c.cfg.Every) // any moment
	}
	return plan.Next(t)
}

// maxMoves bounds a pass: a candidate has fewer steps from its cut to its end.
const maxMoves = 32

// Step is one pass at a moment of a simulated clock. It takes the leadership if nobody else has it, and does nothing
// otherwise. It may be repeated at any time; what fails is tried again by the next one. Run is for real time: it renews
// its lease while a pass is under way.
func (c *Control) Step(ctx context.Context, now time.Time) error {
	if c.term > 0 {
		if err := postgres.Renew(ctx, c.deps.DB, Leader, c.term, c.cfg.Lease); err == nil {
			return c.pass(ctx, now, c.all())
		} else if !errors.Is(err, postgres.ErrFenced) {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	term, leads, err := postgres.Elect(ctx, c.deps.DB, Leader, c.cfg.Owner, c.cfg.Lease)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if !leads {
		return nil
	}
	c.term = term
	return c.pass(ctx, now, c.all())
}

// all begins with the publication: nothing that hangs may come before a rollback.
func (c *Control) all() []part {
	return append(append([]part{c.publication()}, c.steps()...), c.telling())
}

// part is one kind of move, and how long it may take.
type part struct {
	move  func(context.Context, time.Time) (moved bool, err error)
	limit time.Duration
}

func (c *Control) publication() part {
	return part{limit: c.cfg.StepFor, move: func(ctx context.Context, now time.Time) (bool, error) {
		return false, c.publisher.Publish(ctx, now)
	}}
}

// telling delivers to webhooks. One pass tries each delivery once.
func (c *Control) telling() part {
	return part{limit: c.cfg.StepFor, move: func(ctx context.Context, now time.Time) (bool, error) {
		_, err := c.webhooks.Pass(ctx, now)
		return false, err
	}}
}

func (c *Control) steps() []part {
	return []part{{c.configure, c.cfg.StepFor}, {c.moveCandidate, c.cfg.BulkFor}, {c.moveCut, c.cfg.BulkFor}, {c.beginCut, c.cfg.StepFor}}
}

// pass moves everything on until nothing moves any more. One part's failure does not hold up the others.
func (c *Control) pass(ctx context.Context, now time.Time, parts []part) error {
	now = now.UTC().Truncate(time.Microsecond) // what Postgres keeps
	for range maxMoves {
		moved := false
		var failures []error
		for _, p := range parts {
			limited, cancel := context.WithTimeout(ctx, p.limit)
			m, err := p.move(limited, now)
			cancel()
			moved = moved || m
			if err != nil {
				failures = append(failures, err)
			}
		}
		if err := errors.Join(failures...); err != nil {
			return err
		}
		if !moved {
			return nil
		}
	}
	return fmt.Errorf("checkpoint: %d moves in one pass and still not at rest; this is a bug", maxMoves)
}

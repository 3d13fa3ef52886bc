package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/checkpoint"
	"millrace/checkpoint/evals"
	"millrace/checkpoint/webhook"
	"millrace/distill"
	"millrace/internal/postgres"
	"millrace/schemas/gatepolicy"
)

// RunCommand runs one role as a process; any number of each may run.
type RunCommand struct {
	Ingest     RunIngest     `cmd:"" help:"The gateway: events in over HTTP, and the assignment of checkpoints."`
	Distill    RunDistill    `cmd:"" help:"The workers: turns, rewards, shards and ledger, exactly once."`
	Feed       RunFeed       `cmd:"" help:"What trainers pull: manifests and shards."`
	Checkpoint RunCheckpoint `cmd:"" help:"The loop from the cut to the live checkpoint, its API and the page."`
	Judge      RunJudge      `cmd:"" help:"Optional: asks a model what users' next requests show, where structure can't tell."`
}

// Serving is where a role answers.
type Serving struct {
	Listen  string `env:"MILLRACE_LISTEN" default:"127.0.0.1:8080" help:"Address to listen on; port 0: any free one, which the log names."`
	Logging `embed:""`
}

// RunIngest is run ingest.
type RunIngest struct {
	Database   `embed:""`
	Brokers    `embed:""`
	Objects    `embed:""`
	ControlKey `embed:""`
	Serving    `embed:""`
}

// Help is what 'millrace run ingest --help' adds.
func (c *RunIngest) Help() string {
	return `Answers POST /v1/events, PUT /v1/tool-schemas/DIGEST, OFREP and /v1/tokens; /healthz, /readyz, /metrics.
/readyz is 503 while Kafka takes nothing; events are then answered "retry".

  millrace run ingest --postgres postgres://millrace@db/millrace --kafka kafka:9092 --objects s3://millrace --listen :8080`
}

// Run implements the command.
func (c *RunIngest) Run(ctx context.Context, out *Output) error {
	places := []place{c.ControlKey, c.Brokers, c.Objects, c.Database}
	return runRole(ctx, out, c.Serving, "ingest", places, func(p *parts) (role, error) {
		return newIngest(p, time.Now, 0, nil)
	})
}

// RunDistill is run distill.
type RunDistill struct {
	Database   `embed:""`
	Brokers    `embed:""`
	Objects    `embed:""`
	ControlKey `embed:""`
	UnitKey    `embed:""`
	Serving    `embed:""`
	LeaseTerm  time.Duration `env:"MILLRACE_LEASE_TERM" default:"15s" help:"How long a silent worker keeps its partitions; the same for all."`
}

// Help is what 'millrace run distill --help' adds.
func (c *RunDistill) Help() string {
	return `Workers share the topic's partitions by leases in Postgres: start as many as you like, kill any.
Answers /healthz, /readyz and /metrics only.

  millrace run distill --postgres postgres://millrace@db/millrace --kafka kafka:9092 --objects s3://millrace`
}

// Run implements the command.
func (c *RunDistill) Run(ctx context.Context, out *Output) error {
	if c.LeaseTerm < time.Second {
		return usagef("--lease-term %s: give at least 1s", c.LeaseTerm)
	}
	places := []place{c.ControlKey, c.UnitKey, c.Brokers, c.Objects, c.Database}
	return runRole(ctx, out, c.Serving, "distill", places, func(p *parts) (role, error) {
		return newDistill(p, c.LeaseTerm)
	})
}

// RunFeed is run feed.
type RunFeed struct {
	Database `embed:""`
	Objects  `embed:""`
	Serving  `embed:""`
}

// Help is what 'millrace run feed --help' adds.
func (c *RunFeed) Help() string {
	return `Answers GET /v1/policies, /v1/policies/VERSION/shards and /v1/shards/ID; /healthz, /readyz, /metrics.
All serve; one of them at a time numbers and publishes.

  millrace run feed --postgres postgres://millrace@db/millrace --objects s3://millrace --listen :8080`
}

// Run implements the command.
func (c *RunFeed) Run(ctx context.Context, out *Output) error {
	return runRole(ctx, out, c.Serving, "feed", []place{c.Objects, c.Database}, newFeed)
}

// RunCheckpoint is run checkpoint.
type RunCheckpoint struct {
	Database   `embed:""`
	Brokers    `embed:""`
	Objects    `embed:""`
	ControlKey `embed:""`
	Serving    `embed:""`
	Cycle      `embed:""`
}

// Help is what 'millrace run checkpoint --help' adds.
func (c *RunCheckpoint) Help() string {
	return `Answers /v1/cuts, /v1/candidates, /v1/experiments, /v1/release, /v1/reward and the page; /healthz, /readyz, /metrics.
All serve; one of them at a time leads. Say once what serves now: millrace release init VERSION.

  millrace run checkpoint --postgres postgres://millrace@db/millrace --kafka kafka:9092 --objects s3://millrace`
}

// Run implements the command.
func (c *RunCheckpoint) Run(ctx context.Context, out *Output) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	places := []place{c.ControlKey, c.Brokers, c.Objects, c.Database}
	return runRole(ctx, out, c.Serving, "checkpoint", places, func(p *parts) (role, error) {
		r, _, err := newCheckpoint(p, cfg, time.Now)
		if err != nil {
			return r, err
		}
		return r, addPage(&r, p, nil, time.Now)
	})
}

// Cycle is how often a cut is made and by which rules its candidate is tested.
type Cycle struct {
	Every     time.Duration `env:"MILLRACE_EVERY" default:"5h" help:"Time between two cuts. With --cut-at-rows: at least."`
	CutAtRows int64         `env:"MILLRACE_CUT_AT_ROWS" placeholder:"N" help:"For small teams: cut as soon as N rows wait, not at fixed times."`
	MaxEvery  time.Duration `env:"MILLRACE_MAX_EVERY" placeholder:"TIME" help:"With --cut-at-rows: the longest time between two cuts; twice --every otherwise."`
	SubmitBy  time.Duration `env:"MILLRACE_SUBMIT_BY" default:"1h" help:"Time from the cut until the candidate has to be submitted."`
	EvalsBy   time.Duration `env:"MILLRACE_EVALS_BY" default:"75m" help:"Time from the cut until it has to be evaluated; then its test starts."`
	MinRows   int64         `env:"MILLRACE_CUT_MIN_ROWS" default:"500" help:"A cut of fewer rows is skipped."`
	MinUnits  int64         `env:"MILLRACE_CUT_MIN_UNITS" default:"50" help:"A cut of fewer users is skipped."`
	OnOpen    string        `name:"on-open-experiment" env:"MILLRACE_ON_OPEN_EXPERIMENT" enum:"wait,supersede" default:"wait" help:"What becomes of a cut that is due while a test runs: it is skipped (wait), or ends the test (supersede)."`
	Policy    string        `env:"MILLRACE_POLICY" placeholder:"FILE" help:"Gate policy; the shipped one otherwise."`
	Evals     string        `env:"MILLRACE_EVALS" placeholder:"FILE" help:"Offline suites that a candidate has to pass before its test; none otherwise."`
	Webhooks  string        `env:"MILLRACE_WEBHOOKS" placeholder:"FILE" help:"Endpoints that are told of cuts, candidates and releases."`
	// WeightsRoot are places besides the object store.
	WeightsRoot []string `env:"MILLRACE_WEIGHTS_ROOT" sep:"," placeholder:"PLACE" help:"Folder or s3://bucket/prefix?endpoint=… where submitted weights are read to recompute their digests, besides the object store."`
}

func (c *Cycle) config() (checkpoint.Config, error) {
	cfg := checkpoint.DefaultConfig()
	cfg.Period, cfg.CutAtRows, cfg.MaxPeriod = c.Every, c.CutAtRows, c.MaxEvery
	if c.CutAtRows > 0 && c.MaxEvery == 0 {
		cfg.MaxPeriod = 2 * c.Every
	}
	cfg.Ladder.SubmitBy, cfg.Ladder.EvalsBy = c.SubmitBy, c.EvalsBy
	cfg.Ladder.MarkBy = min(cfg.Ladder.MarkBy, c.SubmitBy)
	cfg.Cut.MinRows, cfg.Cut.MinUnits = c.MinRows, c.MinUnits
	cfg.OnOpenExperiment = checkpoint.OnOpenExperiment(c.OnOpen)
	if c.Policy != "" {
		document, err := readFile("gate policy", c.Policy)
		if err != nil {
			return cfg, err
		}
		if _, err := gatepolicy.Parse(document); err != nil {
			return cfg, fmt.Errorf("--policy %s: %w", c.Policy, err)
		}
		cfg.Policy = document
	}
	if err := c.around(&cfg); err != nil {
		return cfg, err
	}
	for _, root := range c.WeightsRoot {
		if !strings.Contains(root, "://") {
			var err error
			if root, err = filepath.Abs(root); err != nil {
				return cfg, err
			}
		}
		cfg.WeightsRoots = append(cfg.WeightsRoots, root)
	}
	whole := cfg
	whole.Topic, whole.Partitions, whole.Owner = "not known yet", 1, "not known yet"
	if err := whole.Validate(); err != nil {
		return cfg, usagef("--every, --cut-at-rows, --max-every, --submit-by, --evals-by, --min-rows and --policy don't fit together: %v", err)
	}
	return cfg, nil
}

// around reads what surrounds a release: offline suites and webhooks.
func (c *Cycle) around(cfg *checkpoint.Config) error {
	if c.Evals != "" {
		document, err := readFile("eval suites", c.Evals)
		if err != nil {
			return err
		}
		if cfg.Suites, err = evals.Parse(document); err != nil {
			return fmt.Errorf("--evals %s: %w", c.Evals, err)
		}
	}
	if c.Webhooks == "" {
		return nil
	}
	document, err := readFile("webhooks", c.Webhooks)
	if err != nil {
		return err
	}
	if cfg.Webhooks, err = webhook.Parse(document, os.Getenv); err != nil {
		return fmt.Errorf("--webhooks %s: %w", c.Webhooks, err)
	}
	return nil
}

// runRole opens what the role needs, refuses to work on tables of another version, and serves until it is told to stop.
// While Postgres is away it waits: alive, not ready.
func runRole(ctx context.Context, out *Output, at Serving, name string, places []place, assemble func(*parts) (role, error)) error {
	if err := allGiven(places); err != nil {
		return err
	}
	listener, err := listenOn(at.Listen)
	if err != nil {
		return err
	}
	logger, err := at.logger(out, name)
	if err != nil {
		return err
	}
	door := openDoor(ctx, listener)
	defer door.close(ctx)
	logger.Info("listening", "address", listener.Addr().String())
	var p *parts
	err = patiently(ctx, logger, "Postgres does not answer", postgres.Away, func() error {
		p, err = open(ctx, out, name, at.Logging, places...)
		return err
	})
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer p.close()
	if err := patiently(ctx, logger, "Postgres does not answer", postgres.Away, func() error { return checkMigrated(ctx, p) }); err != nil {
		return unlessStopped(ctx, err)
	}
	r, err := assemble(p)
	if err != nil {
		return err
	}
	if len(p.cfg.Brokers) > 0 {
		r = r.onTopics(p)
	}
	if err := door.work(ctx, p, []role{r}); err != nil {
		return err
	}
	logger.Info("stopped")
	return nil
}

// unlessStopped: whoever is told to stop while he waits stops without a complaint.
func unlessStopped(ctx context.Context, err error) error {
	var usage *usageError
	if ctx.Err() != nil && !errors.As(err, &usage) {
		return nil
	}
	return err
}

// checkMigrated refuses tables of another version, and a topic that `millrace migrate` hasn't made. The number of
// partitions is what migrate put on record.
func checkMigrated(ctx context.Context, p *parts) error {
	if err := postgres.CheckVersion(ctx, p.pool); err != nil {
		return err
	}
	n, err := distill.Partitions(ctx, p.pool, p.cfg.Topic)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("topic %s is not known to this database; check --topic, or run `millrace migrate` for it", p.cfg.Topic)
	}
	p.cfg.Partitions = n
	return nil
}

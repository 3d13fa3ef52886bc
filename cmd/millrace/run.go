package main

import (
	"context"
	"time"

	"millrace/checkpoint"
	"millrace/internal/postgres"
)

// RunCommand runs one role as a process; any number of each may run.
type RunCommand struct {
	Ingest     RunIngest     `cmd:"" help:"The gateway: events in over HTTP, and the assignment of checkpoints."`
	Distill    RunDistill    `cmd:"" help:"The workers: turns, rewards, shards and ledger, exactly once."`
	Feed       RunFeed       `cmd:"" help:"What trainers pull: manifests and shards."`
	Checkpoint RunCheckpoint `cmd:"" help:"The loop from the cut to the live checkpoint, its API and the page."`
}

// Serving is where a role answers.
type Serving struct {
	Listen string `env:"MILLRACE_LISTEN" default:"127.0.0.1:8080" help:"Address to listen on."`
}

// RunIngest is run ingest.
type RunIngest struct {
	Connect `embed:""`
	Serving `embed:""`
}

// Run implements the command.
func (c *RunIngest) Run(ctx context.Context, out *Output) error {
	return runRole(ctx, out, &c.Connect, c.Listen, "ingest", func(p *parts) (role, error) {
		return newIngest(p, time.Now, 0, nil)
	})
}

// RunDistill is run distill.
type RunDistill struct {
	Connect   `embed:""`
	Serving   `embed:""`
	LeaseTerm time.Duration `default:"15s" help:"How long a silent worker keeps its partitions."`
}

// Run implements the command.
func (c *RunDistill) Run(ctx context.Context, out *Output) error {
	return runRole(ctx, out, &c.Connect, c.Listen, "distill", func(p *parts) (role, error) { return newDistill(p, c.LeaseTerm) })
}

// RunFeed is run feed.
type RunFeed struct {
	Connect `embed:""`
	Serving `embed:""`
}

// Run implements the command.
func (c *RunFeed) Run(ctx context.Context, out *Output) error {
	return runRole(ctx, out, &c.Connect, c.Listen, "feed", newFeed)
}

// RunCheckpoint is run checkpoint.
type RunCheckpoint struct {
	Connect `embed:""`
	Serving `embed:""`
	Cycle   `embed:""`
}

// Run implements the command.
func (c *RunCheckpoint) Run(ctx context.Context, out *Output) error {
	return runRole(ctx, out, &c.Connect, c.Listen, "checkpoint", func(p *parts) (role, error) {
		cfg, err := c.config()
		if err != nil {
			return role{}, err
		}
		r, _, err := newCheckpoint(p, cfg, time.Now)
		if err != nil {
			return r, err
		}
		return r, addPage(&r, p, nil)
	})
}

// Cycle is how often a cut is made and by which rules its candidate is tested.
type Cycle struct {
	Every  time.Duration `default:"5h" help:"Time between two cuts."`
	Policy string        `placeholder:"FILE" help:"Gate policy; the shipped one otherwise."`
}

func (c *Cycle) config() (checkpoint.Config, error) {
	cfg := checkpoint.DefaultConfig()
	cfg.Period = c.Every
	if c.Policy != "" {
		document, err := readFile("gate policy", c.Policy)
		if err != nil {
			return cfg, err
		}
		cfg.Policy = document
	}
	return cfg, nil
}

// runRole opens what the role needs, refuses to work on tables of another version, and serves until it is told to stop.
func runRole(ctx context.Context, out *Output, connect *Connect, listen, name string, assemble func(*parts) (role, error)) error {
	p, err := connect.open(ctx, out, name)
	if err != nil {
		return err
	}
	defer p.close()
	if err := postgres.CheckVersion(ctx, p.pool); err != nil {
		return err
	}
	r, err := assemble(p)
	if err != nil {
		return err
	}
	return serve(ctx, p, listen, []role{r})
}

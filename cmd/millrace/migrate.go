package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/experiment"
	"millrace/distill"
	"millrace/internal/arrowfile"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

// Windows are the numbers of the configuration that every worker reads from the log.
type Windows struct {
	Lateness      time.Duration `default:"10s" help:"How far behind the newest record time a turn settles."`
	MaxTurn       time.Duration `default:"2h" help:"A turn that never ends settles after this."`
	DedupeWindow  time.Duration `default:"2h" help:"How long a repeated event is known as such; at least --max-turn."`
	BatchInterval time.Duration `default:"60s" help:"Log time of one batch: how long a settled turn waits for its shard."`
	BatchRows     uint64        `default:"50000" help:"Rows that end a batch early."`
	BatchBytes    uint64        `default:"268435456" help:"Bytes of samples that end a batch early."`
}

// check refuses numbers with which workers would do other than was meant.
func (w *Windows) check() error {
	for _, one := range []struct {
		flag  string
		value time.Duration
	}{{"lateness", w.Lateness}, {"max-turn", w.MaxTurn}, {"dedupe-window", w.DedupeWindow}, {"batch-interval", w.BatchInterval}} {
		if one.value < time.Millisecond {
			return usagef("--%s %s: give at least 1ms", one.flag, one.value)
		}
	}
	if w.MaxTurn > w.DedupeWindow {
		return usagef("--max-turn %s is longer than --dedupe-window %s: an event sent again late in a turn would not be known as a repeat; make the window at least as long", w.MaxTurn, w.DedupeWindow)
	}
	return nil
}

// differing are the numbers that were asked for, since they are not the defaults, and are not the ones in force.
func (w *Windows) differing(inForce *event.ConfigAdopted) ([]string, error) {
	var usual struct {
		Windows `embed:""`
	}
	parser, err := kong.New(&usual)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(nil); err != nil {
		return nil, err
	}
	millis := func(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
	var differ []string
	for _, one := range []struct{ flag, asked, usual, inForce string }{
		{"lateness", w.Lateness.String(), usual.Lateness.String(), millis(inForce.GetLatenessMs())},
		{"max-turn", w.MaxTurn.String(), usual.MaxTurn.String(), millis(inForce.GetMaxTurnMs())},
		{"dedupe-window", w.DedupeWindow.String(), usual.DedupeWindow.String(), millis(inForce.GetDedupeWindowMs())},
		{"batch-interval", w.BatchInterval.String(), usual.BatchInterval.String(), millis(inForce.GetBatchIntervalMs())},
		{"batch-rows", fmt.Sprint(w.BatchRows), fmt.Sprint(usual.BatchRows), fmt.Sprint(inForce.GetBatchRows())},
		{"batch-bytes", fmt.Sprint(w.BatchBytes), fmt.Sprint(usual.BatchBytes), fmt.Sprint(inForce.GetBatchBytes())},
	} {
		if one.asked != one.usual && one.asked != one.inForce {
			differ = append(differ, fmt.Sprintf("--%s %s (it is %s)", one.flag, one.asked, one.inForce))
		}
	}
	return differ, nil
}

// MigrateCommand makes topics, tables and the first configuration.
type MigrateCommand struct {
	Database   `embed:""`
	Brokers    `embed:""`
	Objects    `embed:""`
	ControlKey `embed:""`
	Partitions int `group:"first" env:"MILLRACE_PARTITIONS" placeholder:"N" help:"Partitions of the topic, chosen once and amply. Default: as it has them; 64 for a new one."`
	Replicas   int `group:"first" env:"MILLRACE_REPLICAS" default:"1" help:"Replicas of topics that are made; 3 where losing one broker must lose nothing."`
	Windows    `embed:"" group:"first"`
	Spec       string `group:"first" env:"MILLRACE_SPEC" placeholder:"FILE" help:"Reward spec of the first configuration, and of that only; the shipped one otherwise."`
}

// Help is what 'millrace migrate --help' adds.
func (c *MigrateCommand) Help() string {
	return `Safe to repeat, and to be repeated after every update. A configuration that was adopted before stays in force.

  millrace migrate --postgres postgres://millrace@db/millrace --kafka kafka:9092 --objects s3://millrace --replicas 3`
}

// Run implements the command.
func (c *MigrateCommand) Run(ctx context.Context, out *Output) error {
	p, err := open(ctx, out, "migrate", quiet, c.ControlKey, c.Brokers, c.Objects, c.Database)
	if err != nil {
		return err
	}
	defer p.close()
	p.cfg.Partitions, p.cfg.ReplicationFactor = c.Partitions, c.Replicas
	if err := migrate(ctx, out, p, c.Windows, c.Spec, 64, time.Now()); err != nil {
		return err
	}
	out.Print("topics %s (%d partitions), %s and %s, the tables and the configuration are there", p.cfg.Topic, p.cfg.Partitions,
		p.cfg.DeadLetterTopic(), p.cfg.CheckpointTopic())
	return nil
}

// brokersAnswerBy is how long a new topic, or a broker that just starts, is waited for.
const brokersAnswerBy = time.Minute

// migrate makes what is missing: tables, topics, and in every partition the first configuration, its documents first.
// A new topic gets so many partitions unless p says how many. It says so if a spec was given and another is in force.
func migrate(ctx context.Context, out *Output, p *parts, w Windows, specFile string, partitions int, now time.Time) error {
	if err := w.check(); err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, p.postgres); err != nil {
		return err
	}
	has, err := distill.Partitions(ctx, p.pool, p.cfg.Topic)
	if err != nil {
		return err
	}
	p.cfg.Partitions = cmp.Or(p.cfg.Partitions, has, partitions)
	waiting, cancel := context.WithTimeout(ctx, brokersAnswerBy)
	defer cancel()
	if err := eventlog.Ensure(waiting, p.cfg); err != nil {
		return err
	}
	if err := distill.Register(ctx, p.pool, p.cfg.Topic, p.cfg.Partitions); err != nil {
		return err
	}
	spec, document, err := readSpec(specFile)
	if err != nil {
		return err
	}
	digest := arrowfile.SHA256(document)
	if err := p.store.PutIfAbsent(ctx, objstore.DocumentKey(digest), document); err != nil {
		return fmt.Errorf("storing the reward spec: %w", err)
	}
	inForce := ""
	err = postgres.InTx(ctx, p.pool, func(tx pgx.Tx) error {
		return experiment.Propose(ctx, tx, now, "first configuration", func(c *event.ConfigAdopted) error {
			if c.GetRewardSpecDigest() != "" {
				if c.GetRewardSpecDigest() != digest {
					inForce = c.GetRewardSpecName()
				}
				return nil
			}
			c.RewardSpecDigest, c.RewardSpecName = digest, spec.ID()
			c.LatenessMs, c.MaxTurnMs, c.DedupeWindowMs = w.Lateness.Milliseconds(), w.MaxTurn.Milliseconds(), w.DedupeWindow.Milliseconds()
			c.BatchIntervalMs, c.BatchRows, c.BatchBytes = w.BatchInterval.Milliseconds(), w.BatchRows, w.BatchBytes
			return nil
		})
	})
	if err != nil {
		return err
	}
	if specFile != "" && inForce != "" {
		fmt.Fprintf(out.Err, "--spec %s is not adopted: the reward spec in force stays, %s; a spec is chosen with the first configuration\n", specFile, inForce)
	}
	writer, err := eventlog.NewWriter(p.cfg, p.cfg.Topic)
	if err != nil {
		return err
	}
	write := func(ctx context.Context, r *event.ControlRecord) error {
		return eventlog.WriteControl(ctx, writer, p.keyring, p.cfg, r, now)
	}
	err = experiment.WriteConfig(ctx, p.pool, write, func(ctx context.Context, fn func(pgx.Tx) error) error { return postgres.InTx(ctx, p.pool, fn) }, now)
	return errors.Join(err, writer.Close())
}

func readSpec(file string) (*rewardspec.Spec, []byte, error) {
	if file == "" {
		spec, document := rewardspec.Default()
		return spec, document, nil
	}
	document, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("reward spec: %w", err)
	}
	spec, err := rewardspec.Parse(document)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return spec, document, nil
}

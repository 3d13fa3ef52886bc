package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/checkpoint/experiment"
	"millrace/distill"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
)

// DoctorCommand looks at everything that the roles stand on.
type DoctorCommand struct {
	Database `embed:""`
	Brokers  `embed:""`
	Objects  `embed:""`
	Data     string `group:"places" env:"MILLRACE_DATA" default:"./millrace-data" help:"Data folder of a local millrace up, which is meant if no place is said."`
}

// Help is what 'millrace doctor --help' adds.
func (c *DoctorCommand) Help() string {
	return `One line for each check; exit code 1 if something is wrong. It changes nothing, but for a probe in the object store
that it takes away again.

  millrace doctor --postgres postgres://millrace@db/millrace --kafka kafka:9092 --objects s3://millrace`
}

// examination is what one check found.
type examination struct {
	Check   string `json:"check"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// doctorPatience is how long one check may take.
const doctorPatience = 20 * time.Second

// doctor gathers what the checks find.
type doctor struct {
	out   *Output
	found []examination
	wrong int
}

func (d *doctor) ok(check, format string, args ...any) { d.add(check, true, format, args...) }
func (d *doctor) no(check, format string, args ...any) { d.add(check, false, format, args...) }

func (d *doctor) add(check string, ok bool, format string, args ...any) {
	e := examination{check, ok, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")} // pgx breaks lines
	d.found = append(d.found, e)
	word := "ok"
	if !ok {
		d.wrong++
		word = "WRONG"
	}
	d.out.Print("%-6s %-14s %s", word, e.Check, e.Message)
}

// Run implements the command.
func (c *DoctorCommand) Run(ctx context.Context, out *Output) error {
	if c.Postgres == "" && c.Objects.Objects == "" && len(c.Kafka) == 0 {
		local, err := localPlaces(c.Data, "--postgres, --kafka and --objects")
		if err != nil {
			return err
		}
		c.Postgres, c.Kafka, c.Objects.Objects = local.Postgres, local.Kafka, local.Objects
	}
	if err := allGiven([]place{c.Brokers, c.Objects, c.Database}); err != nil {
		return err
	}
	d := &doctor{out: out}
	p, err := open(ctx, out, "doctor", quiet, c.Brokers, c.Database)
	if err == nil {
		defer p.close()
		d.tables(ctx, p)
	} else {
		d.no("postgres", "%v", err)
		p = &parts{cfg: eventlog.Config{Brokers: c.Kafka, Topic: c.Topic}}
	}
	d.kafka(ctx, p.cfg)
	d.objects(ctx, c.Objects.Objects)
	if out.JSON {
		if err := out.Object(map[string]any{"ok": d.wrong == 0, "checks": d.found}); err != nil {
			return err
		}
	}
	if d.wrong > 0 {
		return fmt.Errorf("%d of %d checks found something wrong", d.wrong, len(d.found))
	}
	return nil
}

// tables looks at Postgres and at what stands in it.
func (d *doctor) tables(ctx context.Context, p *parts) {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	var version string
	var number int
	err := p.pool.QueryRow(ctx, `select current_setting('server_version'), current_setting('server_version_num')::int`).Scan(&version, &number)
	switch {
	case err != nil:
		d.no("postgres", "%v", err)
		return
	case number < 150000:
		d.no("postgres", "version %s; 15 or newer is needed", version)
	default:
		d.ok("postgres", "version %s", version)
	}
	if err := postgres.CheckVersion(ctx, p.pool); err != nil {
		d.no("schema", "%v", err)
		return
	}
	d.ok("schema", "as this program needs it")
	d.partitions(ctx, p)
	d.configuration(ctx, p)
	d.balances(ctx, p)
}

// partitions looks for halted ones.
func (d *doctor) partitions(ctx context.Context, p *parts) {
	n, err := distill.Partitions(ctx, p.pool, p.cfg.Topic)
	if err != nil {
		d.no("partitions", "%v", err)
		return
	}
	if n == 0 {
		d.no("partitions", "topic %s is not known to this database; check --topic, or run `millrace migrate` for it", p.cfg.Topic)
		return
	}
	p.cfg.Partitions = n
	rows, err := p.pool.Query(ctx, `select partition, halted from partition where topic = $1 and halted is not null order by partition`, p.cfg.Topic)
	if err != nil {
		d.no("partitions", "%v", err)
		return
	}
	halted := 0
	for rows.Next() {
		var partition int
		var reason string
		if err := rows.Scan(&partition, &reason); err != nil {
			d.no("partitions", "%v", err)
			return
		}
		halted++
		d.no("partitions", "%d is halted: %s; mend the cause, then: millrace partition resume %d", partition, reason, partition)
	}
	if err := rows.Err(); err != nil {
		d.no("partitions", "%v", err)
		return
	}
	var free int
	if err := p.pool.QueryRow(ctx, `select count(*) from partition where topic = $1 and halted is null and (owner is null or lease_until < now())`,
		p.cfg.Topic).Scan(&free); err != nil {
		d.no("partitions", "%v", err)
		return
	}
	if halted == 0 {
		d.ok("partitions", "%d, none halted, %d without a worker now", n, free)
	}
}

// configuration looks whether the workers have one.
func (d *doctor) configuration(ctx context.Context, p *parts) {
	c, err := experiment.Config(ctx, p.pool)
	switch {
	case err != nil:
		d.no("configuration", "%v", err)
	case c == nil:
		d.no("configuration", "none was adopted; run `millrace migrate`")
	default:
		d.ok("configuration", "%d: reward spec %s", c.GetSeq(), c.GetRewardSpecName())
	}
}

// balances proves the first law for every partition.
func (d *doctor) balances(ctx context.Context, p *parts) {
	sum, each, err := readAccount(ctx, p.pool, p.cfg.Topic)
	if err != nil {
		d.no("accounts", "%v", err)
		return
	}
	balanced := true
	for partition, one := range each {
		if err := one.Check(); err != nil {
			d.no("accounts", "partition %d does not balance: %v", partition, err)
			balanced = false
		}
	}
	if balanced {
		d.ok("accounts", "balanced: %d records read, %d turns opened, %d of them still open", sum.Read, sum.Opened, sum.OpenTurns())
	}
}

// kafka reads the topics' configuration back.
func (d *doctor) kafka(ctx context.Context, cfg eventlog.Config) {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	if cfg.Partitions == 0 { // nobody knows how many it should have
		reader, err := eventlog.NewReader(cfg)
		if err != nil {
			d.no("kafka", "%v", err)
			return
		}
		defer reader.Close()
		cfg.Partitions, _ = reader.Partitions(ctx) // a missing topic is found below
	}
	wrong, err := eventlog.Check(ctx, cfg)
	if err != nil {
		d.no("kafka", "%v", err)
		return
	}
	for _, sentence := range wrong {
		d.no("kafka", "%s", sentence)
	}
	if len(wrong) == 0 {
		d.ok("kafka", "topics %s (%d partitions), %s and %s", cfg.Topic, cfg.Partitions, cfg.DeadLetterTopic(), cfg.CheckpointTopic())
	}
}

// objects puts, reads and deletes a probe.
func (d *doctor) objects(ctx context.Context, location string) {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	store, err := objstore.Open(location)
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil {
		d.no("objects", "%v", err)
		return
	}
	d.ok("objects", "%s: written, read back, not overwritten", store)
}

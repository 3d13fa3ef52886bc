package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint"
	"millrace/checkpoint/experiment"
	"millrace/checkpoint/release"
	"millrace/distill"
	"millrace/distill/judge"
	"millrace/ingest"
	"millrace/internal/auth"
	"millrace/internal/embedded"
	"millrace/internal/postgres"
)

// UpCommand runs everything in one process, on an embedded broker, a Postgres of its own and a local folder.
type UpCommand struct {
	Data       string `env:"MILLRACE_DATA" default:"./millrace-data" help:"Data folder; everything is written below it."`
	Listen     string `env:"MILLRACE_LISTEN" default:"127.0.0.1:8080" help:"Address of the API and the page."`
	Postgres   string `env:"MILLRACE_POSTGRES" placeholder:"URL" help:"Use this Postgres. Otherwise this machine's binaries, or ones fetched once."`
	KafkaPort  int    `default:"0" help:"Port of the embedded broker on 127.0.0.1, for emitters that write to Kafka directly; 0: any. It takes records of any time, so their clocks must be right."`
	Partitions int    `placeholder:"N" help:"Partitions of the topic, chosen once; 8 at the first start."`
	Reset      bool   `help:"Delete what the data folder holds and begin anew."`
	Init       string `default:"base-0" placeholder:"VERSION" help:"Policy version that is live at the first start."`
	Spec       string `placeholder:"FILE" help:"Reward spec of the first start, and of that only; the shipped one otherwise."`
	LogLevel   string `env:"MILLRACE_LOG_LEVEL" enum:"debug,info,warn,error" default:"warn" help:"${enum}."`
	Windows    `embed:"" group:"windows"`
	Cycle      `embed:"" group:"windows"`
	JudgeURL   string `name:"judge-url" group:"judge" placeholder:"URL" help:"OpenAI-compatible API up to and including /v1. Requests of users are sent there: millrace run judge --help."`
	Judge      `embed:"" group:"judge"`

	Demo      bool   `group:"demo" help:"Simulated traffic and a reference trainer on a simulated clock: a whole cycle, of five hours at most, in about a minute. Replaces the last demo's data."`
	Once      bool   `group:"demo" help:"With --demo: end after one cycle; exit 0 only if every law held."`
	Candidate string `group:"demo" enum:"better,null,worse" default:"better" help:"With --demo: what the candidate truly is: ${enum}."`
	Seed      uint64 `group:"demo" default:"1" help:"With --demo: seed of the traffic."`
	Units     int    `group:"demo" default:"4000" help:"With --demo: simulated users."`
}

// Help is what 'millrace up --help' adds.
func (c *UpCommand) Help() string {
	return `Listens on this machine only, writes only below --data, and needs neither Kafka nor Docker.

  millrace up                    then send events: docs/events.md
  millrace up --demo             watch a whole cycle, and look around
  millrace up --demo --once      the same as a test

A demo has a folder of its own below --data. The next one deletes what it holds, and nothing else.`
}

// Run implements the command.
func (c *UpCommand) Run(ctx context.Context, out *Output) error {
	if c.Once && !c.Demo {
		return usagef("--once goes with --demo")
	}
	if c.Demo && c.JudgeURL != "" {
		return usagef("--judge-url does not go with --demo: its users are simulated")
	}
	if c.Demo {
		return c.runDemo(ctx, out)
	}
	if c.Candidate != "better" || c.Seed != 1 || c.Units != 4000 {
		return usagef("--candidate, --seed and --units go with --demo")
	}
	var model judge.Judge
	if c.JudgeURL != "" {
		var err error
		if model, err = c.at(c.JudgeURL); err != nil {
			return err
		}
	}
	h, err := c.openHouse(ctx, out, c.Data, time.Now())
	if err != nil {
		if err = unlessStopped(ctx, err); err == nil {
			out.Print("stopped")
		}
		return err
	}
	defer h.close()
	cfg, err := c.config()
	if err != nil {
		return err
	}
	roles, _, err := h.roles(cfg, time.Now, 0, nil)
	if err != nil {
		return err
	}
	h.greet(out)
	if model != nil {
		asks, err := newJudge(h.parts, model, c.atOnce(), time.Now)
		if err != nil {
			return err
		}
		roles = append(roles, asks)
		out.Print("judge %s: pairs of requests that structure can't tell are sent to %s", model.Version(), c.JudgeURL)
	}
	out.Print("send events: POST http://%s/v1/events      stop: Ctrl-C", h.listener.Addr())
	if err := h.door.work(ctx, h.parts, roles); err != nil {
		return err
	}
	out.Print("stopped; everything acknowledged is kept in %s", c.Data)
	return nil
}

// check refuses, before anything is deleted or made, what would be refused later.
func (c *UpCommand) check() error {
	if c.Partitions < 0 {
		return usagef("--partitions %d: give at least 1", c.Partitions)
	}
	if c.KafkaPort < 0 || c.KafkaPort > 65535 {
		return usagef("--kafka-port %d: give a port, or 0 for any", c.KafkaPort)
	}
	if c.Every <= 0 {
		return usagef("--every %s: give a time above zero", c.Every)
	}
	if err := c.Windows.check(); err != nil {
		return err
	}
	if _, _, err := readSpec(c.Spec); err != nil {
		return err
	}
	_, err := c.config()
	return err
}

// house is a whole Millrace on embedded services.
type house struct {
	*parts
	listener net.Listener
	door     *door
	services string // in words
	objects  string // folder of the object store
	weights  string // folder below the data folder that a local trainer may leave its weights in
	token    string // "" unless it was made just now
	stops    []func() error
}

// openHouse starts the services, brings them up to date and opens the parts; now is the clock of the records.
func (c *UpCommand) openHouse(ctx context.Context, out *Output, dir string, now time.Time) (h *house, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	h = &house{}
	if h.listener, err = listenOn(c.Listen); err != nil {
		return nil, err
	}
	h.door = openDoor(ctx, h.listener)
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if c.Reset {
		if err := emptyFolder(ctx, dir); err != nil {
			return h, err
		}
	}
	if err := makeFolder(dir); err != nil {
		return h, err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return h, err
	}
	h.stops = append(h.stops, lock.Release)
	keys, err := loadSecrets(dir)
	if err != nil {
		return h, err
	}
	kafka, err := embedded.StartKafka(filepath.Join(dir, "kafka"), c.KafkaPort)
	if err != nil {
		return h, err
	}
	h.stops = append(h.stops, kafka.Close)
	url, database := c.Postgres, "postgres (given)"
	if url == "" {
		pg, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Dir: filepath.Join(dir, "postgres"), Progress: func(line string) { fmt.Fprintln(out.Err, line) }})
		if err != nil {
			return h, err
		}
		h.stops = append(h.stops, pg.Stop)
		url, database = pg.URL(), fmt.Sprintf("postgres %s (local)", pg.Version())
	}
	objects := filepath.Join(dir, "objects")
	h.objects = objects
	h.weights = filepath.Join(dir, "weights")
	places := []place{
		ControlKey{keys.ControlKey},
		UnitKey{keys.UnitKey},
		Brokers{kafka.Brokers()},
		Objects{objects},
		Database{Postgres: url, Topic: defaultTopic},
	}
	if err := os.MkdirAll(objects, 0o755); err != nil {
		return h, err
	}
	logging := Logging{LogLevel: c.LogLevel, LogFormat: "text"}
	logger, err := logging.logger(out, "up")
	if err != nil {
		return h, err
	}
	err = patiently(ctx, logger, "Postgres does not answer", postgres.Away, func() error {
		h.parts, err = open(ctx, out, "up", logging, places...)
		return err
	})
	if err != nil {
		return h, err
	}
	h.cfg.Partitions, h.cfg.ReplicationFactor = c.Partitions, 1
	if err := migrate(ctx, out, h.parts, c.Windows, c.Spec, 8, now); err != nil {
		return h, err
	}
	if err := vacate(ctx, h.parts); err != nil {
		return h, err
	}
	if err := initRelease(ctx, h.parts, c.Init, now); err != nil {
		return h, err
	}
	if err := c.sayWhatIsNotAdopted(ctx, out, h.parts); err != nil {
		return h, err
	}
	// The token's only copy is kept before it is good for anything.
	_, err = auth.EnsureFirst(ctx, h.pool, func(secret string) error {
		h.token = secret
		return h.leaveAddress(dir)
	})
	if err != nil {
		return h, err
	}
	h.services = fmt.Sprintf("%s · kafka (embedded, %s) · objects %s", database, kafka.Brokers()[0], objects)
	return h, h.leaveAddress(dir)
}

// vacate ends the leases that a killed process has left behind: the data folder is ours alone, so its owner is dead.
func vacate(ctx context.Context, p *parts) error {
	return errors.Join(distill.Vacate(ctx, p.pool, p.cfg.Topic), postgres.Vacate(ctx, p.pool))
}

// initRelease names the live version at the first start.
func initRelease(ctx context.Context, p *parts, version string, now time.Time) error {
	if _, err := release.Live(ctx, p.pool); !errors.Is(err, release.ErrNoLive) {
		return err
	}
	return postgres.InTx(ctx, p.pool, func(tx pgx.Tx) error { return release.Init(ctx, tx, version, "millrace up", now) })
}

// sayWhatIsNotAdopted warns, in one line, of flags that count at the first start only and differ from what is in force.
func (c *UpCommand) sayWhatIsNotAdopted(ctx context.Context, out *Output, p *parts) error {
	var kept []string
	history, err := release.History(ctx, p.pool)
	if err != nil {
		return err
	}
	if c.Init != "base-0" && len(history) > 0 && history[0].Version != c.Init {
		kept = append(kept, fmt.Sprintf("--init %s (it was %s)", c.Init, history[0].Version))
	}
	inForce, err := experiment.Config(ctx, p.pool)
	if err != nil {
		return err
	}
	if inForce != nil {
		differing, err := c.differing(inForce)
		if err != nil {
			return err
		}
		kept = append(kept, differing...)
	}
	if len(kept) > 0 {
		fmt.Fprintf(out.Err, "not adopted, since it counts at the first start only: %s\n", strings.Join(kept, ", "))
	}
	return nil
}

// leaveAddress lets the commands of this machine's user find the server.
func (h *house) leaveAddress(dir string) error {
	path := filepath.Join(dir, clientFile)
	address := clientAddress{Server: "http://" + h.listener.Addr().String(), Token: h.token, Postgres: h.postgres, Topic: h.cfg.Topic, Kafka: h.cfg.Brokers, Objects: h.objects}
	if h.token == "" {
		old := clientAddress{}
		if body, err := os.ReadFile(path); err == nil {
			if err := json.Unmarshal(body, &old); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		address.Token = old.Token // none if it was deleted: the user has it
	}
	body, err := json.Marshal(address)
	if err != nil {
		return err
	}
	return writePrivate(path, body)
}

// hands are the parts that a simulated clock moves by itself.
type hands struct {
	gateway  *ingest.Gateway
	assigner *ingest.Assigner
	control  *checkpoint.Control
}

// roles are all four, and the page.
func (h *house) roles(cfg checkpoint.Config, clock func() time.Time, tickEvery time.Duration, note []string) (all []role, moved hands, err error) {
	in, err := newIngest(h.parts, clock, tickEvery, &moved)
	if err != nil {
		return nil, moved, err
	}
	workers, err := newDistill(h.parts, 15*time.Second)
	if err != nil {
		return nil, moved, err
	}
	shards, err := newFeed(h.parts)
	if err != nil {
		return nil, moved, err
	}
	cfg.WeightsRoots = append(cfg.WeightsRoots, h.weights)
	loop, control, err := newCheckpoint(h.parts, cfg, clock)
	if err != nil {
		return nil, moved, err
	}
	moved.control = control
	if err := addPage(&loop, h.parts, append([]string{h.services}, note...), clock); err != nil {
		return nil, moved, err
	}
	return []role{in, workers, shards, loop}, moved, nil
}

func (h *house) greet(out *Output) {
	out.Print("%s", h.services)
	if h.token != "" {
		out.Print("page http://%s   token %s  (shown once)", h.listener.Addr(), h.token)
		return
	}
	out.Print("page http://%s   token: as shown at the first start; another one: millrace token create NAME --scope admin", h.listener.Addr())
}

// close stops what was started, last first.
func (h *house) close() {
	if h == nil {
		return
	}
	if h.parts != nil {
		h.parts.close()
	}
	if h.door != nil {
		h.door.close(context.Background())
	}
	for i := len(h.stops) - 1; i >= 0; i-- {
		if err := h.stops[i](); err != nil {
			fmt.Fprintln(os.Stderr, "millrace: stopping:", err)
		}
	}
}

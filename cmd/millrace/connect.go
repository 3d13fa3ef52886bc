package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/internal/telemetry"
)

// What a role or command is told of the places that it works on: each embeds what it needs, and no more.
type (
	// Database is Postgres, and the topic whose tables are meant.
	Database struct {
		Postgres string `group:"places" env:"MILLRACE_POSTGRES" placeholder:"URL" help:"Postgres, as in postgres://millrace@db/millrace."`
		Topic    string `group:"places" env:"MILLRACE_TOPIC" default:"${default_topic}" help:"The topic of session events."`
	}
	// Brokers is Kafka.
	Brokers struct {
		Kafka []string `group:"places" sep:"," env:"MILLRACE_KAFKA" placeholder:"HOST:PORT" help:"Brokers of Kafka 3.x or 4.x, with commas between them."`
	}
	// Objects is the object store.
	Objects struct {
		Objects string `group:"places" env:"MILLRACE_OBJECTS" placeholder:"URL" help:"Object store: a folder, or s3://bucket/prefix?endpoint=http://host:9000."`
	}
	// ControlKey signs what may change what a worker does.
	ControlKey struct {
		ControlKey string `group:"places" env:"MILLRACE_CONTROL_KEY" placeholder:"HEX" help:"Key that signs control records, the same for all roles: openssl rand -hex 32."`
	}
	// UnitKey makes the pseudonyms of units.
	UnitKey struct {
		UnitKey string `group:"places" env:"MILLRACE_UNIT_KEY" placeholder:"HEX" help:"Key of the units' pseudonyms, never changed: openssl rand -hex 32."`
	}
	// Logging is how a role says what happens.
	Logging struct {
		LogLevel  string `env:"MILLRACE_LOG_LEVEL" enum:"debug,info,warn,error" default:"info" help:"Least level that is logged: ${enum}."`
		LogFormat string `env:"MILLRACE_LOG_FORMAT" enum:"json,text" default:"json" help:"How it is logged: ${enum}."`
	}
)

// parts are the opened connections that roles are made of.
type parts struct {
	cfg        eventlog.Config
	postgres   string
	pool       *pgxpool.Pool
	store      objstore.Bucket
	keyring    *eventlog.Keyring
	rulesetKey ed25519.PrivateKey
	unitKey    []byte
	owner      string
	logger     *slog.Logger
	registry   *prometheus.Registry
	stopping   chan struct{} // closed when the door closes: whoever waits for news gets an answer
	closers    []func()
}

// quiet is how commands log that aren't roles: their answer says all.
var quiet = Logging{LogLevel: "error", LogFormat: "text"}

// place is one of the places above.
type place interface {
	given() (value, flag string)
	open(ctx context.Context, p *parts) error
}

// open checks what was said of all places, and then opens them. The log is dialled when it is used.
func open(ctx context.Context, out *Output, who string, logging Logging, places ...place) (*parts, error) {
	if err := allGiven(places); err != nil {
		return nil, err
	}
	logger, err := logging.logger(out, who)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // in containers often the same, as is the process id
	p := &parts{
		cfg:    eventlog.Config{ClientID: "millrace-" + who},
		owner:  fmt.Sprintf("%s/%s/%d/%s", host, strings.ToLower(rand.Text()[:8]), os.Getpid(), who),
		logger: logger, registry: telemetry.NewRegistry(), stopping: make(chan struct{}),
	}
	for _, at := range places {
		if err := at.open(ctx, p); err != nil {
			p.close()
			return nil, err
		}
	}
	p.watch()
	return p, nil
}

// watch lets an outage of a place be told in one line.
func (p *parts) watch() {
	var places []telemetry.Place
	if p.pool != nil {
		at := p.pool.Config().ConnConfig
		places = append(places, telemetry.Place{
			Name: "Postgres", At: fmt.Sprintf("%s:%d/%s", at.Host, at.Port, at.Database), Suspects: postgres.Away, Probe: p.pingAnew,
		})
	}
	if p.store != nil {
		places = append(places, telemetry.Place{Name: "the object store", At: p.store.String(), Suspects: objstore.Retryable, Probe: p.store.Check})
	}
	if len(p.cfg.Brokers) > 0 {
		places = append(places, telemetry.Place{Name: "Kafka", At: strings.Join(p.cfg.Brokers, ","), Suspects: eventlog.Retryable, Probe: p.reachable})
	}
	logger, outages := telemetry.Watch(p.logger, places...)
	p.logger = logger
	p.closers = append(p.closers, outages.Close)
}

// pingAnew asks Postgres; if that fails then not on a connection which has broken.
func (p *parts) pingAnew(ctx context.Context) error {
	if p.pool.Ping(ctx) == nil {
		return nil
	}
	p.pool.Reset()
	return p.pool.Ping(ctx)
}

// reachable asks the log's brokers, on a connection of its own: an old one may still look well.
func (p *parts) reachable(ctx context.Context) error {
	reader, err := eventlog.NewReader(p.cfg)
	if err != nil {
		return err
	}
	defer reader.Close()
	return reader.Reachable(ctx)
}

// allGiven names everything that wasn't said, at once.
func allGiven(places []place) error {
	var missing []string
	for _, at := range places {
		if value, flag := at.given(); value == "" {
			missing = append(missing, fmt.Sprintf("--%s (or MILLRACE_%s)", flag, strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))))
		}
	}
	if len(missing) > 0 {
		return usagef("missing: %s; `millrace up` needs none of this", strings.Join(missing, ", "))
	}
	return nil
}

func (l Logging) logger(out *Output, who string) (*slog.Logger, error) {
	logger, err := telemetry.NewLogger(out.Err, l.LogFormat, l.LogLevel)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return logger.With("role", who), nil
}

func (d Database) given() (string, string) { return d.Postgres, "postgres" }

func (d Database) open(ctx context.Context, p *parts) (err error) {
	if _, err := pgxpool.ParseConfig(d.Postgres); err != nil {
		return usagef("--postgres: %v", err) // pgx leaves the password out
	}
	p.cfg.Topic, p.postgres = d.Topic, d.Postgres
	if p.pool, err = postgres.Open(ctx, d.Postgres, p.cfg.ClientID); err != nil {
		return err
	}
	p.closers = append(p.closers, p.pool.Close)
	return nil
}

func (b Brokers) given() (string, string) { return strings.Join(b.Kafka, ","), "kafka" }

func (b Brokers) open(_ context.Context, p *parts) error {
	p.cfg.Brokers = b.Kafka
	return nil
}

func (o Objects) given() (string, string) { return o.Objects, "objects" }

func (o Objects) open(_ context.Context, p *parts) (err error) {
	p.store, err = objstore.Open(o.Objects)
	return err
}

func (k ControlKey) given() (string, string) { return k.ControlKey, "control-key" }

func (k ControlKey) open(_ context.Context, p *parts) error {
	b, err := key("--control-key", k.ControlKey)
	if err != nil {
		return err
	}
	p.rulesetKey = rulesetKey(b)
	p.keyring, err = eventlog.NewKeyring(map[string][]byte{"1": b}, "1")
	return err
}

func (k UnitKey) given() (string, string) { return k.UnitKey, "unit-key" }

func (k UnitKey) open(_ context.Context, p *parts) (err error) {
	p.unitKey, err = key("--unit-key", k.UnitKey)
	return err
}

func key(flag, text string) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) < 16 {
		return nil, usagef("%s: want at least 32 hex digits; make some with: openssl rand -hex 32", flag)
	}
	return b, nil
}

// Tables says where the tables are, for commands that only read and write them. Beside a local `millrace up` nothing
// needs to be said.
type Tables struct {
	Postgres string `env:"MILLRACE_POSTGRES" placeholder:"URL" help:"Postgres. Default: that of the millrace up over --data."`
	Topic    string `env:"MILLRACE_TOPIC" help:"The topic of session events. Default: ${default_topic}."`
	Data     string `env:"MILLRACE_DATA" default:"./millrace-data" help:"Data folder of a local millrace up."`
}

const defaultTopic = "millrace.sessions"

// open connects to the tables; the caller closes the pool.
func (t *Tables) open(ctx context.Context, command string) (*pgxpool.Pool, string, error) {
	url, topic := t.Postgres, t.Topic
	if url == "" {
		local, err := localAddress(t.Data)
		if err != nil {
			return nil, "", err
		}
		if local.Postgres == "" {
			return nil, "", usagef("no Postgres: start `millrace up`, or say --postgres URL")
		}
		url, topic = local.Postgres, cmp.Or(topic, local.Topic)
	}
	pool, err := postgres.Open(ctx, url, "millrace-"+command)
	return pool, cmp.Or(topic, defaultTopic), err
}

// close closes what was opened, last first.
func (p *parts) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
}

// patiently tries until it works, as long as the error may pass and nobody says stop. It says once what it waits for.
func patiently(ctx context.Context, logger *slog.Logger, what string, mayPass func(error) bool, try func() error) error {
	for wait, tries := 100*time.Millisecond, 0; ; wait, tries = min(2*wait, 5*time.Second), tries+1 {
		err := try()
		if err == nil || ctx.Err() != nil || !mayPass(err) {
			return err
		}
		if tries == 0 {
			logger.Warn("waiting: "+what, "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/internal/telemetry"
)

// Connect says where the log, the tables and the objects are. Roles and commands that work on them share it.
type Connect struct {
	Postgres   string   `env:"MILLRACE_POSTGRES" placeholder:"URL" help:"Postgres, for instance postgres://millrace@db/millrace."`
	Kafka      []string `env:"MILLRACE_KAFKA" placeholder:"HOST:PORT,…" help:"Brokers of Kafka 3.x or 4.x."`
	Topic      string   `env:"MILLRACE_TOPIC" default:"${default_topic}" help:"The topic of session events."`
	Partitions int      `env:"MILLRACE_PARTITIONS" default:"64" help:"Partitions of a topic that is made; chosen once."`
	Replicas   int      `env:"MILLRACE_REPLICAS" default:"1" help:"Replicas of a topic that is made."`
	Objects    string   `env:"MILLRACE_OBJECTS" placeholder:"URL" help:"Object store: a folder, or s3://bucket/prefix?endpoint=…"`
	ControlKey string   `env:"MILLRACE_CONTROL_KEY" placeholder:"HEX" help:"Key that signs control records, at least 32 hex digits."`
	UnitKey    string   `env:"MILLRACE_UNIT_KEY" placeholder:"HEX" help:"Key of the units' pseudonyms, at least 32 hex digits."`
	LogLevel   string   `env:"MILLRACE_LOG_LEVEL" enum:"debug,info,warn,error" default:"info" help:"${enum}."`
	LogFormat  string   `env:"MILLRACE_LOG_FORMAT" enum:"json,text" default:"json" help:"${enum}."`
}

// parts are the opened connections that roles are made of.
type parts struct {
	cfg      eventlog.Config
	postgres string
	pool     *pgxpool.Pool
	store    objstore.Bucket
	keyring  *eventlog.Keyring
	unitKey  []byte
	owner    string
	logger   *slog.Logger
	registry *prometheus.Registry
	closers  []func()
}

// open connects to Postgres and the object store and checks what it was told. The log is dialled when it is used.
func (c *Connect) open(ctx context.Context, out *Output, role string) (*parts, error) {
	for _, need := range []struct{ value, flag string }{
		{c.Postgres, "--postgres"},
		{strings.Join(c.Kafka, ","), "--kafka"},
		{c.Objects, "--objects"},
		{c.ControlKey, "--control-key"},
		{c.UnitKey, "--unit-key"},
	} {
		if need.value == "" {
			return nil, usagef("%s is missing (or the variable MILLRACE_%s); `millrace up` needs none of this", need.flag,
				strings.ToUpper(strings.ReplaceAll(need.flag[2:], "-", "_")))
		}
	}
	controlKey, err := key("--control-key", c.ControlKey)
	if err != nil {
		return nil, err
	}
	unitKey, err := key("--unit-key", c.UnitKey)
	if err != nil {
		return nil, err
	}
	logger, err := telemetry.NewLogger(out.Err, c.LogFormat, c.LogLevel)
	if err != nil {
		return nil, usagef("%v", err)
	}
	keyring, err := eventlog.NewKeyring(map[string][]byte{"1": controlKey}, "1")
	if err != nil {
		return nil, err
	}
	store, err := objstore.Open(c.Objects)
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", c.Objects, err)
	}
	pool, err := postgres.Open(ctx, c.Postgres, "millrace "+role)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	return &parts{
		cfg: eventlog.Config{
			Brokers: c.Kafka, Topic: c.Topic, Partitions: c.Partitions, ReplicationFactor: c.Replicas, ClientID: "millrace-" + role,
		},
		postgres: c.Postgres, pool: pool, store: store, keyring: keyring, unitKey: unitKey,
		owner:  fmt.Sprintf("%s/%d/%s", host, os.Getpid(), role),
		logger: logger.With("role", role), registry: telemetry.NewRegistry(), closers: []func(){pool.Close},
	}, nil
}

// close closes what was opened, last first.
func (p *parts) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
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
	pool, err := postgres.Open(ctx, url, "millrace "+command)
	return pool, cmp.Or(topic, defaultTopic), err
}

package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/ingest/eventjson"
	"millrace/internal/auth"
	"millrace/internal/eventlog"
	"millrace/schemas/event"
)

// Config says how the gateway takes events. The zero value of a field is its default.
type Config struct {
	Name         string        // tells this gateway's ticks from another's. Default "gateway"
	Limits       Limits        // what one request may hold
	WriteTimeout time.Duration // how long a batch may take to become durable before its items are answered "retry". Default 10 s
	TickEvery    time.Duration // how often Run writes ticks. Default 5 s; negative: never, whoever has the clock calls Tick
	TickHold     time.Duration // how long no ticks are written after the log was away, for emitters to send again. Default 15 s; negative: not at all
	UnitKey      []byte        // if set, unit ids are stored as their pseudonyms under this key; at least 16 bytes
	KeepSecrets  bool          // don't redact credentials in text
	RatePerToken float64       // events per second that one token may send, in the long run; 0: no bound
	MemoryBytes  int64         // bound on all bodies being worked on at once. Default 512 MiB
}

// Limits bound one request. They are published at GET /v1/limits.
type Limits struct {
	BodyBytes         int64 `json:"bodyBytes"`         // as sent. Default 16 MiB
	DecompressedBytes int64 `json:"decompressedBytes"` // after gzip or zstd. Default 64 MiB
	Items             int   `json:"items"`             // events in a request. Default 10,000
	ItemBytes         int   `json:"itemBytes"`         // one event, as written. Default 8 MiB
	Depth             int   `json:"depth"`             // nesting of an event's JSON; fixed
	IDBytes           int   `json:"idBytes"`           // an id or short label; fixed
	ToolSchemaBytes   int64 `json:"toolSchemaBytes"`   // a document of tool schemas. Default 4 MiB
}

func (c Config) withDefaults() Config {
	setDefault(&c.Name, "gateway")
	setDefault(&c.WriteTimeout, 10*time.Second)
	setDefault(&c.TickEvery, 5*time.Second)
	setDefault(&c.TickHold, 15*time.Second)
	setDefault(&c.MemoryBytes, 512<<20)
	setDefault(&c.Limits.BodyBytes, 16<<20)
	setDefault(&c.Limits.DecompressedBytes, 64<<20)
	setDefault(&c.Limits.Items, 10_000)
	setDefault(&c.Limits.ItemBytes, 8<<20)
	setDefault(&c.Limits.ToolSchemaBytes, 4<<20)
	c.Limits.Depth = eventjson.MaxDepth
	c.Limits.IDBytes = event.MaxIDBytes
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate checks the configuration, defaults filled in.
func (c Config) Validate() error {
	c = c.withDefaults()
	l := c.Limits
	switch {
	case l.BodyBytes < 0 || l.DecompressedBytes < 0 || l.Items < 0 || l.ItemBytes < 0 || l.ToolSchemaBytes < 0:
		return errors.New("ingest limits: none may be negative")
	case l.ItemBytes > maxEventBytes:
		return fmt.Errorf("ingest limits: an item of %d bytes does not fit into the log; at most %d", l.ItemBytes, maxEventBytes)
	case c.MemoryBytes < l.DecompressedBytes:
		return fmt.Errorf("ingest memory: %d bytes are less than one body may hold (%d)", c.MemoryBytes, l.DecompressedBytes)
	case c.WriteTimeout < 0:
		return fmt.Errorf("ingest write timeout: %s is negative", c.WriteTimeout)
	case len(c.UnitKey) > 0 && len(c.UnitKey) < 16:
		return fmt.Errorf("ingest unit key: %d bytes; give at least 16 random ones, or none", len(c.UnitKey))
	case c.RatePerToken < 0:
		return fmt.Errorf("ingest rate per token: %g is negative", c.RatePerToken)
	}
	return nil
}

// Log is where events become durable: one error per message, nil only when the log has it with acks=all.
type Log interface {
	Write(ctx context.Context, messages ...eventlog.Message) []error
}

// SchemaStore keeps the documents of tool schemas; an object store.
type SchemaStore interface {
	PutIfAbsent(ctx context.Context, key string, body []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	Stat(ctx context.Context, key string) (size int64, err error)
}

// Guard lets requests through whose token has the scope.
type Guard interface {
	Middleware(scope auth.Scope) func(http.Handler) http.Handler
}

// Deps are what the gateway works with.
type Deps struct {
	Log        Log
	Control    func(ctx context.Context, record *event.ControlRecord, at time.Time) error // signs and writes to every partition
	Probe      func(ctx context.Context) error                                            // is the log there? nil: only writing tells
	Schemas    SchemaStore
	Guard      Guard
	Clock      func() time.Time // stamps events, records and ticks; nil: the system's. Simulations have their own
	Stopping   <-chan struct{}  // closed when the server lets nobody in any more: no ticks from then on. nil: only Run's context tells
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (d Deps) validate() error {
	switch {
	case d.Log == nil:
		return errors.New("ingest: no log to write to")
	case d.Control == nil:
		return errors.New("ingest: no way to write ticks")
	case d.Schemas == nil:
		return errors.New("ingest: no store for tool schemas")
	case d.Guard == nil:
		return errors.New("ingest: no guard; events are taken from holders of a token only")
	case d.Logger == nil:
		return errors.New("ingest: no logger")
	case d.Registerer == nil:
		return errors.New("ingest: no metrics registerer")
	}
	return nil
}

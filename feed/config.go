package feed

import (
	"errors"
	"net/http"
	"time"

	"millrace/internal/postgres"
)

// Config of a feed; New fills in the defaults.
type Config struct {
	Owner        string        // of the publisher's lease: this process, unlike any other
	Lease        time.Duration // how long a dead publisher is waited for; default 10 s
	Interval     time.Duration // between two looks for new shards; default 1 s
	CollectEvery time.Duration // between two garbage collections; default 10 min, negative: never
	Grace        time.Duration // how long sources of a compacted file stay for those who listed them before; default 1 h
	FileRows     int64         // a ledger file takes no further source that would bring it over this; default 250,000 rows

	// Guard wraps the API: who may read shards (scope shards:read). Required.
	Guard func(http.Handler) http.Handler
	// Stopping is closed when the server stops: waiting readers get an answer. nil: they wait to the end.
	Stopping <-chan struct{}
	// MaxWait is the longest long-poll; default 60 s. The server's write timeout must be longer.
	MaxWait time.Duration
}

// Validate says what is missing or out of range.
func (c Config) Validate() error {
	switch {
	case c.Owner == "":
		return errors.New("feed: no owner given: the name of this process in the publisher's lease")
	case c.Guard == nil:
		return errors.New("feed: no guard given: who may read shards")
	case c.Lease < 0 || c.Interval < 0 || c.Grace < 0 || c.FileRows < 0 || c.MaxWait < 0:
		return errors.New("feed: times and sizes can't be negative")
	}
	return postgres.LeaderConfig{Name: publisher, Owner: c.Owner, Lease: c.Lease}.Validate()
}

func (c Config) withDefaults() Config {
	setDefault(&c.Interval, time.Second)
	setDefault(&c.CollectEvery, 10*time.Minute)
	setDefault(&c.Grace, time.Hour)
	setDefault(&c.FileRows, 250_000)
	setDefault(&c.MaxWait, time.Minute)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

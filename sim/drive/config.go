package drive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"millrace/schemas/event"
)

// Source is what makes the events: the simulated traffic.
type Source interface {
	// Next hands out the events sent after the last call's time and up to until, in the order of sending.
	Next(until time.Time) []*event.SessionEvent
	// Now is the time up to which events were handed out.
	Now() time.Time
}

// Config says where traffic goes and how. URL and Token are required.
type Config struct {
	// URL is the API's: http://127.0.0.1:8080.
	URL string
	// Token has the scopes events:write and assign:read.
	Token string
	// Flag is the OFREP key under which the serving checkpoint is asked for; "composer-checkpoint" by default.
	Flag string
	// Step is how far the simulated clock moves at once; 5 s by default.
	Step time.Duration
	// Batch is the most events of one request; 1,000 by default.
	Batch int
	// InFlight is the most requests at once; 4 by default. A session's events always go one after another.
	InFlight int
	// Pause is the first wait before something is sent again, doubled up to MostPause; 50 ms and 5 s by default.
	Pause, MostPause time.Duration
	// Client sends the requests; one with a timeout of 30 s by default.
	Client *http.Client
	// SetClock tells the time of a step before its events are sent, so that the gateway stamps them with it.
	SetClock func(time.Time)
	// Advance is called after each step, when all of its events are durable: there ticks are written and workers
	// waited for.
	Advance func(ctx context.Context, now time.Time) error
	// Documents are registered before the first event: tool schemas by their digest.
	Documents map[string][]byte
}

func (c Config) withDefaults() Config {
	if c.Flag == "" {
		c.Flag = "composer-checkpoint"
	}
	if c.Step == 0 {
		c.Step = 5 * time.Second
	}
	if c.Batch == 0 {
		c.Batch = 1000
	}
	if c.InFlight == 0 {
		c.InFlight = 4
	}
	if c.Pause == 0 {
		c.Pause = 50 * time.Millisecond
	}
	if c.MostPause == 0 {
		c.MostPause = 5 * time.Second
	}
	if c.Client == nil {
		c.Client = &http.Client{
			Timeout:   30 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: c.InFlight + 1, IdleConnTimeout: time.Minute},
		}
	}
	if c.SetClock == nil {
		c.SetClock = func(time.Time) {}
	}
	if c.Advance == nil {
		c.Advance = func(context.Context, time.Time) error { return nil }
	}
	return c
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.URL == "":
		return errors.New("drive: URL is missing; give the API's, such as http://127.0.0.1:8080")
	case c.Step < time.Millisecond:
		return fmt.Errorf("drive: Step is %s; it must be at least 1 ms", c.Step)
	case c.Batch < 1 || c.Batch > 10_000:
		return fmt.Errorf("drive: Batch is %d; it must lie between 1 and 10,000", c.Batch)
	case c.InFlight < 1 || c.InFlight > 64:
		return fmt.Errorf("drive: InFlight is %d; it must lie between 1 and 64", c.InFlight)
	case c.Pause < 0 || c.MostPause < c.Pause:
		return fmt.Errorf("drive: Pause is %s and MostPause %s; the second must not be the smaller", c.Pause, c.MostPause)
	}
	return nil
}

package sim

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what the candidate truly is.
type Kind string

// The kinds of candidate.
const (
	Better Kind = "better" // delivers and keeps more, is faster, asks, aborts and breaks fewer calls
	Null   Kind = "null"   // the same as the base
	Worse  Kind = "worse"  // the effects of Better, reversed
)

// Kinds in the order in which usage texts name them.
var Kinds = []Kind{Better, Null, Worse}

// Config describes the simulated traffic. Only Start is required.
type Config struct {
	// Seed fixes everything: the same seed, start and assignments give the same events.
	Seed uint64
	// Start is the simulated time at which traffic begins.
	Start time.Time
	// Units is the number of users; 4,000 by default.
	Units int
	// TurnsPerUnitHour is how many turns a unit would like to make, 1 by default; a unit that is busy with a session
	// starts the next one later, so that about 5 turns a unit come of it in five and a half hours.
	// A single unit's wish is gamma-distributed (shape 2) around it.
	TurnsPerUnitHour float64
	// BaseVersion is the policy version that behaves as the base does; "base-0" by default.
	BaseVersion string
	// Kind is how every other policy version behaves, unless Serve says otherwise; Better by default.
	Kind Kind
	// Assign says at the start of a session which policy version serves it, and as a member of which experiment
	// and arm. Without it all are served by BaseVersion.
	Assign func(unit, session string) (version, experiment, arm string)
	// Calm leaves out what disturbs transport and providers: outages, late, repeated and lost events, turns that
	// never end, clocks that are off.
	Calm bool
}

func (c Config) withDefaults() Config {
	if c.Units == 0 {
		c.Units = 4000
	}
	if c.TurnsPerUnitHour == 0 {
		c.TurnsPerUnitHour = 1
	}
	if c.BaseVersion == "" {
		c.BaseVersion = "base-0"
	}
	if c.Kind == "" {
		c.Kind = Better
	}
	return c
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Start.IsZero():
		return errors.New("sim: Start is missing; give the simulated time at which traffic begins")
	case c.Units < 1 || c.Units > 1_000_000:
		return fmt.Errorf("sim: Units is %d; it must lie between 1 and 1,000,000", c.Units)
	case !(c.TurnsPerUnitHour > 0 && c.TurnsPerUnitHour <= 20):
		return fmt.Errorf("sim: TurnsPerUnitHour is %g; it must lie above 0 and up to 20", c.TurnsPerUnitHour)
	}
	_, err := Candidate(c.Kind)
	return err
}

package checkpoint

import (
	"fmt"
	"time"

	"millrace/checkpoint/cut"
	"millrace/checkpoint/evals"
	"millrace/checkpoint/webhook"
	"millrace/schemas/gatepolicy"
)

// Config is the checkpoint role's configuration.
type Config struct {
	Topic      string // whose partitions are marked and cut
	Partitions int

	Period time.Duration // between cuts; 5 h. By rows: at least
	Anchor time.Time     // the first cut; zero: one period after the first pass. Kept in Postgres from then on
	// CutAtRows is for teams whose traffic is small: a cut as soon as so many rows of the live version wait, but not before
	// Period has passed since the last one, and after MaxPeriod in any case. 0: at the slots of Period.
	CutAtRows int64
	MaxPeriod time.Duration
	// OnOpenExperiment says what becomes of a cut that is due while a test runs.
	OnOpenExperiment OnOpenExperiment
	Ladder           Ladder
	Cut              cut.Config
	// Policy is the gate policy document of the next experiments.
	Policy []byte
	// SlowAfter is the threshold of the metric slow_turns, frozen in each experiment.
	SlowAfter time.Duration
	// EvaluateEvery is how much log time passes between two looks at a running test.
	EvaluateEvery time.Duration

	Owner string        // of the leader's lease: this process
	Lease time.Duration // of the leadership
	Every time.Duration // between two passes in real time
	// StepFor and BulkFor bound, in real time, what one part of a pass may take: each write to the log and each step
	// (30 s), and reading or writing whole cuts and weights (30 min). A part that takes longer is tried again.
	StepFor, BulkFor time.Duration
	// MaxSkew is how far this process's clock may be from Postgres's; beyond it nothing is decided by time. 1 min
	MaxSkew time.Duration

	// Suites are the offline suites that a candidate has to pass; nil: there are none.
	Suites *evals.Suites
	// Webhooks are told what happens.
	Webhooks []webhook.Endpoint

	// WeightsRoots are the places besides the object store where submitted weights are read to recompute their digests:
	// absolute folders, or s3://bucket/prefix?endpoint=… .
	WeightsRoots []string
}

// OnOpenExperiment is what becomes of a cut that is due while a test runs.
type OnOpenExperiment string

// The rules.
const (
	Wait      OnOpenExperiment = "wait"      // the cut is skipped with that reason, its rows go to the next one
	Supersede OnOpenExperiment = "supersede" // the test is ended without a verdict, and the cut is made
)

// Ladder are the times of a cycle's steps, from its cut on. The test begins at EvalsBy and takes as long as the gate
// policy says.
type Ladder struct {
	MarkBy     time.Duration // partitions that have not passed the mark by then are named; 10 min
	SubmitBy   time.Duration // 1 h
	EvalsBy    time.Duration // verified and evaluated; the test starts; 1 h 15 min
	VerdictFor time.Duration // from the test's end to its verdict; 5 min
}

// DefaultConfig is the design's ladder of five hours. Topic, Partitions and Owner are the caller's.
func DefaultConfig() Config {
	return Config{
		Period:           5 * time.Hour,
		OnOpenExperiment: Wait,
		Ladder:           Ladder{MarkBy: 10 * time.Minute, SubmitBy: time.Hour, EvalsBy: 75 * time.Minute, VerdictFor: 5 * time.Minute},
		Cut:              cut.DefaultConfig(),
		Policy:           gatepolicy.DefaultText(),
		SlowAfter:        time.Minute,
		EvaluateEvery:    time.Minute,
		Lease:            30 * time.Second,
		Every:            5 * time.Second,
		StepFor:          30 * time.Second,
		BulkFor:          30 * time.Minute,
		MaxSkew:          time.Minute,
	}
}

// Validate names the first setting that makes no sense. A cycle has to fit between two cuts.
func (c Config) Validate() error {
	if c.Topic == "" || c.Owner == "" || c.Partitions < 1 {
		return fmt.Errorf("checkpoint: topic %q, owner %q and %d partitions: all three are needed", c.Topic, c.Owner, c.Partitions)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"period", c.Period},
		{"mark by", c.Ladder.MarkBy},
		{"submit by", c.Ladder.SubmitBy},
		{"verdict for", c.Ladder.VerdictFor},
		{"slow after", c.SlowAfter},
		{"lease", c.Lease},
		{"every", c.Every},
		{"step for", c.StepFor},
		{"bulk for", c.BulkFor},
		{"max skew", c.MaxSkew},
	} {
		if d.value <= 0 {
			return fmt.Errorf("checkpoint: %s is %s, want > 0", d.name, d.value)
		}
	}
	policy, err := gatepolicy.Parse(c.Policy)
	if err != nil {
		return fmt.Errorf("checkpoint: gate policy: %w", err)
	}
	if err := c.Cut.Validate(); err != nil {
		return err
	}
	return c.fits(policy)
}

// fits says which step of the cycle does not fit into it.
func (c Config) fits(policy gatepolicy.Policy) error {
	l := c.Ladder
	start := time.Time{}
	_, end := policy.Window(start.Add(l.EvalsBy))
	whole := end.Sub(start) + l.VerdictFor
	switch {
	case c.OnOpenExperiment != Wait && c.OnOpenExperiment != Supersede:
		return fmt.Errorf("checkpoint: on open experiment %q, want %s or %s", c.OnOpenExperiment, Wait, Supersede)
	case l.MarkBy > l.SubmitBy || l.SubmitBy > l.EvalsBy:
		return fmt.Errorf("checkpoint: the ladder goes down: partitions named after %s, submit by %s, evaluated by %s; each has to be at least the one before", l.MarkBy, l.SubmitBy, l.EvalsBy)
	case whole > c.Period:
		return fmt.Errorf("checkpoint: the ladder does not fit: submit by %s, test from %s to %s, verdict by %s, next cut at %s; make the period at least %s, or the test %s shorter",
			l.SubmitBy, l.EvalsBy, end.Sub(start), whole, c.Period, whole, whole-c.Period)
	case c.CutAtRows == 0 && c.MaxPeriod != 0:
		return fmt.Errorf("checkpoint: the longest period (%s) counts only for cuts by rows, and no number of rows is given", c.MaxPeriod)
	case c.CutAtRows == 0:
		return nil
	case c.CutAtRows < c.Cut.MinRows:
		return fmt.Errorf("checkpoint: a cut at %d rows would be skipped, at least %d are wanted: cut later, or want fewer", c.CutAtRows, c.Cut.MinRows)
	case c.MaxPeriod < c.Period:
		return fmt.Errorf("checkpoint: a cut by rows after %s at the latest, but not before %s: the first has to be the longer one", c.MaxPeriod, c.Period)
	}
	return nil
}

package engine

import (
	"millrace/distill/account"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/metric"
	"millrace/schemas/sample"
)

// Record is one record of the log, decoded and checked by the shell: exactly one of Event, Control and Reject is
// set, but that an event which was rejected may leave a stub: then Event is that stub.
type Record struct {
	Offset  int64
	Time    int64 // the log's timestamp in µs since 1970
	Event   *event.SessionEvent
	Control *event.ControlRecord
	Reject  string // why the shell could not take it: it becomes a dead letter
}

// Effects are what a record caused. Nothing of them is visible before the shell has committed them.
type Effects struct {
	Class      account.Class
	DeadLetter string // the reason, if Class is DeadLetter
	Settled    []Settled
	Amendment  *ledger.Row
	Exposed    *Exposure // a turn that takes part in a test has begun
	CutMark    string    // the cut whose mark this record is
	Full       bool      // the batch must end after this record: its row or byte limit is reached

	// Halt says why the record can't be applied: a document that it needs was not provided, or there is no
	// configuration. Nothing was changed; the shell stops the partition and names the reason.
	Halt string
}

// Settled is one settled turn: its ledger row always, its training sequences if it has any, and what it adds to
// the A/B sums.
type Settled struct {
	Row     ledger.Row
	Samples []sample.Row
	Sums    []metric.Contribution
}

// Exposure is a unit in an arm of a test that runs, as its backend reported it at the start of a turn.
type Exposure struct{ Experiment, UnitHash, Arm string }

// Defaults of a configuration that leaves a field at zero.
const (
	defaultLatenessMs      = 10_000
	defaultMaxTurnMs       = 2 * 60 * 60 * 1000
	defaultDedupeMs        = 2 * 60 * 60 * 1000
	defaultBatchIntervalMs = 60_000
	defaultBatchRows       = 50_000
	defaultBatchBytes      = 256 << 20
	defaultSettledMemoryMs = 8 * 24 * 60 * 60 * 1000

	maxLimitMs = 1 << 40 // 34 years: sums with a time stay far from overflowing
)

// limits are the configuration's numbers in the engine's units.
type limits struct {
	lateness, maxTurn, dedupe, interval, memory int64 // µs
	rows, bytes                                 uint64
}

func limitsOf(c *event.ConfigAdopted) limits {
	micros := func(ms, fallback int64) int64 {
		if ms <= 0 {
			ms = fallback
		}
		return min(ms, maxLimitMs) * 1000
	}
	l := limits{
		lateness: micros(c.GetLatenessMs(), defaultLatenessMs),
		maxTurn:  micros(c.GetMaxTurnMs(), defaultMaxTurnMs),
		dedupe:   micros(c.GetDedupeWindowMs(), defaultDedupeMs),
		interval: micros(c.GetBatchIntervalMs(), defaultBatchIntervalMs),
		memory:   micros(c.GetSettledMemoryMs(), defaultSettledMemoryMs),
		rows:     c.GetBatchRows(),
		bytes:    c.GetBatchBytes(),
	}
	if l.rows == 0 {
		l.rows = defaultBatchRows
	}
	if l.bytes == 0 {
		l.bytes = defaultBatchBytes
	}
	return l
}

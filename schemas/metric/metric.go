// Package metric defines the metrics of an A/B test: ratios of sums, each with its numerator, denominator,
// direction and scale. Distill adds a settled turn's contributions to the sums; the gate reads the sums.
package metric

import (
	"math"
	"time"

	"millrace/schemas/ledger"
)

// Scale says how a metric's lift is read.
type Scale string

const (
	Relative  Scale = "relative"  // (candidate − control) / |control|
	Log       Scale = "log"       // of a mean of logarithms: exp(difference) − 1
	LogRatio  Scale = "log_ratio" // of a rare rate: log(candidate / control)
	Millionth       = 1_000_000   // sums are fixed-point: integers of this unit
)

// Def is one metric.
type Def struct {
	Name        string
	Title       string
	Numerator   string
	Denominator string
	// HigherIsBetter gives the sign in which a lift is a benefit.
	HigherIsBetter bool
	Scale          Scale
	// Quality metrics are shares that must be alike in both arms; they are never a success or a guardrail.
	Quality    bool
	contribute func(turn *ledger.Row, window Window) (num, den float64, counts bool)
}

// Window is what an experiment froze before it started.
type Window struct {
	Experiment  string
	StartsAt    time.Time
	CountsUntil time.Time // a turn counts if it started before this …
	EndsAt      time.Time // … and settled by this
	SlowAfterMs float64   // the latency threshold
}

// Contribution is what one turn adds to one metric's bucket, in millionths.
type Contribution struct {
	Metric   string
	Num, Den int64
}

// A single turn's share of a count is capped, so that one runaway turn can't carry an arm.
const (
	maxMalformedPerTurn = 10
	maxTokensPerTurn    = 200_000
)

// All are the metrics, in the order in which reports name them.
var All = []Def{
	{Name: "kept_edits", Title: "kept edits", Numerator: "edits.retention, 0 when nothing was delivered", Denominator: "edit-request turns whose retention was observed", HigherIsBetter: true, Scale: Relative, contribute: kept},
	{Name: "dissatisfied", Title: "dissatisfied follow-ups", Numerator: "turns with a negative follow-up", Denominator: "matured turns", Scale: LogRatio, contribute: perTurn(func(t *ledger.Row, _ Window) float64 { return flag(t.Signal("follow_up.polarity").Number < 0) })},
	{Name: "latency", Title: "latency", Numerator: "ln of the summed step latencies in s", Denominator: "turns with a known latency", Scale: Log, contribute: latency},
	{Name: "slow_turns", Title: "slow turns", Numerator: "turns slower than the frozen threshold", Denominator: "turns with a known latency", Scale: LogRatio, contribute: slow},
	{Name: "malformed_calls", Title: "malformed calls", Numerator: "malformed tool calls, at most 10 a turn", Denominator: "turns", Scale: LogRatio, contribute: perTurn(func(t *ledger.Row, _ Window) float64 {
		return math.Min(t.Signal("tools.invalid").Number, maxMalformedPerTurn)
	})},
	{Name: "questions", Title: "questions instead of edits", Numerator: "turns that ended with a question and no edit", Denominator: "edit-request turns", Scale: LogRatio, contribute: perEditRequest(func(t *ledger.Row) float64 { return t.Signal("stalling.question").Number })},
	{Name: "aborts", Title: "aborts", Numerator: "turns that the user stopped", Denominator: "turns", Scale: LogRatio, contribute: perTurn(func(t *ledger.Row, _ Window) float64 { return t.Signal("outcome.aborted").Number })},
	{Name: "edit_rate", Title: "edit rate", Numerator: "turns with an applied edit", Denominator: "edit-request turns", HigherIsBetter: true, Scale: Relative, contribute: perEditRequest(func(t *ledger.Row) float64 { return flag(t.Signal("edits.applied").Number > 0) })},
	{Name: "tokens", Title: "tokens", Numerator: "generated tokens, at most 200,000 a turn", Denominator: "turns", Scale: Relative, contribute: perTurn(tokens)},
	{Name: "incomplete", Title: "incomplete turns", Numerator: "turns with records lost in transport", Denominator: "settled turns", Quality: true, Scale: LogRatio, contribute: share(ledger.Incomplete)},
	{Name: "faulted", Title: "faulted turns", Numerator: "turns ended by a provider's or harness's failure", Denominator: "settled turns", Quality: true, Scale: LogRatio, contribute: share(ledger.Faulted)},
	{Name: "censored", Title: "censored turns", Numerator: "turns without any evidence", Denominator: "settled turns", Quality: true, Scale: LogRatio, contribute: share(ledger.Censored)},
}

// Find returns the metric of that name.
func Find(name string) (Def, bool) {
	for _, d := range All {
		if d.Name == name {
			return d, true
		}
	}
	return Def{}, false
}

// Contributions are what a settled turn adds to the sums of the experiment it took part in; none if it lies
// outside the window or in no arm.
func Contributions(turn *ledger.Row, window Window) []Contribution {
	if turn.Experiment != window.Experiment || (turn.Arm != "control" && turn.Arm != "candidate") {
		return nil
	}
	if turn.StartedAt.Before(window.StartsAt) || !turn.StartedAt.Before(window.CountsUntil) || turn.SettledAt.After(window.EndsAt) {
		return nil
	}
	out := make([]Contribution, 0, len(All))
	for _, d := range All {
		num, den, counts := d.contribute(turn, window)
		if counts {
			out = append(out, Contribution{Metric: d.Name, Num: int64(math.Round(num * Millionth)), Den: int64(math.Round(den * Millionth))})
		}
	}
	return out
}

// observable leaves out turns whose signals are missing for a reason outside the policy.
func observable(t *ledger.Row) bool {
	return t.Disposition != ledger.Incomplete && t.Disposition != ledger.Faulted && t.Disposition != ledger.Withheld
}

func editRequest(t *ledger.Row) bool { return t.Signal("intent.p_edit").Number >= .5 }

func perTurn(f func(*ledger.Row, Window) float64) func(*ledger.Row, Window) (float64, float64, bool) {
	return func(t *ledger.Row, w Window) (float64, float64, bool) { return f(t, w), 1, observable(t) }
}

func perEditRequest(f func(*ledger.Row) float64) func(*ledger.Row, Window) (float64, float64, bool) {
	return func(t *ledger.Row, _ Window) (float64, float64, bool) {
		return f(t), 1, observable(t) && editRequest(t)
	}
}

func share(d ledger.Disposition) func(*ledger.Row, Window) (float64, float64, bool) {
	return func(t *ledger.Row, _ Window) (float64, float64, bool) { return flag(t.Disposition == d), 1, true }
}

func kept(t *ledger.Row, _ Window) (num, den float64, counts bool) {
	if !observable(t) || !editRequest(t) {
		return 0, 0, false
	}
	if t.Signal("outcome.delivered").Number == 0 {
		return 0, 1, true
	}
	retention := t.Signal("edits.retention")
	return retention.Number, 1, retention.Known
}

func latency(t *ledger.Row, _ Window) (num, den float64, counts bool) {
	s := t.Signal("effort.model_s")
	if !observable(t) || !s.Known || s.Number <= 0 {
		return 0, 0, false
	}
	return math.Log(s.Number), 1, true
}

func slow(t *ledger.Row, w Window) (num, den float64, counts bool) {
	s := t.Signal("effort.model_s")
	if !observable(t) || !s.Known || w.SlowAfterMs <= 0 {
		return 0, 0, false
	}
	return flag(s.Number*1000 > w.SlowAfterMs), 1, true
}

func tokens(t *ledger.Row, _ Window) float64 {
	sum := t.Signal("effort.thinking_tokens").Number + t.Signal("effort.tool_argument_tokens").Number + t.Signal("effort.final_tokens").Number
	return math.Min(sum, maxTokensPerTurn)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

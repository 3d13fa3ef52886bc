package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// Explain tells a verdict in sentences that a release manager can repeat: the decision and why, every metric,
// what besides was looked at, and what would change it.
func Explain(v Verdict) []string {
	out := []string{headline(v), Summary(v)}
	add := func(title string, sentences []string) {
		if len(sentences) == 0 {
			return
		}
		out = append(out, "", title)
		for _, s := range sentences {
			out = append(out, "  "+s)
		}
	}
	add("why", v.Reasons)
	var metrics []string
	for _, f := range v.Metrics {
		metrics = append(metrics, f.Sentence)
	}
	add("metrics (the candidate against the control, 95 % interval)", metrics)
	var checks []string
	for _, c := range append(append([]Check(nil), v.Checks...), v.Conditions...) {
		checks = append(checks, fmt.Sprintf("%-12s  %s", c.Status, c.Sentence))
	}
	add("what else was looked at", checks)
	add("what would change it", v.WouldChange)
	return append(out, "", fmt.Sprintf("policy %s version %d, sums %.12s, complete through %s", v.Policy.Name, v.Policy.Version, v.SumsDigest, clock(v.At)))
}

// Summary is the verdict in a sentence or two: what was decided, on what evidence, and what it doesn't say.
func Summary(v Verdict) string {
	seen := fmt.Sprintf("after %s units", count(v.Units.Sum()))
	switch v.Decision {
	case Ship:
		win, guardrail, kept := Win, Guardrail, []string{}
		if v.Early {
			win, guardrail = EarlyWin, EarlyGuardrail
		}
		what := "nothing had to improve"
		var won []string
		for _, f := range v.Metrics {
			if w, ok := f.Test(win); ok && f.Met(win) {
				won = append(won, fmt.Sprintf("%s went from %s to %s (%s, surely beyond %s)", f.Title, value(f, f.Control.Value), value(f, f.Candidate.Value), percent(f.Change), signed(f, w.Bound, w)))
			}
			if f.Guardrail && f.Met(guardrail) {
				kept = append(kept, f.Title)
			}
		}
		if len(won) > 0 {
			what = strings.Join(won, " and ")
		}
		s := fmt.Sprintf("%s may ship: %s %s", v.Candidate, seen, what)
		if len(kept) > 0 {
			s += fmt.Sprintf(", and %s lost no more than allowed", strings.Join(kept, ", "))
		}
		if v.Early {
			s += ". It won before its time, so the effect is likely a little smaller than it looks"
		}
		return s + "."
	case Hold:
		return fmt.Sprintf("%s stays out: %s %s. That isn't \"no difference\".", v.Candidate, seen, first(v.Reasons))
	case Rollback:
		return fmt.Sprintf("%s was stopped: %s %s.", v.Candidate, seen, first(v.Reasons))
	case Invalid:
		return fmt.Sprintf("Nothing is known about %s: %s.", v.Candidate, first(v.Reasons))
	}
	return fmt.Sprintf("%s is still being tested: %s nothing is decided yet.", v.Candidate, seen)
}

// first is the first reason, and how many there are besides.
func first(reasons []string) string {
	switch len(reasons) {
	case 0:
		return "no reason is on record"
	case 1:
		return reasons[0]
	}
	return fmt.Sprintf("%s (and %d more)", reasons[0], len(reasons)-1)
}

func headline(v Verdict) string {
	units := fmt.Sprintf("%s units against %s", count(v.Units.Candidate), count(v.Units.Control))
	switch v.Decision {
	case Ship:
		s := fmt.Sprintf("SHIP %s (%s)", v.Candidate, units)
		if v.Early {
			s += ": a win before the declared end"
		}
		if v.Mode == gatepolicy.DoNoHarm {
			s += ": in mode do_no_harm"
		}
		if v.NeedsApproval {
			s += ": waits for a person's approval"
		}
		return s
	case Hold:
		return fmt.Sprintf("HOLD %s (%s): the evidence doesn't suffice; that isn't \"no difference\"", v.Candidate, units)
	case Rollback:
		return fmt.Sprintf("ROLLBACK %s (%s): users are surely worse off with it", v.Candidate, units)
	case Invalid:
		return fmt.Sprintf("INVALID %s (%s): the arms can't be compared, so nothing is known about it", v.Candidate, units)
	}
	return fmt.Sprintf("RUNNING %s (%s)", v.Candidate, units)
}

// sentence is a finding in one line: the change, both values, and what its tests say.
func sentence(f Finding, ended bool) string {
	s := fmt.Sprintf("%s %s [%s, %s]  %s -> %s", f.Title, percent(f.Change), percent(f.ChangeLow), percent(f.ChangeHigh), value(f, f.Control.Value), value(f, f.Candidate.Value))
	win, guardrail := Win, Guardrail
	if !ended {
		win, guardrail = EarlyWin, EarlyGuardrail
	}
	if w, ok := f.Test(win); ok {
		switch {
		case !w.Active:
			s += "; success: too little to judge"
		case w.Met:
			s += fmt.Sprintf("; success: wins, at worst %s", signed(f, w.Bound, w))
		default:
			s += fmt.Sprintf("; success: no win, at worst %s", signed(f, w.Bound, w))
		}
	}
	if g, ok := f.Test(guardrail); ok {
		state := "not shown"
		if !g.Active {
			state = "too little to judge"
		} else if g.Met {
			state = "kept"
		}
		s += fmt.Sprintf("; guardrail: %s, at worst %s, margin %s", state, signed(f, g.Bound, g), signed(f, g.Threshold, g))
	}
	if h, ok := f.Test(Harm); ok && h.Active && h.Met {
		s += fmt.Sprintf("; HARM: at best %s, margin %s", signed(f, h.Bound, h), signed(f, h.Threshold, h))
	}
	return s
}

// signed turns a benefit-signed bound into the change as it is read: a latency's loss is a rise.
func signed(f Finding, bound float64, t Test) string {
	if !f.HigherIsBetter {
		bound = -bound
	}
	if t.Absolute {
		if f.Scale == metric.LogRatio {
			return points(bound)
		}
		return fmt.Sprintf("%+.4g", bound)
	}
	return percent(bound)
}

func value(f Finding, v float64) string {
	if f.Scale == metric.Log {
		return fmt.Sprintf("%.3g s", math.Exp(v))
	}
	return fmt.Sprintf("%.4g", v)
}

func percent(x float64) string {
	if math.Abs(x) < .0005 {
		x = 0 // no "-0.0%"
	}
	return fmt.Sprintf("%+.1f%%", 100*x)
}

func magnitude(x float64) string { return fmt.Sprintf("%.1f%%", 100*math.Abs(x)) }
func share(x float64) string     { return fmt.Sprintf("%.2f%%", 100*x) }
func points(x float64) string    { return fmt.Sprintf("%+.2f pp", 100*x) }

// size is points without a sign.
func size(x float64) string { return fmt.Sprintf("%.2f pp", 100*math.Abs(x)) }

func pValue(x float64) string { return fmt.Sprintf("%.2g", x) }

// count writes an integer with separators of thousands.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(s) - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// Evaluate decides. It may be called as often as one likes while the test runs: what is watched continuously is
// bounded by sequences that allow it, and what is decided once waits for the declared end. Keep the first final
// verdict: later sums don't take a ROLLBACK or INVALID back.
func Evaluate(p Policy, e Evidence) Verdict {
	e = e.sorted()
	t := newTester(p, e, e.Estimate())
	v := Verdict{
		Experiment: e.Experiment, Candidate: e.Candidate, Mode: p.Mode,
		At: e.CommittedThrough.UTC().Round(0), Ended: t.ended, Units: e.ExposedUnits,
		Metrics: t.findings(), Checks: t.checks(), Conditions: t.conditions(),
		Policy: PolicyRef{Name: p.Name, Version: p.Version}, SumsDigest: e.digest(),
	}
	v.Decision, v.Early = decide(v)
	v.NeedsApproval = v.Decision == Ship && p.RequireApproval
	v.Reasons = reasons(v)
	v.WouldChange = wouldChange(v, e.EndsAt)
	return v
}

// Glance is Evaluate without its words, from estimates that the caller keeps up to date: whoever plays thousands of
// tests through the gate looks at each of them every minute, and most looks end in nothing to tell.
func Glance(p Policy, e Evidence, estimates Estimates) (d Decision, early bool) {
	t := newTester(p, e, estimates)
	t.silent = true
	return decide(Verdict{Mode: p.Mode, Ended: t.ended, Metrics: t.findings(), Checks: t.checks(), Conditions: t.conditions()})
}

// decide is the order of the decisions: what makes the arms incomparable, then what harms users, then the rest.
func decide(v Verdict) (d Decision, early bool) {
	switch {
	case slices.ContainsFunc(v.Checks, failed):
		return Invalid, false
	case slices.ContainsFunc(v.Metrics, func(f Finding) bool { return f.Met(Harm) }):
		return Rollback, false
	case v.Ended && mayShip(v, Win, Guardrail):
		return Ship, false
	case v.Ended:
		return Hold, false
	// With nothing to win there is nothing to win early: do_no_harm decides once.
	case v.Mode == gatepolicy.Improve && mayShip(v, EarlyWin, EarlyGuardrail):
		return Ship, true
	}
	return Running, false
}

func failed(c Check) bool { return c.Status == Failed }

func open(c Check) bool { return c.Status != Passed }

// uneven is a split of settled units that may still even out.
func uneven(c Check) bool { return c.Name == splitTelemetry && c.Status == Pending }

func mayShip(v Verdict, win, guardrail TestName) bool {
	wins := v.Mode == gatepolicy.DoNoHarm
	for _, f := range v.Metrics {
		if f.Guardrail && !f.Met(guardrail) {
			return false
		}
		wins = wins || f.Met(win)
	}
	return wins && !slices.ContainsFunc(v.Conditions, open) && !slices.ContainsFunc(v.Checks, uneven) && len(unknownShares(v)) == 0
}

// unknownShares are the shares of settled turns that couldn't be compared. Not known isn't alike.
func unknownShares(v Verdict) []Check {
	var out []Check
	for _, c := range v.Checks {
		if d, ok := metric.Find(c.Name); ok && d.Quality && c.Status == NotMeasured {
			out = append(out, c)
		}
	}
	return out
}

func reasons(v Verdict) []string {
	var out []string
	switch v.Decision {
	case Invalid:
		for _, c := range v.Checks {
			if failed(c) {
				out = append(out, c.Sentence)
			}
		}
	case Rollback:
		for _, f := range v.Metrics {
			if f.Met(Harm) {
				h, _ := f.Test(Harm)
				out = append(out, fmt.Sprintf("%s: surely worse than the harm margin: at best %s, margin %s", f.Title, signed(f, h.Bound, h), signed(f, h.Threshold, h)))
			}
		}
	case Ship:
		win, guardrail := Win, Guardrail
		if v.Early {
			win, guardrail = EarlyWin, EarlyGuardrail
		}
		for _, f := range v.Metrics {
			if f.Met(win) {
				w, _ := f.Test(win)
				out = append(out, fmt.Sprintf("%s improved by %s, surely by more than %s", f.Title, magnitude(f.Change), magnitude(w.Bound)))
			}
		}
		for _, f := range v.Metrics {
			if f.Met(guardrail) && f.Guardrail {
				g, _ := f.Test(guardrail)
				out = append(out, fmt.Sprintf("%s kept its margin: at worst %s, margin %s", f.Title, signed(f, g.Bound, g), signed(f, g.Threshold, g)))
			}
		}
		if v.Mode == gatepolicy.DoNoHarm {
			out = append([]string{"the policy asks for no harm only: nothing was shown to have improved"}, out...)
		}
	case Hold:
		out = append(out, holds(v)...)
	case Running:
		out = append(out, "nothing is decided before the declared end but a clear win, a clear harm, or arms that can't be compared")
	}
	return out
}

func holds(v Verdict) []string {
	var out []string
	for _, c := range v.Conditions {
		if failed(c) {
			out = append(out, c.Sentence)
		}
	}
	for _, c := range unknownShares(v) {
		out = append(out, c.Sentence)
	}
	var short []string
	won := v.Mode == gatepolicy.DoNoHarm
	for _, f := range v.Metrics {
		if f.Success {
			won = won || f.Met(Win)
			if w, ok := f.Test(Win); ok && f.Observed {
				short = append(short, fmt.Sprintf("%s %s, at worst %s", f.Title, percent(f.Change), signed(f, w.Bound, w)))
			} else {
				short = append(short, f.Sentence)
			}
		}
		if f.Guardrail && !f.Met(Guardrail) {
			if g, ok := f.Test(Guardrail); ok && f.Observed {
				out = append(out, fmt.Sprintf("%s isn't shown to have kept its margin: at worst %s, margin %s", f.Title, signed(f, g.Bound, g), signed(f, g.Threshold, g)))
			} else {
				out = append(out, f.Sentence)
			}
		}
	}
	if !won {
		out = append(out, "no success metric is shown to have improved: "+strings.Join(short, "; "))
	}
	return out
}

// wouldChange says what it would take for another verdict.
func wouldChange(v Verdict, end time.Time) []string {
	var out []string
	switch v.Decision {
	case Invalid:
		for _, c := range v.Checks {
			if failed(c) {
				out = append(out, c.Name+": "+c.Remedy)
			}
		}
		return append(out, "nothing in this experiment: its sums can't be repaired afterwards")
	case Rollback:
		for _, f := range v.Metrics {
			if f.Met(Harm) {
				h, _ := f.Test(Harm)
				out = append(out, fmt.Sprintf("%s: a harm margin beyond %s would not have ended the test", f.Title, signed(f, h.Bound, h)))
			}
		}
		return append(out, "later sums don't take it back; a changed candidate is a new experiment")
	case Ship:
		return shipMargins(v, end)
	}
	win, guardrail := Win, Guardrail
	if v.Decision == Running {
		win, guardrail = EarlyWin, EarlyGuardrail
		out = append(out, fmt.Sprintf("the end: %s of log time in every partition (complete through %s)", clock(end), clock(v.At)))
	}
	for _, f := range v.Metrics {
		if f.Success && !f.Met(win) {
			out = append(out, needs(f, win, v.Units.Sum()))
		}
		if f.Guardrail && !f.Met(guardrail) {
			out = append(out, needs(f, guardrail, v.Units.Sum()))
		}
	}
	for _, c := range unknownShares(v) {
		out = append(out, c.Sentence+": not known isn't alike")
	}
	for _, c := range v.Conditions {
		if open(c) {
			out = append(out, strings.TrimSuffix(c.Sentence+": "+c.Remedy, ": "))
		}
	}
	return out
}

func needs(f Finding, name TestName, units int64) string {
	t, ok := f.Test(name)
	switch {
	case !ok || !f.Observed:
		return f.Sentence
	case !t.Active:
		return fmt.Sprintf("%s: too few units or events to judge (%s events)", f.Title, count(int64(f.Events)))
	case t.UnitsNeeded > 0:
		return fmt.Sprintf("%s: its worst bound is %s and has to be better than %s; with the same change of %s about %s units would show it (%s now)",
			f.Title, signed(f, t.Bound, t), signed(f, t.Threshold, t), percent(f.Change), count(int64(t.UnitsNeeded)), count(units))
	}
	return fmt.Sprintf("%s: its change of %s is itself not better than %s; more traffic alone won't change it", f.Title, percent(f.Change), signed(f, t.Threshold, t))
}

// shipMargins says what would have been otherwise: at the end a HOLD, before it a test that goes on.
func shipMargins(v Verdict, end time.Time) []string {
	win, guardrail := Win, Guardrail
	otherwise := "would have held it"
	if v.Early {
		win, guardrail = EarlyWin, EarlyGuardrail
		otherwise = "would not have let it ship yet: the test would have gone on, to " + clock(end) + " at the latest"
	}
	var out, wins []string
	for _, f := range v.Metrics {
		if f.Met(win) {
			wins = append(wins, fmt.Sprintf("%s (now at worst %s)", f.Title, testBound(f, win)))
		}
		g, ok := f.Test(guardrail)
		switch {
		case !ok || !f.Guardrail:
		case g.Bound < 0:
			out = append(out, fmt.Sprintf("%s: a margin of %s or tighter %s", f.Title, signed(f, g.Bound, g), otherwise))
		default:
			out = append(out, f.Title+": no margin would have stood in its way, it is surely better")
		}
	}
	if len(wins) > 0 {
		out = append([]string{"no success metric surely above no change " + otherwise + "; now there is " + strings.Join(wins, ", ")}, out...)
	}
	return append(out, "a monitor's alarm, or arms that can't be compared, would have stopped it")
}

func testBound(f Finding, name TestName) string {
	t, _ := f.Test(name)
	return signed(f, t.Bound, t)
}

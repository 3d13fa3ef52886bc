package gatepolicy

import (
	"fmt"
	"slices"

	"millrace/schemas/metric"
)

const (
	// looseWin is how often an unchanged candidate may ship before a policy is called loose.
	looseWin = .05
	// wideMargin guards hardly anything.
	wideMargin = .25
	// normalUnits in an arm are the fewest for a normal law.
	normalUnits = 100
	day         = 24 * 60
)

// horizonMinutes is how long an edit is watched before it counts as kept.
const horizonMinutes = 20

// Lint says what a policy allows and its author hardly wants. Such a policy can be used; what can't be used is an error
// of Parse.
func Lint(p Policy) Problems {
	var c checker
	a := p.Alphas
	c.check(p.Mode != Improve || a.Win+a.EarlyWin <= looseWin, "alphas.win", "win and early_win make %.3g: so often an unchanged candidate wins; the shipped policies allow 0.025", a.Win+a.EarlyWin)
	c.check(a.EarlyGuardrail <= a.Guardrail/5, "alphas.early_guardrail", "is %v of %v at the end: both together let a candidate at its margin pass more often than guardrail says; a tenth of it is enough", a.EarlyGuardrail, a.Guardrail)
	c.check(a.Guardrail <= .1, "alphas.guardrail", "is %v: so often a loss beyond its margin passes", a.Guardrail)
	c.check(a.Harm <= looseWin, "alphas.harm", "is %v: so often a test ends although no harm margin is exceeded", a.Harm)
	for i, name := range p.Success {
		if g, both := p.Guardrail(name); both {
			c.check(false, fmt.Sprintf("success[%d]", i), "%s is also a guardrail (margin %v): it has to win or is watched for harm, and a margin besides only costs power", name, max(g.Margin, g.Absolute))
		}
	}
	for i, g := range p.Guardrails {
		path := fmt.Sprintf("guardrails[%d]", i)
		c.check(g.Margin <= wideMargin, path, "%s may get %.0f%% worse: that guards hardly anything", g.Metric, 100*g.Margin)
		if h, watched := p.HarmMargin(g.Metric); watched && (h.Absolute > 0) == (g.Absolute > 0) {
			c.check(max(h.Margin, h.Absolute) >= max(g.Margin, g.Absolute), path, "%s may lose %v, but is stopped as harm beyond %v: a candidate that the guardrail allows can end the test", g.Metric, max(g.Margin, g.Absolute), max(h.Margin, h.Absolute))
		}
		c.check(g.Metric != "malformed_calls" || g.Absolute > 0, path, "%s is a rare rate: a share of it takes millions of turns to show; give absolute, in its own unit", g.Metric)
	}
	if p.Mode == DoNoHarm {
		_, kept := p.Guardrail("kept_edits")
		c.check(kept, "guardrails", "kept_edits is none of them: mode do_no_harm would ship a candidate whose edits nobody keeps")
		c.check(p.RequireApproval, "require_approval", "is false in mode do_no_harm: nothing shipped is shown to be better, so let a person see it")
	}
	for _, d := range metric.All {
		if d.Quality {
			c.check(slices.ContainsFunc(p.Shares, func(s Share) bool { return s.Metric == d.Name }), "shares", "%s is none of them: what one arm loses that way stays unseen", d.Name)
		}
	}
	c.check(p.MinUnits >= normalUnits, "min_units", "is %d: below %d in an arm the bounds have no law to rest on", p.MinUnits, normalUnits)
	c.check(p.MaturityMinutes >= horizonMinutes, "maturity_minutes", "is %v: an edit counts as kept after %d minutes, so later turns are all still open at the end", p.MaturityMinutes, horizonMinutes)
	c.check(p.TestMinutes <= day || p.MinMinutes >= day, "min_minutes", "is %v in a test of %.3g days: it may ship before it has seen a whole day", p.MinMinutes, p.TestMinutes/day)
	return c.problems
}

// Warnings reads a policy and lints it, with the lines where things stand.
func Warnings(text []byte) (Policy, Problems, error) {
	p, lines, err := parse(text)
	if err != nil {
		return p, nil, err
	}
	problems := Lint(p)
	for i := range problems {
		problems[i].Line = lineOf(lines, problems[i].Path)
	}
	return p, problems, nil
}

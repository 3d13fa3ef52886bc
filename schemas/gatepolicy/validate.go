package gatepolicy

import (
	"fmt"
	"strings"

	"millrace/schemas/metric"
)

// Validate says what is wrong with a policy that didn't come from a document; nil if nothing is.
func (p Policy) Validate() error {
	if problems := validate(p); len(problems) > 0 {
		return problems
	}
	return nil
}

func validate(p Policy) Problems {
	var c checker
	c.check(p.Kind == Kind, "kind", "is %q; a gate policy's kind is %s", p.Kind, Kind)
	c.check(p.Name != "", "name", "is missing; a verdict names the policy that it was made by")
	c.check(p.Version >= 1, "version", "is %d; versions count from 1", p.Version)
	c.modes(p)
	c.margins("guardrails", p.Guardrails, false)
	c.margins("harm", p.Harm, true)
	for i, name := range p.Success {
		c.metric(fmt.Sprintf("success[%d]", i), name, false)
		c.watched(p, fmt.Sprintf("success[%d]", i), name)
		for _, earlier := range p.Success[:i] {
			c.check(earlier != name, fmt.Sprintf("success[%d]", i), "%s stands here twice", name)
		}
	}
	for i, g := range p.Guardrails {
		c.watched(p, fmt.Sprintf("guardrails[%d]", i), g.Metric)
	}
	for i, s := range p.Shares {
		path := fmt.Sprintf("shares[%d]", i)
		c.metric(path+".metric", s.Metric, true)
		c.check(s.Tolerance > 0 && s.Tolerance < 1, path+".tolerance", "is %v; a tolerance is a share above 0 and below 1", s.Tolerance)
		for _, earlier := range p.Shares[:i] {
			c.check(earlier.Metric != s.Metric, path+".metric", "%s stands here twice", s.Metric)
		}
	}
	c.numbers(p)
	return c.problems
}

type checker struct{ problems Problems }

func (c *checker) check(ok bool, path, message string, args ...any) {
	if !ok {
		c.problems = append(c.problems, Problem{Path: path, Message: fmt.Sprintf(message, args...)})
	}
}

func (c *checker) modes(p Policy) {
	switch p.Mode {
	case Improve:
		c.check(len(p.Success) > 0, "success", "names no metric; mode improve needs at least one to win, mode do_no_harm none")
	case DoNoHarm:
		c.check(len(p.Success) == 0, "success", "names metrics; in mode do_no_harm there is nothing to win: make them guardrails with a margin")
		c.check(len(p.Guardrails) > 0, "guardrails", "names no metric; mode do_no_harm would ship anything")
	default:
		c.check(false, "mode", "is %q; modes are improve, do_no_harm", p.Mode)
	}
}

func (c *checker) metric(path, name string, quality bool) {
	d, ok := metric.Find(name)
	if !ok || d.Quality != quality {
		var names []string
		for _, d := range metric.All {
			if d.Quality == quality {
				names = append(names, d.Name)
			}
		}
		what := "not a known metric"
		if ok && d.Quality {
			what = "a share that only has to be alike in both arms"
		} else if ok {
			what = "not a share of settled turns"
		}
		c.check(false, path, "%q is %s; metrics here are %s", name, what, strings.Join(names, ", "))
	}
}

func (c *checker) margins(list string, margins []Margin, zero bool) {
	for i, m := range margins {
		path := fmt.Sprintf("%s[%d]", list, i)
		c.metric(path+".metric", m.Metric, false)
		c.check(m.Margin >= 0 && m.Margin < 1, path+".margin", "is %v; a margin is a share of the control's value, from 0 to below 1", m.Margin)
		c.check(m.Absolute >= 0, path+".absolute", "is %v; a margin isn't negative", m.Absolute)
		c.check(m.Margin == 0 || m.Absolute == 0, path, "has both margin and absolute; give one")
		c.check(zero || m.Margin > 0 || m.Absolute > 0, path, "has no margin; with a margin of 0 an equal candidate would never pass")
		d, _ := metric.Find(m.Metric)
		c.check(m.Absolute == 0 || d.Scale != metric.Log, path+".absolute", "a mean of logarithms has no absolute margin; give margin")
		for _, earlier := range margins[:i] {
			c.check(earlier.Metric != m.Metric, path+".metric", "%s stands here twice", m.Metric)
		}
	}
}

func (c *checker) watched(p Policy, path, name string) {
	_, ok := p.HarmMargin(name)
	c.check(ok, path, "%s has no harm margin; add it to harm, so that a clear loss ends the test", name)
}

func (c *checker) numbers(p Policy) {
	for _, n := range []struct {
		path  string
		value float64
	}{
		{"alphas.harm", p.Alphas.Harm},
		{"alphas.win", p.Alphas.Win},
		{"alphas.early_win", p.Alphas.EarlyWin},
		{"alphas.guardrail", p.Alphas.Guardrail},
		{"alphas.early_guardrail", p.Alphas.EarlyGuardrail},
		{"alphas.split", p.Alphas.Split},
		{"alphas.shares", p.Alphas.Shares},
	} {
		c.check(n.value >= 1e-9 && n.value < .5, n.path, "is %v; an error probability lies from 1e-9 to below 0.5", n.value)
	}
	c.check(p.Power >= .5 && p.Power < 1, "power", "is %v; it lies from 0.5 to below 1", p.Power)
	c.check(p.StillOpen > 0 && p.StillOpen < 1, "still_open", "is %v; it is a share above 0 and below 1", p.StillOpen)
	c.check(p.MultiExposure > 0 && p.MultiExposure < 1, "multi_exposure", "is %v; it is a share above 0 and below 1", p.MultiExposure)
	c.check(p.Coverage > 0 && p.Coverage <= 1, "coverage", "is %v; it is a share above 0, at most 1", p.Coverage)
	c.check(p.TestMinutes > 0 && p.TestMinutes <= maxTestMinutes, "test_minutes", "is %v; a test takes up to 14 days (%d minutes)", p.TestMinutes, maxTestMinutes)
	c.check(p.MaturityMinutes >= 0 && p.MaturityMinutes < p.TestMinutes, "maturity_minutes", "is %v; it lies from 0 to below test_minutes (%v), or no turn counts", p.MaturityMinutes, p.TestMinutes)
	c.check(p.MinMinutes >= 0 && p.MinMinutes <= p.TestMinutes, "min_minutes", "is %v; it lies from 0 to test_minutes (%v), or nothing ever ships", p.MinMinutes, p.TestMinutes)
	c.check(p.MinUnits >= 2, "min_units", "is %d; a variance needs 2 units in each arm, a normal law some 200", p.MinUnits)
	c.check(p.MinEvents >= 1, "min_events", "is %v; it is at least 1", p.MinEvents)
	c.check(p.PlannedUnits >= 2*p.MinUnits, "planned_units", "is %d; it counts both arms, so it is at least twice min_units (%d)", p.PlannedUnits, p.MinUnits)
}

const maxTestMinutes = 14 * 24 * 60

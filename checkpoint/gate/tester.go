package gate

import (
	"fmt"
	"math"
	"slices"

	"millrace/checkpoint/stats"
	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// A tester holds what all tests of one evaluation share.
type tester struct {
	policy   Policy
	evidence Evidence
	n        float64 // units in both arms
	ended    bool
	// enough units are exposed in each arm for normal laws to hold
	enough bool
}

func newTester(p Policy, e Evidence) tester {
	least := int64(p.MinUnits)
	return tester{
		policy: p, evidence: e,
		n:      float64(e.ExposedUnits.Sum()),
		ended:  !e.CommittedThrough.Before(e.EndsAt),
		enough: e.ExposedUnits.Control >= least && e.ExposedUnits.Candidate >= least,
	}
}

// findings measures and tests every metric that the policy names, in the registry's order.
func (t tester) findings() []Finding {
	var out []Finding
	for _, d := range metric.All {
		guardrail, guarded := t.policy.Guardrail(d.Name)
		harm, watched := t.policy.HarmMargin(d.Name)
		success := slices.Contains(t.policy.Success, d.Name)
		if !success && !guarded && !watched {
			continue
		}
		f := Finding{Metric: d.Name, Title: d.Title, HigherIsBetter: d.HigherIsBetter, Scale: d.Scale, Success: success, Guardrail: guarded}
		sums := t.evidence.Metrics[d.Name]
		control, okControl := ratioOf(sums.Control)
		candidate, okCandidate := ratioOf(sums.Candidate)
		f.Control, f.Candidate = side(control), side(candidate)
		r := relative(d, control, candidate)
		f.Observed = okControl && okCandidate && r.sound()
		if !f.Observed {
			f.Sentence = fmt.Sprintf("%s: no comparison, since %s", d.Title, missing(d, okControl, okCandidate))
			out = append(out, f)
			continue
		}
		f.Events = events(d, control, candidate)
		f.Lift, f.SE = r.lift, r.se
		active := t.enough && f.Events >= t.policy.MinEvents
		if success {
			f.Tests = append(f.Tests, t.win(r, active), t.earlyWin(r, active))
		}
		if guarded {
			g := byMargin(d, guardrail, r, control, candidate)
			f.Tests = append(f.Tests, t.guardrail(g), t.earlyGuardrail(g))
		}
		if watched {
			f.Tests = append(f.Tests, t.harm(byMargin(d, harm, r, control, candidate), active))
		}
		f.Change = sign(d) * r.benefit(r.lift)
		f.ChangeLow, f.ChangeHigh = t.interval(d, r)
		f.Sentence = sentence(f, t.ended)
		out = append(out, f)
	}
	return out
}

func missing(d metric.Def, control, candidate bool) string {
	switch {
	case !control && !candidate:
		return "neither arm has two buckets with " + d.Denominator
	case !control:
		return "the control arm has no two buckets with " + d.Denominator
	case !candidate:
		return "the candidate arm has no two buckets with " + d.Denominator
	}
	return "the control's value is 0: a relative change of it doesn't exist"
}

func side(r stats.Ratio) Side {
	return Side{Value: r.Value, Num: r.Num, Den: r.Den, Clusters: r.Clusters}
}

// interval is the 95 % interval of the change as it is read, low before high.
func (t tester) interval(d metric.Def, r reading) (low, high float64) {
	half := stats.UpperPoint(.025)
	if !t.ended {
		half = stats.TwoSided(.05, float64(t.policy.PlannedUnits)).BothFactor(max(t.n, 1))
	}
	low, high = sign(d)*r.benefit(r.lift-half*r.se), sign(d)*r.benefit(r.lift+half*r.se)
	return min(low, high), max(low, high)
}

// A margined reading is on the scale of its margin.
type margined struct {
	reading
	margin   float64
	absolute bool
}

func byMargin(d metric.Def, m gatepolicy.Margin, r reading, control, candidate stats.Ratio) margined {
	if m.Absolute > 0 {
		return margined{reading: absolute(d, control, candidate), margin: m.Absolute, absolute: true}
	}
	return margined{reading: r, margin: m.Margin}
}

func (t tester) win(r reading, active bool) Test {
	alpha := t.policy.Alphas.Win / float64(len(t.policy.Success))
	return t.above(Test{Name: Win, Alpha: alpha, Factor: stats.UpperPoint(alpha), Active: active}, margined{reading: r})
}

func (t tester) earlyWin(r reading, active bool) Test {
	alpha := t.policy.Alphas.EarlyWin / float64(len(t.policy.Success))
	return t.above(t.sequence(EarlyWin, alpha, float64(t.policy.PlannedUnits), active), margined{reading: r})
}

func (t tester) guardrail(g margined) Test {
	alpha := t.policy.Alphas.Guardrail
	return t.above(Test{Name: Guardrail, Alpha: alpha, Factor: stats.UpperPoint(alpha), Active: t.enough}, g)
}

func (t tester) earlyGuardrail(g margined) Test {
	return t.above(t.sequence(EarlyGuardrail, t.policy.Alphas.Guardrail, float64(t.policy.PlannedUnits), t.enough), g)
}

// harm is tuned to a quarter of the planned size: an alarm is wanted early.
func (t tester) harm(h margined, active bool) Test {
	alpha := t.policy.Alphas.Harm / float64(len(t.policy.Harm))
	test := t.sequence(Harm, alpha, float64(t.policy.PlannedUnits)/4, active)
	test.Absolute = h.absolute
	test.Threshold = -h.margin
	test.Bound = h.benefit(h.lift + test.Factor*h.se)
	test.Met = test.Bound < test.Threshold
	return test
}

func (t tester) sequence(name TestName, alpha, planned float64, active bool) Test {
	s := stats.OneSided(alpha, planned)
	return Test{Name: name, Alpha: alpha, RhoSquared: s.RhoSquared, Factor: s.LowerFactor(max(t.n, 1)), Active: active}
}

// above asks for a lower bound above −margin.
func (t tester) above(test Test, r margined) Test {
	test.Absolute = r.absolute
	if r.margin > 0 {
		test.Threshold = -r.margin
	}
	test.Bound = r.benefit(r.lift - test.Factor*r.se)
	test.Met = test.Bound > test.Threshold
	if room := r.lift - r.scale(test.Threshold); room > 0 && r.se > 0 {
		k := test.Factor * r.se / room
		test.UnitsNeeded = math.Ceil(math.Min(t.n*k*k, 1e12))
	}
	return test
}

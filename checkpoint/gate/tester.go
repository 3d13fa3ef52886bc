package gate

import (
	"fmt"
	"math"
	"slices"

	"millrace/checkpoint/stats"
	"millrace/internal/unithash"
	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// A tester holds what all tests of one evaluation share.
type tester struct {
	policy    Policy
	evidence  Evidence // without its sums: these are read from the estimates
	estimates Estimates
	units     Arms // with a settled turn, or exposed where nobody counted those
	ended     bool
	// enough units are in each arm for normal laws to hold
	enough bool
	silent bool // no sentences
}

func newTester(p Policy, e Evidence, estimates Estimates) tester {
	least := int64(p.MinUnits)
	units := e.ExposedUnits
	// A unit is exposed when its turn starts and speaks when it settles, 20 minutes later.
	if settled := e.UnitsWithTelemetry; settled != nil {
		units = Arms{Control: min(units.Control, settled.Control), Candidate: min(units.Candidate, settled.Candidate)}
	}
	return tester{
		policy: p, evidence: e, estimates: estimates, units: units,
		ended:  !e.CommittedThrough.Before(e.EndsAt),
		enough: units.Control >= least && units.Candidate >= least,
	}
}

// sample is what stands behind one metric.
type sample struct {
	n      float64 // units in both arms that have it
	enough bool    // in each arm, for normal laws to hold
	active bool    // and events
}

// sample counts the units behind a metric: its buckets say how many there are while these are few, and fewer of them
// than half the least units have no law. Counted by the units of other metrics, a sequence would be read at a time that
// this metric hasn't reached.
func (t tester) sample(arms ArmRatios, events float64) sample {
	least := min(t.policy.MinUnits, unithash.SumBuckets) / 2
	s := sample{
		n:      max(1, min(float64(t.units.Control), unitsIn(arms.Control.Clusters))+min(float64(t.units.Candidate), unitsIn(arms.Candidate.Clusters))),
		enough: t.enough && arms.Control.Clusters >= least && arms.Candidate.Clusters >= least,
	}
	s.active = s.enough && events >= t.policy.MinEvents
	return s
}

// unitsIn is how many units fill that many buckets, on average; no number when all are full.
func unitsIn(clusters int) float64 {
	return -unithash.SumBuckets * math.Log1p(-float64(clusters)/unithash.SumBuckets)
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
		arms := t.estimates[d.Name]
		control, candidate := arms.Control, arms.Candidate
		f.Control, f.Candidate = side(control), side(candidate)
		r := relative(d, control, candidate)
		f.Observed = arms.measured() && r.sound()
		if !f.Observed {
			f.Sentence = t.say("%s: no comparison, since %s", d.Title, missing(d, arms))
			out = append(out, f)
			continue
		}
		f.Events = events(d, control, candidate)
		f.Lift, f.SE = r.lift, r.se
		if d.Scale == metric.Log {
			l := stats.LogMeanLift(control, candidate)
			f.Lift, f.SE = sign(d)*l.Estimate, l.SE
		}
		s := t.sample(arms, f.Events)
		if success {
			f.Tests = append(f.Tests, t.win(r, s), t.earlyWin(r, s))
		}
		if guarded {
			g := byMargin(d, guardrail, r, control, candidate)
			f.Tests = append(f.Tests, t.guardrail(g, s), t.earlyGuardrail(g, s))
		}
		if watched {
			f.Tests = append(f.Tests, t.harm(byMargin(d, harm, r, control, candidate), s))
		}
		f.Change = sign(d) * r.benefit(r.lift)
		f.ChangeLow, f.ChangeHigh = t.interval(d, r, s)
		if !t.silent {
			f.Sentence = sentence(f, t.ended)
		}
		out = append(out, f)
	}
	return out
}

func missing(d metric.Def, arms ArmRatios) string {
	control, candidate := arms.Control.Clusters >= 2, arms.Candidate.Clusters >= 2
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

func (t tester) say(format string, args ...any) string {
	if t.silent {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func side(r stats.Ratio) Side {
	return Side{Value: r.Value, Num: r.Num, Den: r.Den, Clusters: r.Clusters}
}

// interval is the 95 % interval of the change as it is read, low before high.
func (t tester) interval(d metric.Def, r reading, s sample) (low, high float64) {
	half := stats.UpperPoint(.025)
	if !t.ended {
		half = stats.TwoSided(.05, float64(t.policy.PlannedUnits)).BothFactor(s.n)
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

func (t tester) win(r reading, s sample) Test {
	alpha := t.policy.Alphas.Win / float64(len(t.policy.Success))
	return t.above(Test{Name: Win, Alpha: alpha, Factor: stats.UpperPoint(alpha), Active: s.active}, margined{reading: r}, s)
}

func (t tester) earlyWin(r reading, s sample) Test {
	alpha := t.policy.Alphas.EarlyWin / float64(len(t.policy.Success))
	return t.above(t.sequence(EarlyWin, alpha, float64(t.policy.PlannedUnits), s.n, s.active), margined{reading: r}, s)
}

func (t tester) guardrail(g margined, s sample) Test {
	alpha := t.policy.Alphas.Guardrail
	return t.above(Test{Name: Guardrail, Alpha: alpha, Factor: stats.UpperPoint(alpha), Active: s.enough}, g, s)
}

func (t tester) earlyGuardrail(g margined, s sample) Test {
	return t.above(t.sequence(EarlyGuardrail, t.policy.Alphas.EarlyGuardrail, float64(t.policy.PlannedUnits), s.n, s.enough), g, s)
}

// harm is tuned to a quarter of the planned size: an alarm is wanted early.
func (t tester) harm(h margined, s sample) Test {
	alpha := t.policy.Alphas.Harm / float64(len(t.policy.Harm))
	test := t.sequence(Harm, alpha, float64(t.policy.PlannedUnits)/4, s.n, s.active)
	test.Absolute = h.absolute
	test.Threshold = -h.margin
	test.Bound = h.benefit(h.lift + test.Factor*h.se)
	test.Met = test.Bound < test.Threshold
	return test
}

func (t tester) sequence(name TestName, alpha, planned, n float64, active bool) Test {
	s := stats.OneSided(alpha, planned)
	return Test{Name: name, Alpha: alpha, RhoSquared: s.RhoSquared, Factor: s.LowerFactor(n), Active: active}
}

// above asks for a lower bound above −margin.
func (t tester) above(test Test, r margined, s sample) Test {
	test.Absolute = r.absolute
	if r.margin > 0 {
		test.Threshold = -r.margin
	}
	test.Bound = r.benefit(r.lift - test.Factor*r.se)
	test.Met = test.Bound > test.Threshold
	if room := r.lift - r.scale(test.Threshold); room > 0 && r.se > 0 {
		k := test.Factor * r.se / room
		test.UnitsNeeded = math.Ceil(math.Min(s.n*k*k, 1e12))
	}
	return test
}

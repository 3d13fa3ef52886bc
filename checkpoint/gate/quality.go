package gate

import (
	"math"
	"strings"
	"time"

	"millrace/checkpoint/stats"
	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// manyUnits is from where on the mixture of the sequential SRM test looks for smaller mismatches.
const manyUnits = 20_000

const splitTelemetry = "split_telemetry"

// openDesignEffect widens the test of the still-open share, which has no buckets: turns of one unit hang together.
const openDesignEffect = 2

// checks judge whether the arms can be compared at all. The lifts can't tell: a candidate that crashes the
// client loses exactly the turns that would have spoken against it.
func (t tester) checks() []Check {
	e := t.evidence
	checks := []Check{t.split("split_exposed", "units exposed", &e.ExposedUnits), t.telemetry(), t.multiExposure()}
	for _, s := range t.policy.Shares {
		checks = append(checks, t.alike(s))
	}
	return append(checks, t.stillOpen())
}

func (t tester) split(name, what string, units *Arms) Check {
	c := Check{Name: name, Limit: t.policy.Alphas.Split}
	if units == nil {
		c.Status, c.Sentence = NotMeasured, "nobody counted the "+what+", so their split isn't known"
		return c
	}
	c.Value = splitP(float64(units.Control), float64(units.Candidate))
	c.Sentence = t.say("%s: %s in control, %s in the candidate's arm, as an even split makes them (p = %s)", what, count(units.Control), count(units.Candidate), pValue(c.Value))
	c.Status = Passed
	if c.Value < c.Limit {
		c.Status = Failed
		c.Sentence = t.say("%s: %s in control, %s in the candidate's arm; an even split doesn't make that (p = %s, alarm below %s)", what, count(units.Control), count(units.Candidate), pValue(c.Value), pValue(c.Limit))
		c.Remedy = "find where units get lost: assignment, exposure or telemetry of one arm; then start a new experiment"
	}
	return c
}

// telemetry looks at the split of the units with a settled turn. A turn that ends in a question settles hours after the
// others: while the test runs, an arm that asks more is behind in this count without having lost anything. So an uneven
// split is only held against the test at its end; until then it stands in the way of a SHIP.
func (t tester) telemetry() Check {
	c := t.split(splitTelemetry, "units with a settled turn", t.evidence.UnitsWithTelemetry)
	if c.Status == Failed && !t.ended {
		c.Status, c.Remedy = Pending, ""
		c.Sentence += "; judged at the end, since turns with questions settle late"
	}
	return c
}

func (t tester) multiExposure() Check {
	c := Check{Name: "multi_exposure", Limit: t.policy.MultiExposure}
	distinct := t.evidence.ExposedUnits.Sum() - t.evidence.MultiExposed
	if distinct > 0 {
		c.Value = float64(t.evidence.MultiExposed) / float64(distinct)
	}
	c.Sentence = t.say("units seen in both arms: %s of %s (%s, limit %s)", count(t.evidence.MultiExposed), count(distinct), share(c.Value), share(c.Limit))
	switch {
	case !t.enough:
		c.Status = Pending
	case c.Value >= c.Limit:
		c.Status = Failed
		c.Remedy = "the backend doesn't keep a unit to its arm: look for a cache that outlives the session or ids that change; then start a new experiment"
	default:
		c.Status = Passed
	}
	return c
}

// alike asks whether a share of settled turns may be the same in both arms: it fails when the two-sided
// confidence sequence of the difference lies wholly beyond the tolerance.
func (t tester) alike(s gatepolicy.Share) Check {
	c := Check{Name: s.Metric, Limit: s.Tolerance}
	d, _ := metric.Find(s.Metric)
	arms := t.estimates[s.Metric]
	if !arms.measured() {
		c.Status, c.Sentence = NotMeasured, d.Title+": no settled turns in at least one arm"
		return c
	}
	control, candidate := arms.Control, arms.Candidate
	l := stats.AbsoluteLift(stats.WithRareEvents(control, candidate))
	half := shareSequence(t.policy).BothFactor(t.sample(arms, 0).n) * l.SE
	c.Value = l.Estimate
	facts := t.say("%s: %s of settled turns in control, %s in the candidate's arm, difference %s ± %s", d.Title, share(control.Value), share(candidate.Value), points(l.Estimate), size(half))
	switch {
	case !t.enough:
		c.Status, c.Sentence = Pending, facts
	case math.Abs(l.Estimate)-half > s.Tolerance:
		c.Status = Failed
		c.Sentence = t.say("%s: surely more than the %s allowed", facts, size(s.Tolerance))
		c.Remedy = "events of one arm get lost or fail where no lift can see it: compare the replica sets, the transport and the harness version of the arms; then start a new experiment"
	default:
		c.Status = Passed
		c.Sentence = t.say("%s: not surely more than the %s allowed", facts, size(s.Tolerance))
	}
	return c
}

// stillOpen compares, once at the end, the shares of counting turns that hadn't settled: the same rule cuts
// both arms off, but it cuts more from an arm whose turns hang. It fails when the 99 % interval (alphas.shares)
// of the difference lies wholly beyond the tolerance.
func (t tester) stillOpen() Check {
	c := Check{Name: "still_open", Limit: t.policy.StillOpen}
	open := t.evidence.StillOpen
	if open == nil {
		c.Status, c.Sentence = NotMeasured, "nobody counted the turns still open at the end"
		return c
	}
	settled := t.estimates["incomplete"]
	control, candidate := openShare(open.Control, settled.Control), openShare(open.Candidate, settled.Candidate)
	if control.Den == 0 || candidate.Den == 0 {
		c.Status, c.Sentence = NotMeasured, "no turns in at least one arm, so none to be still open"
		return c
	}
	l := stats.AbsoluteLift(control, candidate)
	half := stats.UpperPoint(t.policy.Alphas.Shares/2) * math.Sqrt(openDesignEffect) * l.SE
	c.Value = l.Estimate
	c.Sentence = t.say("turns still open: %s in control, %s in the candidate's arm, difference %s ± %s (%s allowed)", share(control.Value), share(candidate.Value), points(l.Estimate), size(half), size(c.Limit))
	switch {
	case !t.ended || !t.enough:
		c.Status = Pending
	case math.Abs(l.Estimate)-half > c.Limit:
		c.Status = Failed
		c.Remedy = "the turns of one arm take longer to settle, so its sums leave out other turns: look for hanging tools, then test again with a longer maturity_minutes"
	default:
		c.Status = Passed
	}
	return c
}

func openShare(open int64, settled stats.Ratio) stats.Ratio {
	n := float64(open) + settled.Den
	if n == 0 {
		return stats.Ratio{}
	}
	return stats.Proportion(n, float64(open))
}

// conditions are what SHIP needs besides the metrics.
func (t tester) conditions() []Check {
	elapsed := t.evidence.CommittedThrough.Sub(t.evidence.StartsAt).Minutes()
	least := min(t.evidence.ExposedUnits.Control, t.evidence.ExposedUnits.Candidate)
	conditions := []Check{
		t.condition("min_minutes", elapsed, t.policy.MinMinutes, t.say("%.0f minutes of log time are complete, %.0f are needed", max(elapsed, 0), t.policy.MinMinutes)),
		t.condition("min_units", float64(least), float64(t.policy.MinUnits), t.say("the smaller arm has %s units, %s are needed", count(least), count(int64(t.policy.MinUnits)))),
	}
	monitors := Check{Name: "monitors", Status: Passed, Sentence: "no monitor stands in the way"}
	var names []string
	for _, a := range t.evidence.Monitors {
		if a.AcknowledgedBy == "" {
			names = append(names, t.say("%s since %s: %s", a.Monitor, clock(a.Since), a.Text))
		}
	}
	if len(names) > 0 {
		monitors.Status, monitors.Value = Failed, float64(len(names))
		monitors.Sentence = "an alarm stands in the way that nobody has acknowledged: " + strings.Join(names, "; ")
		monitors.Remedy = "look into the alarm and acknowledge it by name"
	}
	return append(conditions, monitors)
}

func (t tester) condition(name string, value, least float64, sentence string) Check {
	c := Check{Name: name, Value: value, Limit: least, Sentence: sentence, Status: Passed}
	if value < least {
		c.Status = Pending
		if t.ended {
			c.Status = Failed
		}
	}
	return c
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// Fit says how a cycle fits the traffic.
type Fit string

const (
	Fits         Fit = "fits"         // the policy as it is
	Longer       Fit = "longer"       // a longer test
	Wider        Fit = "wider"        // and wider margins
	NoHarm       Fit = "do_no_harm"   // and nothing to win
	Insufficient Fit = "insufficient" // no test would tell: evals and a person decide
	Never        Fit = "never"        // such a candidate isn't one to ship, whatever the traffic
)

// Cycle is what the plan proposes for the traffic: the first of these under which the candidate that is planned for
// ships with the policy's power.
type Cycle struct {
	Fit    Fit    `json:"fit"`
	Policy Policy `json:"policy"`
	// Rows is how many turns come in a cycle of the test, training and evals: the size at which to cut.
	Rows          int     `json:"rows"`
	Days          float64 `json:"days"` // that such a cycle takes
	Units         int     `json:"units"`
	ShipUnchanged float64 `json:"ship_unchanged"`
	ShipEffect    float64 `json:"ship_effect"`
}

const (
	longestTest = 14 * 24 * time.Hour
	// usualWin is planned for where nobody names an effect.
	usualWin = .05
	// widest is how many times its margin a guardrail may be widened before it guards nothing.
	widest = 5
	// fewestUnits in an arm give a normal law.
	fewestUnits = 100
	// ladderMinutes are those of a cycle in which no test runs: training, evals and the verdict.
	ladderMinutes = 95
)

// testDays are the lengths that are tried; a week first sees every day of one.
var testDays = []float64{1, 2, 3, 5, 7, 14}

// Over is the traffic of a test of so many minutes. Turns come evenly; units come again, the more of them the fewer
// there are in all.
func (t Traffic) Over(minutes float64) Traffic {
	if t.Minutes == 0 {
		t.Minutes = minutes
		return t
	}
	ratio := minutes / t.Minutes
	turns := float64(t.Units) * t.TurnsPerUnit * ratio
	units := float64(t.Units) * ratio
	if t.Pool > 0 {
		units = float64(t.Pool) * (1 - math.Pow(1-float64(t.Units)/float64(t.Pool), ratio))
	}
	t.Units = max(1, int(math.Round(units)))
	t.TurnsPerUnit, t.Minutes = turns/float64(t.Units), minutes
	return t
}

// propose looks for the mildest change of the policy under which the candidate ships with the policy's power. A silent
// HOLD for ever is what it is there to prevent.
func propose(p Policy, t Traffic) Cycle {
	if f := forecast(p, t); enough(p, f) {
		return cycle(Fits, p, t, f)
	}
	for _, step := range []struct {
		fit    Fit
		change func(Policy, Traffic) Policy
	}{
		{Longer, func(p Policy, _ Traffic) Policy { return p }},
		{Wider, widened},
		{NoHarm, func(p Policy, t Traffic) Policy { return widened(harmless(p), t) }},
	} {
		for _, days := range testDays {
			if days*24*60 < p.TestMinutes {
				continue
			}
			longer := p
			longer.TestMinutes = days * 24 * 60
			over := t.Over(longer.TestMinutes)
			longer.PlannedUnits = max(over.Units, 2*fewestUnits)
			longer.MinUnits = min(p.MinUnits, max(fewestUnits, over.Units*2/5))
			longer = step.change(longer, over)
			if f := forecast(longer, over); enough(longer, f) {
				return cycle(step.fit, longer, over, f)
			}
		}
	}
	fit := Insufficient
	if hopeless(p, t) {
		fit = Never
	}
	p.RequireApproval = true
	return cycle(fit, p, t, forecast(p, t))
}

// hopeless is a candidate that no traffic makes ship: it wins nowhere, or lies beyond a margin.
func hopeless(p Policy, t Traffic) bool {
	benefit := func(name string) float64 {
		d, _ := metric.Find(name)
		return sign(d) * t.Effects[name]
	}
	for _, g := range p.Guardrails {
		if base, _ := t.Base(g.Metric); benefit(g.Metric) <= -relativeMargin(g, base) {
			return true
		}
	}
	return p.Mode == gatepolicy.Improve && !slices.ContainsFunc(p.Success, func(name string) bool { return benefit(name) > 0 })
}

// enough: the candidate ships with the policy's power. Where there is nothing to win, an unchanged one has to.
func enough(p Policy, f Forecast) bool { return f.ShipEffect >= p.Power }

// widened gives each guardrail the smallest margin that an unchanged candidate keeps, within bounds, and the watch for
// harm at least the same: what a guardrail allows must not end a test.
func widened(p Policy, t Traffic) Policy {
	p.Guardrails, p.Harm = slices.Clone(p.Guardrails), slices.Clone(p.Harm)
	for i, g := range p.Guardrails {
		d, _ := metric.Find(g.Metric)
		o, _ := outlook(p, t, d)
		margin := relativeMargin(g, o.Base)
		wide := math.Ceil(100*min(max(margin, o.SmallestMargin), widest*margin)) / 100
		if wide <= margin {
			continue
		}
		p.Guardrails[i] = gatepolicy.Margin{Metric: g.Metric, Margin: min(wide, .99)}
		for j, h := range p.Harm {
			if h.Metric == g.Metric && relativeMargin(h, o.Base) < wide {
				p.Harm[j] = p.Guardrails[i]
			}
		}
	}
	return p
}

// harmless asks for no win: what had to win has to be kept, within its harm margin.
func harmless(p Policy) Policy {
	p.Mode = gatepolicy.DoNoHarm
	p.Guardrails = slices.Clone(p.Guardrails)
	for _, name := range p.Success {
		if _, guarded := p.Guardrail(name); guarded {
			continue
		}
		if m, watched := p.HarmMargin(name); watched && (m.Margin > 0 || m.Absolute > 0) {
			p.Guardrails = append(p.Guardrails, m)
		}
	}
	p.Success = []string{}
	return p
}

func cycle(fit Fit, p Policy, t Traffic, f Forecast) Cycle {
	minutes := p.TestMinutes + ladderMinutes
	if p.TestMinutes > (24 * time.Hour).Minutes() {
		minutes = p.TestMinutes + (24*time.Hour).Minutes()/2 // a person trains and looks in between
	}
	perMinute := float64(t.Units) * t.TurnsPerUnit / p.TestMinutes
	return Cycle{
		Fit: fit, Policy: p, Rows: int(math.Ceil(perMinute * minutes)), Days: minutes / (24 * 60),
		Units: t.Units, ShipUnchanged: f.ShipUnchanged, ShipEffect: f.ShipEffect,
	}
}

// advice says the proposal in sentences.
func advice(p Policy, t Traffic, c Cycle) []string {
	planned := "an unchanged candidate"
	if c.Policy.Mode == gatepolicy.Improve {
		planned = "a candidate with " + effects(t.Effects)
	}
	if c.Fit == Never {
		return []string{fmt.Sprintf("no traffic makes %s ship: it improves no success metric, or lies beyond a margin", planned)}
	}
	if c.Fit == Insufficient {
		return []string{
			fmt.Sprintf("live evidence insufficient: in a test of up to %s, even with margins %d times as wide and nothing to win, %s ships in less than %s", duration(longestTest), widest, planned, chance(p.Power)),
			"evals and a person decide: keep the test as a watch for harm, with require_approval: true",
		}
	}
	if c.Fit == Fits {
		return []string{fmt.Sprintf("this traffic suffices: %s ships in %s of tests, %s were asked for", planned, chance(c.ShipEffect), chance(p.Power))}
	}
	q := c.Policy
	out := []string{fmt.Sprintf("this traffic doesn't suffice for the policy as it is; what would do: a test of %s with about %s units", duration(minutes(q.TestMinutes)), count(int64(c.Units)))}
	if c.Fit != Longer {
		var margins []string
		for _, g := range q.Guardrails {
			margins = append(margins, fmt.Sprintf("%s %.3g", g.Metric, max(g.Margin, g.Absolute)))
		}
		out = append(out, "and these margins: "+strings.Join(margins, ", "))
	}
	if c.Fit == NoHarm {
		out = append(out, "and mode do_no_harm: it ships what is shown not to be worse, and says so; small losses add up from candidate to candidate")
	}
	return append(out,
		fmt.Sprintf("under it %s ships in %s of tests", planned, chance(c.ShipEffect)),
		fmt.Sprintf("its cycle: a cut by rows, at %s of them, which come in about %s", count(int64(c.Rows)), duration(time.Duration(c.Days*24*float64(time.Hour)))),
		fmt.Sprintf("in the policy: mode: %s, test_minutes: %.0f, planned_units: %d, min_units: %d", q.Mode, q.TestMinutes, q.PlannedUnits, q.MinUnits))
}

func effects(changes map[string]float64) string {
	var out []string
	for _, d := range metric.All {
		if change, ok := changes[d.Name]; ok {
			out = append(out, fmt.Sprintf("%s %s", d.Title, percent(change)))
		}
	}
	return strings.Join(out, ", ")
}

// expected names an effect where nobody did: a usual win in the first success metric.
func (t Traffic) expected(p Policy) (Traffic, bool) {
	if len(t.Effects) > 0 || p.Mode != gatepolicy.Improve || len(p.Success) == 0 {
		return t, false
	}
	d, _ := metric.Find(p.Success[0])
	t.Effects = map[string]float64{d.Name: sign(d) * usualWin}
	return t, true
}

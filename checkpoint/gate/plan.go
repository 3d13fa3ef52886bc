package gate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"millrace/checkpoint/stats"
	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// Traffic is what a test is expected to see from its start to its declared end.
type Traffic struct {
	Units        int     `json:"units"`          // distinct, in both arms
	TurnsPerUnit float64 `json:"turns_per_unit"` // that count, on average
	TurnsCV      float64 `json:"turns_cv"`       // their number's standard deviation over its mean
	ICC          float64 `json:"icc"`            // correlation of two turns of one unit, 0 … 1
	EditShare    float64 `json:"edit_share"`     // turns that ask for an edit, 0 … 1
	// Bases are the control's values; what isn't named here is assumed, and said to be.
	Bases map[string]Base `json:"bases,omitempty"`
	// Effects are relative changes as they are read, −0.1 for a latency that falls by 10 %.
	Effects map[string]float64 `json:"effects,omitempty"`
}

// Base is a metric's value per turn in the control arm. SD is that of one turn, of the logarithm for latency;
// 0 means a rate, whose SD follows from its value.
type Base struct {
	Value float64 `json:"value"`
	SD    float64 `json:"sd,omitempty"`
}

// assumed are placeholders until the first week of A/A tests has measured them.
var assumed = map[string]Base{
	"kept_edits":      {Value: .60},
	"dissatisfied":    {Value: .12},
	"latency":         {Value: 0, SD: .9}, // its lift doesn't depend on its level
	"slow_turns":      {Value: .05},
	"malformed_calls": {Value: .02},
	"questions":       {Value: .10},
	"aborts":          {Value: .06},
	"edit_rate":       {Value: .80},
	"tokens":          {Value: 800, SD: 800},
}

// perEditRequest are the metrics whose denominator is edit-request turns.
var perEditRequest = []string{"kept_edits", "questions", "edit_rate"}

// Forecast is what the traffic lets the gate see. Nothing in it is a promise: it takes the metrics for
// independent, and the bases for known.
type Forecast struct {
	Metrics []Outlook `json:"metrics"`
	// ShipUnchanged and ShipEffect are the probabilities of a SHIP at the declared end, of an unchanged
	// candidate and of one with the named effects.
	ShipUnchanged float64 `json:"ship_unchanged"`
	ShipEffect    float64 `json:"ship_effect"`
	// Need is the number of units in both arms with which a candidate with the named effects ships with the
	// policy's power; 0 when no traffic would do.
	Need      float64  `json:"need"`
	Sentences []string `json:"sentences"`
}

// Outlook is one metric's part of a forecast. Relative changes are benefit-signed, margins positive.
type Outlook struct {
	Metric       string  `json:"metric"`
	Base         Base    `json:"base"`
	Assumed      bool    `json:"assumed,omitempty"`
	Events       float64 `json:"events"` // in both arms
	DesignEffect float64 `json:"design_effect"`
	SE           float64 `json:"se"` // of the lift, on the scale of the tests
	// Success: the smallest benefit that wins with the policy's power, and the power for the named effect.
	Detectable float64 `json:"detectable,omitempty"`
	WinPower   float64 `json:"win_power,omitempty"`
	// Guardrail: the smallest margin that an unchanged candidate passes with its share of the power, and how
	// often the policy's own margin is passed, unchanged and with the named effect.
	SmallestMargin float64 `json:"smallest_margin,omitempty"`
	PassUnchanged  float64 `json:"pass_unchanged,omitempty"`
	PassEffect     float64 `json:"pass_effect,omitempty"`
	// Harm: the smallest loss that ends the test by its end with the policy's power.
	SmallestHarm float64 `json:"smallest_harm,omitempty"`
}

// Plan says beforehand what a test under the policy can detect with this traffic.
func Plan(p Policy, t Traffic) (Forecast, error) {
	if err := t.validate(); err != nil {
		return Forecast{}, err
	}
	f := Forecast{ShipUnchanged: 1, ShipEffect: 1}
	f.Sentences = append(f.Sentences, fmt.Sprintf("%s units with %.3g counting turns each make %s turns in both arms, %s of them edit requests",
		count(int64(t.Units)), t.TurnsPerUnit, count(int64(t.turns(""))), count(int64(t.turns("kept_edits")))))
	noWin, noWinEffect := 1., 1.
	for _, d := range metric.All {
		o, planned := outlook(p, t, d)
		if !planned {
			continue
		}
		f.Metrics = append(f.Metrics, o)
		if slices.Contains(p.Success, d.Name) {
			noWin *= 1 - p.Alphas.Win/float64(len(p.Success))
			noWinEffect *= 1 - o.WinPower
		}
		if _, guarded := p.Guardrail(d.Name); guarded {
			f.ShipUnchanged *= o.PassUnchanged
			f.ShipEffect *= o.PassEffect
		}
	}
	if p.Mode == gatepolicy.Improve {
		f.ShipUnchanged *= 1 - noWin
		f.ShipEffect *= 1 - noWinEffect
	}
	f.Need = need(p, t)
	f.Sentences = append(f.Sentences, tell(p, t, f)...)
	return f, nil
}

func (t Traffic) validate() error {
	for _, c := range []struct {
		ok      bool
		message string
	}{
		{t.Units > 0, "units: at least one takes part in a test"},
		{t.TurnsPerUnit > 0, "turns per unit: above 0"},
		{t.TurnsCV >= 0, "turns' coefficient of variation: at least 0"},
		{t.ICC >= 0 && t.ICC <= 1, "correlation inside a unit: 0 to 1"},
		{t.EditShare > 0 && t.EditShare <= 1, "share of edit requests: above 0, at most 1"},
	} {
		if !c.ok {
			return fmt.Errorf("traffic: %s", c.message)
		}
	}
	for name, b := range t.Bases {
		d, ok := metric.Find(name)
		if !ok || d.Quality {
			return fmt.Errorf("traffic: base of %q: no such metric", name)
		}
		if d.Scale != metric.Log && (b.Value <= 0 || b.SD == 0 && b.Value >= 1) || b.SD < 0 {
			return fmt.Errorf("traffic: base of %s is %v (sd %v): a rate lies between 0 and 1, anything else needs its sd too", name, b.Value, b.SD)
		}
		if d.Scale == metric.Log && b.SD == 0 {
			return fmt.Errorf("traffic: base of %s needs the sd of its logarithm", name)
		}
	}
	for name, change := range t.Effects {
		if d, ok := metric.Find(name); !ok || d.Quality || change <= -1 {
			return fmt.Errorf("traffic: effect of %q is %v: it is a relative change above -1 of one of the metrics", name, change)
		}
	}
	return nil
}

func (t Traffic) turns(name string) float64 {
	n := float64(t.Units) * t.TurnsPerUnit
	if slices.Contains(perEditRequest, name) {
		n *= t.EditShare
	}
	return n
}

// spread is an event's standard deviation over its mean; of the logarithm itself for a mean of logarithms.
func (b Base) spread(d metric.Def) float64 {
	switch {
	case d.Scale == metric.Log:
		return b.SD
	case b.SD > 0:
		return b.SD / b.Value
	}
	return math.Sqrt((1 - b.Value) / b.Value)
}

func outlook(p Policy, t Traffic, d metric.Def) (Outlook, bool) {
	guardrail, guarded := p.Guardrail(d.Name)
	harm, watched := p.HarmMargin(d.Name)
	success := slices.Contains(p.Success, d.Name)
	if !success && !guarded && !watched {
		return Outlook{}, false
	}
	base, given := t.Bases[d.Name]
	if !given {
		base = assumed[d.Name]
	}
	events := t.turns(d.Name)
	o := Outlook{Metric: d.Name, Base: base, Assumed: !given, Events: events}
	o.DesignEffect = stats.DesignEffect(events/float64(t.Units), t.TurnsCV, t.ICC)
	o.SE = stats.LiftSE(base.spread(d), events, o.DesignEffect)
	effect := onScale(d, sign(d)*t.Effects[d.Name])
	if success {
		z := winFactor(p)
		o.Detectable = fromScale(d, stats.Detectable(o.SE, z, p.Power))
		o.WinPower = stats.Power(effect, o.SE, z)
	}
	if guarded {
		z := stats.UpperPoint(p.Alphas.Guardrail)
		o.SmallestMargin = -fromScale(d, -stats.Detectable(o.SE, z, guardrailPower(p)))
		room := -onScale(d, -relativeMargin(guardrail, base))
		o.PassUnchanged = stats.Power(room, o.SE, z)
		o.PassEffect = stats.Power(effect+room, o.SE, z)
	}
	if watched {
		s := stats.OneSided(p.Alphas.Harm/float64(len(p.Harm)), float64(p.PlannedUnits)/4)
		room := -onScale(d, -relativeMargin(harm, base))
		o.SmallestHarm = -fromScale(d, -room-stats.Detectable(o.SE, s.LowerFactor(float64(t.Units)), p.Power))
	}
	return o, true
}

// relativeMargin takes an absolute margin for the share of the base that it is.
func relativeMargin(m gatepolicy.Margin, b Base) float64 {
	if m.Absolute > 0 {
		return min(m.Absolute/b.Value, .999)
	}
	return m.Margin
}

func winFactor(p Policy) float64 { return stats.UpperPoint(p.Alphas.Win / float64(len(p.Success))) }

// guardrailPower shares the error of the second kind between the win and the guardrails.
func guardrailPower(p Policy) float64 { return 1 - (1-p.Power)/float64(len(p.Guardrails)+1) }

// need is by how many units the weakest part gets its share of the power: each guardrail, and the best success
// metric. Errors fall with the root of the units.
func need(p Policy, t Traffic) float64 {
	more := float64(2*p.MinUnits) / float64(t.Units)
	best := math.Inf(1)
	for _, d := range metric.All {
		o, planned := outlook(p, t, d)
		if !planned {
			continue
		}
		effect := onScale(d, sign(d)*t.Effects[d.Name])
		if slices.Contains(p.Success, d.Name) {
			best = min(best, factor(effect, stats.Detectable(o.SE, winFactor(p), guardrailPower(p))))
		}
		if g, guarded := p.Guardrail(d.Name); guarded {
			room := effect - onScale(d, -relativeMargin(g, o.Base))
			more = max(more, factor(room, stats.Detectable(o.SE, stats.UpperPoint(p.Alphas.Guardrail), guardrailPower(p))))
		}
	}
	if p.Mode == gatepolicy.Improve {
		more = max(more, best)
	}
	if math.IsInf(more, 1) {
		return 0
	}
	return math.Ceil(more * float64(t.Units))
}

func factor(effect, detectable float64) float64 {
	if effect <= 0 {
		return math.Inf(1)
	}
	return detectable / effect * (detectable / effect)
}

const longestTest = 14 * 24 * time.Hour

func tell(p Policy, t Traffic, f Forecast) []string {
	var out []string
	for _, o := range f.Metrics {
		d, _ := metric.Find(o.Metric)
		note := ""
		if o.Assumed {
			note = " (base assumed)"
		}
		read := func(benefit float64) string { return percent(sign(d) * benefit) }
		if slices.Contains(p.Success, o.Metric) {
			s := fmt.Sprintf("%s: the smallest win is a change of %s, found in %s of tests%s", d.Title, read(o.Detectable), chance(p.Power), note)
			if effect := t.Effects[o.Metric]; effect != 0 {
				s += fmt.Sprintf("; %s is found in %s", percent(effect), chance(o.WinPower))
			}
			out = append(out, s)
		}
		if g, ok := p.Guardrail(o.Metric); ok {
			s := fmt.Sprintf("%s: an unchanged candidate keeps the margin of %s in %s of tests; the smallest margin it keeps in %s is %s%s",
				d.Title, read(-relativeMargin(g, o.Base)), chance(o.PassUnchanged), chance(guardrailPower(p)), read(-o.SmallestMargin), note)
			if effect := t.Effects[o.Metric]; effect != 0 {
				s += fmt.Sprintf("; with %s it keeps it in %s", percent(effect), chance(o.PassEffect))
			}
			out = append(out, s)
		}
		if _, ok := p.HarmMargin(o.Metric); ok {
			out = append(out, fmt.Sprintf("%s: a change of %s ends the test as harm in %s of tests%s", d.Title, read(-o.SmallestHarm), chance(p.Power), note))
		}
	}
	out = append(out, fmt.Sprintf("an unchanged candidate ships in %s of tests", chance(f.ShipUnchanged)))
	if len(t.Effects) > 0 {
		out = append(out, fmt.Sprintf("a candidate with the named effects ships in %s of tests, metrics taken for independent", chance(f.ShipEffect)))
	}
	return append(out, advice(p, t, f)...)
}

// advice says which test would do: silence here would be a HOLD for ever.
func advice(p Policy, t Traffic, f Forecast) []string {
	units := float64(t.Units)
	if f.Need == 0 {
		if p.Mode == gatepolicy.Improve && len(t.Effects) == 0 {
			return []string{"name the effects that a candidate is expected to have (kept_edits=0.03), to learn what test they need"}
		}
		return []string{"no traffic makes such a candidate ship: its effects are not wins, or beyond a margin"}
	}
	if f.Need <= units {
		return []string{fmt.Sprintf("this traffic suffices: %s units are needed", count(int64(f.Need)))}
	}
	length := time.Duration(p.TestMinutes * f.Need / units * float64(time.Minute))
	out := []string{fmt.Sprintf("%s units are needed for %s of such candidates to ship, %s come in a test of %s", count(int64(f.Need)), chance(p.Power), count(int64(t.Units)), duration(minutes(p.TestMinutes)))}
	if length <= longestTest {
		out = append(out, fmt.Sprintf("if new units keep coming at this rate, a test of %s would do (test_minutes: %.0f, planned_units: %.0f)", duration(length), math.Ceil(length.Minutes()), f.Need))
	} else {
		out = append(out, fmt.Sprintf("live evidence insufficient: it would take %s, and a test takes at most %s; evals and a person decide", duration(length), duration(longestTest)))
	}
	for _, o := range f.Metrics {
		g, ok := p.Guardrail(o.Metric)
		if d, _ := metric.Find(o.Metric); ok && o.PassEffect < guardrailPower(p) {
			out = append(out, fmt.Sprintf("or a wider margin for %s: %.3g instead of %.3g", d.Title, o.SmallestMargin, relativeMargin(g, o.Base)))
		}
	}
	if p.Mode == gatepolicy.Improve {
		out = append(out, "or mode do_no_harm, which asks for no win and is shown as such")
	}
	return out
}

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

func duration(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
	return fmt.Sprintf("%.1f hours", d.Hours())
}

func chance(x float64) string {
	switch {
	case x > .9995:
		return "more than 99.9%"
	case x < .0005:
		return "less than 0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

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
	// Minutes is in which time so many units come; 0 is the test's. Pool is how many there are in all; 0 takes every
	// unit for a new one.
	Minutes float64 `json:"minutes,omitempty"`
	Pool    int     `json:"pool,omitempty"`
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
	"incomplete":      {Value: .004},
	"faulted":         {Value: .01},
	"censored":        {Value: .05},
}

var perEditRequest = []string{"kept_edits", "questions", "edit_rate"}

// PerEditRequest reports whether the metric's denominator is edit-request turns rather than turns.
func PerEditRequest(name string) bool { return slices.Contains(perEditRequest, name) }

// Base is the metric's value in the control arm, and whether it was given rather than assumed.
func (t Traffic) Base(name string) (b Base, given bool) {
	if b, given = t.Bases[name]; given {
		return b, true
	}
	return assumed[name], false
}

// Forecast is what the traffic lets the gate see. Nothing in it is a promise: it takes the metrics for
// independent, and the bases for known.
type Forecast struct {
	Metrics []Outlook `json:"metrics"`
	// ShipUnchanged and ShipEffect are the probabilities of a SHIP at the declared end, of an unchanged
	// candidate and of one with the named effects.
	ShipUnchanged float64 `json:"ship_unchanged"`
	ShipEffect    float64 `json:"ship_effect"`
	// UnitLoss is the smallest share of one arm's units, and TurnLoss the smallest share of one arm's turns that lose
	// records, that makes the comparison INVALID by its end in the policy's power of tests; 1 when none does.
	UnitLoss float64 `json:"unit_loss"`
	TurnLoss float64 `json:"turn_loss"`
	// Assumed: nobody named an effect, so that of a usual win was taken.
	Assumed   bool     `json:"assumed,omitempty"`
	Cycle     Cycle    `json:"cycle"`
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

// Plan says beforehand what a test under the policy can detect with this traffic, and proposes a cycle.
func Plan(p Policy, t Traffic) (Forecast, error) {
	if err := t.validate(); err != nil {
		return Forecast{}, err
	}
	t, assumed := t.Over(p.TestMinutes).expected(p)
	f := forecast(p, t)
	f.Assumed, f.Cycle = assumed, propose(p, t)
	f.Sentences = tell(p, t, f)
	return f, nil
}

func forecast(p Policy, t Traffic) Forecast {
	f := Forecast{ShipUnchanged: 1, ShipEffect: 1}
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
	both := bothArms(p, t)
	f.ShipUnchanged *= both
	f.ShipEffect *= both
	f.UnitLoss, f.TurnLoss = unitLoss(p, t.Units), turnLoss(p, t)
	return f
}

// bothArms is how likely the smaller arm gets its least number of units.
func bothArms(p Policy, t Traffic) float64 {
	n := float64(t.Units)
	return max(0, 1-2*stats.UpperTail((n-2*float64(p.MinUnits))/math.Sqrt(n)))
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
		{t.Minutes >= 0, "minutes in which the units come: above 0"},
		{t.Pool == 0 || t.Pool >= t.Units, "units there are in all: at least those that come in the given time"},
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
	if PerEditRequest(name) {
		n *= t.EditShare
	}
	return n
}

// designEffect is that of the turns that the metric counts. Where it leaves turns out, the number that is left of a
// unit's varies more for its size than the number of its turns does.
func (t Traffic) designEffect(name string) float64 {
	m, cv := t.TurnsPerUnit, t.TurnsCV
	if PerEditRequest(name) {
		cv = math.Sqrt(cv*cv + (1-t.EditShare)/(m*t.EditShare))
		m *= t.EditShare
	}
	return stats.DesignEffect(m, cv, t.ICC)
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
	base, given := t.Base(d.Name)
	events := t.turns(d.Name)
	o := Outlook{Metric: d.Name, Base: base, Assumed: !given, Events: events}
	o.DesignEffect = t.designEffect(d.Name)
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

func tell(p Policy, t Traffic, f Forecast) []string {
	out := []string{fmt.Sprintf("%s units with %.3g counting turns each make %s turns in both arms, %s of them edit requests",
		count(int64(t.Units)), t.TurnsPerUnit, count(int64(t.turns(""))), count(int64(t.turns("kept_edits"))))}
	if both := bothArms(p, t); both < .99 {
		out = append(out, fmt.Sprintf("%s units in each arm, without which nothing ships, come in %s of tests", count(int64(p.MinUnits)), chance(both)))
	}
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
			s := fmt.Sprintf("%s: a change of %s ends the test as harm in %s of tests%s", d.Title, read(-o.SmallestHarm), chance(p.Power), note)
			if o.SmallestHarm > 10 || d.HigherIsBetter && o.SmallestHarm > 1 {
				s = fmt.Sprintf("%s: no loss is large enough to be seen as harm in %s of tests%s", d.Title, chance(p.Power), note)
			}
			out = append(out, s)
		}
	}
	out = append(out, fmt.Sprintf("an unchanged candidate ships in %s of tests", chance(f.ShipUnchanged)))
	if len(t.Effects) > 0 {
		note := ""
		if f.Assumed {
			note = " (assumed; --effect names yours)"
		}
		out = append(out, fmt.Sprintf("a candidate with %s%s ships in %s of tests, metrics taken for independent", effects(t.Effects), note, chance(f.ShipEffect)))
	}
	out = append(out, fmt.Sprintf("losing %s of one arm's units, or records of %s of one arm's turns, is found in %s of tests", share(f.UnitLoss), share(f.TurnLoss), chance(p.Power)))
	return append(out, advice(p, t, f.Cycle)...)
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

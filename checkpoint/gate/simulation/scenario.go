package simulation

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"millrace/checkpoint/gate"
	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// Scenario is a candidate, and what goes wrong around it.
type Scenario struct {
	Name    string             `json:"name"`
	Text    string             `json:"text"`
	Effects map[string]float64 `json:"effects,omitempty"` // relative changes as they are read
	// UnitLoss is the share of the candidate's units that nobody sees; TurnLoss that of its turns that lose records.
	UnitLoss float64 `json:"unit_loss,omitempty"`
	TurnLoss float64 `json:"turn_loss,omitempty"`
	// HeavyUnits take part besides, with so many turns each; the first is in the candidate's arm.
	HeavyUnits int     `json:"heavy_units,omitempty"`
	HeavyTurns int     `json:"heavy_turns,omitempty"`
	Expect     []Claim `json:"-"`
}

// Claim is how often a decision may or has to come out.
type Claim struct {
	Decision gate.Decision `json:"decision"`
	AtLeast  float64       `json:"at_least,omitempty"`
	AtMost   float64       `json:"at_most,omitempty"` // 0 asks nothing
	By       string        `json:"by"`                // what says so
}

func (c Claim) broken(seen Share) bool {
	return seen.Share < c.AtLeast-3*seen.Error || c.AtMost > 0 && seen.Share > c.AtMost+3*seen.Error
}

// planTolerance is how far a forecast may lie off: it takes bases for known and metrics for independent.
const planTolerance = .05

// powers are those of the good candidates' wins, as the plan has them.
var powers = []float64{.5, .8, .95}

// Scenarios are the candidates by which a policy is judged at this traffic. The good one has the traffic's effects or,
// where it names none, an effect in the first success metric that the plan finds in half, 80 % and 95 % of tests.
func Scenarios(p gate.Policy, t gate.Traffic) ([]Scenario, error) {
	forecast, err := gate.Plan(p, t)
	if err != nil {
		return nil, err
	}
	t = t.Over(p.TestMinutes)
	a := p.Alphas
	out := []Scenario{{
		Name: "unchanged", Text: "a candidate that is as the live checkpoint is",
		Expect: append(unchanged(p), Claim{Decision: gate.Invalid, AtMost: 2*a.Split + 2*a.Shares, By: "alphas.split and alphas.shares"}),
	}}
	good, err := improved(p, t)
	if err != nil {
		return nil, err
	}
	out = append(append(out, good...), worse(p, t, forecast)...)
	out = append(out, atMargins(p, t, forecast)...)
	return append(out,
		Scenario{
			Name: "heavy unit", Text: "unchanged, with one unit of 1,000 turns in the candidate's arm",
			HeavyUnits: 1, HeavyTurns: 1000, Expect: unchanged(p),
		},
		Scenario{
			Name: "lost units", Text: fmt.Sprintf("unchanged, but %.2g%% of its units are never seen", 100*forecast.UnitLoss), UnitLoss: forecast.UnitLoss,
			Expect: []Claim{{Decision: gate.Invalid, AtLeast: p.Power - planTolerance, By: "gate plan"}},
		},
		Scenario{
			Name: "lost events", Text: fmt.Sprintf("unchanged, but %.2g%% of its turns lose records", 100*forecast.TurnLoss), TurnLoss: forecast.TurnLoss,
			Expect: []Claim{{Decision: gate.Invalid, AtLeast: p.Power - planTolerance, By: "gate plan"}},
		}), nil
}

func improved(p gate.Policy, t gate.Traffic) ([]Scenario, error) {
	effects := []map[string]float64{}
	switch {
	case len(t.Effects) > 0:
		effects = append(effects, t.Effects)
	case p.Mode == gatepolicy.Improve:
		for _, power := range powers {
			asked := p
			asked.Power = power
			f, err := gate.Plan(asked, t)
			if err != nil {
				return nil, err
			}
			o := outlook(f, p.Success[0])
			effects = append(effects, map[string]float64{o.Metric: possible(t, o.Metric, o.Detectable)})
		}
	}
	var out []Scenario
	for _, e := range effects {
		t.Effects = e
		f, err := gate.Plan(p, t)
		if err != nil {
			return nil, err
		}
		out = append(out, Scenario{
			Name: "better", Text: list(e), Effects: e,
			Expect: []Claim{{Decision: gate.Ship, AtLeast: f.ShipEffect - planTolerance, AtMost: f.ShipEffect + planTolerance, By: "gate plan"}},
		})
	}
	return out, nil
}

// worse are a candidate with the smallest harm that the plan finds, and one that has reached every harm margin and
// exceeds none.
func worse(p gate.Policy, t gate.Traffic, f gate.Forecast) []Scenario {
	if len(p.Harm) == 0 {
		return nil
	}
	o := outlook(f, p.Harm[0].Metric)
	harmful := map[string]float64{o.Metric: possible(t, o.Metric, -o.SmallestHarm)}
	edge := map[string]float64{}
	for _, m := range p.Harm {
		edge[m.Metric] = possible(t, m.Metric, -relative(t, m))
	}
	claims := []Claim{{Decision: gate.Rollback, AtLeast: p.Power - planTolerance, By: "gate plan"}}
	if p.Mode == gatepolicy.Improve {
		claims = append(claims, Claim{Decision: gate.Ship, AtMost: p.Alphas.Win + p.Alphas.EarlyWin, By: "alphas.win and alphas.early_win"})
	}
	return []Scenario{
		{Name: "harmful", Text: list(harmful), Effects: harmful, Expect: claims},
		{Name: "harm margins", Text: "every harm margin reached, none exceeded", Effects: edge, Expect: []Claim{{Decision: gate.Rollback, AtMost: p.Alphas.Harm, By: "alphas.harm"}}},
	}
}

// atMargins are candidates that stand at the edge of one guardrail's margin and clearly win in all else that SHIP asks.
func atMargins(p gate.Policy, t gate.Traffic, f gate.Forecast) []Scenario {
	win := map[string]float64{}
	for _, name := range p.Success {
		win[name] = possible(t, name, 3*outlook(f, name).Detectable)
	}
	for _, g := range p.Guardrails {
		if win[g.Metric] == 0 {
			win[g.Metric] = possible(t, g.Metric, 3*outlook(f, g.Metric).SmallestMargin)
		}
	}
	var out []Scenario
	for _, g := range p.Guardrails {
		effects := maps.Clone(win)
		effects[g.Metric] = possible(t, g.Metric, -relative(t, g))
		out = append(out, Scenario{
			Name: "margin " + g.Metric, Text: "at the edge of one margin, clearly better else: " + list(effects), Effects: effects,
			Expect: []Claim{{Decision: gate.Ship, AtMost: p.Alphas.Guardrail, By: "alphas.guardrail"}},
		})
	}
	return out
}

func outlook(f gate.Forecast, name string) gate.Outlook {
	for _, o := range f.Metrics {
		if o.Metric == name {
			return o
		}
	}
	return gate.Outlook{Metric: name}
}

// relative is a margin as a share of the control's value.
func relative(t gate.Traffic, m gatepolicy.Margin) float64 {
	if base, _ := t.Base(m.Metric); m.Absolute > 0 {
		return m.Absolute / base.Value
	}
	return m.Margin
}

// unchanged is what a policy claims about a candidate that is as the live checkpoint is. One that asks for no harm
// only ships it, and should.
func unchanged(p gate.Policy) []Claim {
	claims := []Claim{{Decision: gate.Rollback, AtMost: p.Alphas.Harm, By: "alphas.harm"}}
	if p.Mode == gatepolicy.Improve {
		claims = append(claims, Claim{Decision: gate.Ship, AtMost: p.Alphas.Win + p.Alphas.EarlyWin, By: "alphas.win and alphas.early_win"})
	}
	return claims
}

// possible turns a benefit into a change as it is read, kept to what the metric's base allows.
func possible(t gate.Traffic, name string, benefit float64) float64 {
	d, _ := metric.Find(name)
	if !d.HigherIsBetter {
		benefit = -benefit
	}
	change := math.Max(benefit, -.95)
	if base, _ := t.Base(name); base.SD == 0 && d.Scale != metric.Log {
		change = math.Min(change, .98/base.Value-1)
	}
	return change
}

func list(effects map[string]float64) string {
	text := ""
	for _, d := range metric.All {
		if change, ok := effects[d.Name]; ok {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%s %+.1f%%", d.Title, 100*change)
		}
	}
	return text
}

// Only keeps the scenarios of these names; all when none is named.
func Only(scenarios []Scenario, names []string) ([]Scenario, error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	var out []Scenario
	known := map[string]bool{}
	for _, s := range scenarios {
		known[s.Name] = true
		if slices.Contains(names, s.Name) {
			out = append(out, s)
		}
	}
	for _, name := range names {
		if !known[name] {
			return nil, fmt.Errorf("there is no candidate %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return out, nil
}

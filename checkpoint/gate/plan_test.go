package gate

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/gatepolicy"
)

func demoTraffic(units int) Traffic {
	return Traffic{
		Units: units, TurnsPerUnit: demoTurnsPerUnit, TurnsCV: .87, EditShare: 1,
		Bases: map[string]Base{
			"kept_edits": {Value: .82 * .72}, "edit_rate": {Value: .82}, "latency": {SD: latencySD},
			"slow_turns": {Value: .05}, "malformed_calls": {Value: .02}, "questions": {Value: .10},
			"aborts": {Value: .06}, "dissatisfied": {Value: .12}, "tokens": {Value: 800, SD: 800},
		},
		Effects: map[string]float64{"kept_edits": .85*.76/(.82*.72) - 1, "edit_rate": .85/.82 - 1, "latency": -.10, "questions": -.25},
	}
}

func TestPlanOfTheDemo(t *testing.T) {
	t.Parallel()
	f, err := Plan(gatepolicy.Default(), demoTraffic(demoUnits))
	require.NoError(t, err)
	t.Log("\n" + strings.Join(f.Sentences, "\n"))
	require.Greater(t, f.ShipEffect, .99)
	require.Less(t, f.ShipUnchanged, .02)
	require.Less(t, f.Need, float64(demoUnits))
	require.Contains(t, strings.Join(f.Sentences, "\n"), "this traffic suffices")
	_, err = json.Marshal(f)
	require.NoError(t, err)
}

// The design's numbers: a candidate like Cursor's under three success metrics and five guardrails.
func TestPlanAgreesWithTheDesignsTable(t *testing.T) {
	t.Parallel()
	p := gatepolicy.Default()
	p.Success = []string{"kept_edits", "dissatisfied", "latency"}
	traffic := Traffic{
		Units: 72_500, TurnsPerUnit: 1, EditShare: 1,
		Bases:   map[string]Base{"kept_edits": {Value: .70}, "dissatisfied": {Value: .12}, "latency": {SD: .9}},
		Effects: map[string]float64{"kept_edits": .0228, "dissatisfied": -.0313, "latency": -.103},
	}
	traffic.Units /= 2 // the table has a design effect of 2
	f, err := Plan(p, traffic)
	require.NoError(t, err)
	i := slices.IndexFunc(f.Metrics, func(o Outlook) bool { return o.Metric == "kept_edits" })
	require.InDelta(t, .80, f.Metrics[i].WinPower, .01)
}

func TestPlanHoldsInSimulation(t *testing.T) {
	t.Parallel()
	const units, runs = 800, 100
	p := gatepolicy.Default()
	// Chosen so that each part is in doubt: powers near 0 or 1 would agree whatever the formula.
	p.Guardrails = []gatepolicy.Margin{{Metric: "edit_rate", Margin: .03}, {Metric: "latency", Margin: .06}, {Metric: "questions", Margin: .25}}
	for i := range p.Harm {
		p.Harm[i].Margin = .9 // none ends the test
	}
	candidate := control
	candidate.kept = .75
	traffic := demoTraffic(units)
	traffic.Effects = map[string]float64{"kept_edits": .75/.72 - 1}
	f, err := Plan(p, traffic)
	require.NoError(t, err)
	planned := map[string]float64{}
	for _, o := range f.Metrics {
		planned[o.Metric+" win"] = o.WinPower
		planned[o.Metric+" guardrail"] = o.PassEffect
	}
	planned["ship"] = f.ShipEffect
	seen := map[string]float64{}
	r := rand.New(rand.NewPCG(11, 5))
	for range runs {
		v, _ := play(r, p, units, 1, candidate)
		for _, m := range v.Metrics {
			for _, test := range m.Tests {
				if test.Met {
					seen[m.Metric+" "+string(test.Name)] += 1. / runs
				}
			}
		}
		if v.Decision == Ship {
			seen["ship"] += 1. / runs
		}
	}
	for _, name := range []string{"kept_edits win", "edit_rate guardrail", "latency guardrail", "questions guardrail", "ship"} {
		t.Logf("%s: planned %.2f, seen %.2f", name, planned[name], seen[name])
		require.InDelta(t, planned[name], seen[name], .13, name) // three standard errors of 100 runs at .75 are .13
	}
}

func TestPlanSaysWhatSmallTrafficCanDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Policy, *Traffic)
		want   string
	}{
		{"hundreds of units: a longer test", func(_ *Policy, x *Traffic) { x.Units = 400 }, "a test of"},
		{"dozens: evals decide", func(_ *Policy, x *Traffic) { x.Units, x.Effects = 20, map[string]float64{"kept_edits": .03} }, "live evidence insufficient"},
		{"a wider margin", func(_ *Policy, x *Traffic) { x.Units, x.Effects = 2000, map[string]float64{"kept_edits": .05} }, "or a wider margin for latency"},
		{"an effect that isn't one", func(_ *Policy, x *Traffic) { x.Effects = map[string]float64{"kept_edits": -.05} }, "no traffic makes such a candidate ship"},
		{"no effect named", func(_ *Policy, x *Traffic) { x.Effects = nil }, "name the effects"},
		{"assumed bases are said", func(_ *Policy, x *Traffic) { x.Bases = nil }, "(base assumed)"},
		{"an absolute margin", func(p *Policy, _ *Traffic) {
			p.Guardrails = []gatepolicy.Margin{{Metric: "malformed_calls", Absolute: .003}}
		}, "malformed calls: an unchanged candidate keeps the margin of +15.0%"},
		{"do no harm", func(p *Policy, x *Traffic) { p.Mode, p.Success, x.Effects = gatepolicy.DoNoHarm, nil, nil }, "units are needed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, x := gatepolicy.Default(), demoTraffic(demoUnits)
			c.change(&p, &x)
			f, err := Plan(p, x)
			require.NoError(t, err)
			require.Contains(t, strings.Join(f.Sentences, "\n"), c.want)
		})
	}
}

func TestPlanRefusesImpossibleTraffic(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Traffic){
		func(x *Traffic) { x.Units = 0 },
		func(x *Traffic) { x.TurnsPerUnit = 0 },
		func(x *Traffic) { x.TurnsCV = -1 },
		func(x *Traffic) { x.ICC = 1.5 },
		func(x *Traffic) { x.EditShare = 0 },
		func(x *Traffic) { x.Bases = map[string]Base{"censored": {Value: .1}} },
		func(x *Traffic) { x.Bases = map[string]Base{"questions": {Value: 3}} },
		func(x *Traffic) { x.Bases = map[string]Base{"latency": {Value: 3}} },
		func(x *Traffic) { x.Effects = map[string]float64{"latency": -1} },
		func(x *Traffic) { x.Effects = map[string]float64{"speed": .1} },
	} {
		x := demoTraffic(10)
		change(&x)
		_, err := Plan(gatepolicy.Default(), x)
		require.Error(t, err)
	}
}

package gate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/gatepolicy"
)

const demoUnits = 4000

// demoTraffic is the demo's, with its better candidate.
func demoTraffic(units int) Traffic {
	return Traffic{
		Units: units, TurnsPerUnit: 4, TurnsCV: .87, EditShare: 1,
		Bases: map[string]Base{
			"kept_edits": {Value: .82 * .72}, "edit_rate": {Value: .82}, "latency": {SD: .9},
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
	require.Equal(t, Fits, f.Cycle.Fit)
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

// The design's chances of a candidate like Cursor's under the policy for many users, at a design effect of 2.
func TestTheLargePolicySeesWhatTheDesignSays(t *testing.T) {
	t.Parallel()
	text, _ := gatepolicy.ShippedText("large")
	p, err := gatepolicy.Parse(text)
	require.NoError(t, err)
	for sessions, ships := range map[int]float64{73_000: .06, 200_000: .45, 660_000: .95} {
		f, err := Plan(p, Traffic{
			Units: sessions / 2, TurnsPerUnit: 1, EditShare: 1,
			Bases:   map[string]Base{"kept_edits": {Value: .70}, "dissatisfied": {Value: .12}, "latency": {SD: .9}, "questions": {Value: .10}, "edit_rate": {Value: .60}, "malformed_calls": {Value: .02}},
			Effects: map[string]float64{"kept_edits": .0228, "dissatisfied": -.0313, "latency": -.103},
		})
		require.NoError(t, err)
		require.InDelta(t, ships, f.ShipEffect, .03, "%d sessions", sessions)
	}
}

func TestPlanSaysWhatSmallTrafficCanDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Policy, *Traffic)
		fit    Fit
		want   string
	}{
		{"enough", func(*Policy, *Traffic) {}, Fits, "this traffic suffices: a candidate with kept edits +9.4%"},
		{"a longer test", func(_ *Policy, x *Traffic) { x.Units = 600 }, Longer, "a test of 24.0 hours with about 4,215 units"},
		{"wider margins", func(p *Policy, x *Traffic) { x.Units, x.Effects = 60, map[string]float64{"kept_edits": .2} }, Wider, "and these margins: edit_rate 0.06, latency 0.1"},
		{"nothing to win", func(_ *Policy, x *Traffic) {
			x.Units, x.Pool, x.Effects = 150, 1200, map[string]float64{"kept_edits": .01}
		}, NoHarm, "and mode do_no_harm"},
		{"a cut by rows", func(_ *Policy, x *Traffic) { x.Units = 600 }, Longer, "its cycle: a cut by rows, at "},
		{"a handful: evals decide", func(_ *Policy, x *Traffic) {
			x.Units, x.Pool, x.Effects = 10, 40, map[string]float64{"kept_edits": .03}
		}, Insufficient, "evals and a person decide"},
		{"too few units in an arm", func(_ *Policy, x *Traffic) { x.Units = 300 }, Longer, "200 units in each arm, without which nothing ships, come in less than 0.1% of tests"},
		{"an effect that isn't one", func(_ *Policy, x *Traffic) { x.Effects = map[string]float64{"kept_edits": -.05} }, Never, "no traffic makes a candidate with kept edits -5.0% ship"},
		{"far beyond a margin", func(_ *Policy, x *Traffic) { x.Effects["latency"] = .5 }, Never, "or lies beyond a margin"},
		{"no effect named", func(_ *Policy, x *Traffic) { x.Units, x.Effects = 200_000, nil }, Fits, "kept edits +5.0% (assumed; --effect names yours)"},
		{"assumed bases are said", func(_ *Policy, x *Traffic) { x.Units, x.Bases = 50_000, nil }, Fits, "(base assumed)"},
		{"an absolute margin", func(p *Policy, x *Traffic) {
			x.Units = 50_000
			p.Guardrails = []gatepolicy.Margin{{Metric: "malformed_calls", Absolute: .003}}
		}, Fits, "malformed calls: an unchanged candidate keeps the margin of +15.0%"},
		{"do no harm", func(p *Policy, x *Traffic) {
			x.Units = 100_000
			p.Mode, p.Success, x.Effects = gatepolicy.DoNoHarm, nil, nil
		}, Fits, "this traffic suffices: an unchanged candidate ships"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, x := gatepolicy.Default(), demoTraffic(demoUnits)
			c.change(&p, &x)
			f, err := Plan(p, x)
			require.NoError(t, err)
			text := strings.Join(f.Sentences, "\n")
			require.Equal(t, c.fit, f.Cycle.Fit, text)
			require.Contains(t, text, c.want)
			require.NoError(t, f.Cycle.Policy.Validate())
			if c.fit != Insufficient && c.fit != Never {
				require.GreaterOrEqual(t, f.Cycle.ShipEffect, p.Power)
			}
		})
	}
}

func TestUnitsComeAgain(t *testing.T) {
	t.Parallel()
	x := Traffic{Units: 300, TurnsPerUnit: 4, Minutes: 300, Pool: 1000}
	week := x.Over(7 * 24 * 60)
	require.InDelta(t, 1000, week.Units, 1, "in a week all of them have come")
	require.InDelta(t, 300*4*33.6, float64(week.Units)*week.TurnsPerUnit, 1, "and with them the turns")
	require.Equal(t, week, week.Over(7*24*60))
	x.Pool = 0
	require.Equal(t, 10_080, x.Over(7*24*60).Units)
	x.Minutes = 0
	require.Equal(t, 300, x.Over(7*24*60).Units, "without a time it is the test's")
}

func TestPlanRefusesImpossibleTraffic(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Traffic){
		func(x *Traffic) { x.Units = 0 },
		func(x *Traffic) { x.TurnsPerUnit = 0 },
		func(x *Traffic) { x.TurnsCV = -1 },
		func(x *Traffic) { x.ICC = 1.5 },
		func(x *Traffic) { x.EditShare = 0 },
		func(x *Traffic) { x.Minutes = -1 },
		func(x *Traffic) { x.Pool = 5 },
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

// At the size that the plan names, losing that share of one arm's units is found as often as it says.
func TestLostUnitsAreFoundAtTheSizePromised(t *testing.T) {
	t.Parallel()
	p := gatepolicy.Default()
	for _, units := range []int{2000, 19_000, 21_000, 1_000_000} {
		f, err := Plan(p, demoTraffic(units))
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(uint64(units), 1))
		found := 0
		const runs = 1000
		for range runs {
			control := float64(units)/2 + math.Sqrt(float64(units))/2*r.NormFloat64()
			candidate := (float64(units) - control) * (1 - f.UnitLoss)
			e := Evidence{ExposedUnits: Arms{int64(control), int64(candidate)}, StartsAt: start, EndsAt: start.Add(time.Hour), CommittedThrough: start.Add(time.Hour)}
			if d, _ := Glance(p, e, nil); d == Invalid {
				found++
			}
		}
		t.Logf("%d units: %.2f %% lost, found in %.1f %%", units, 100*f.UnitLoss, 100*float64(found)/runs)
		require.InDelta(t, p.Power, float64(found)/runs, .05)
	}
	f, err := Plan(p, demoTraffic(1_000_000))
	require.NoError(t, err)
	require.Less(t, f.UnitLoss, .01, "a million units show that 1 % of one arm's are lost")
}

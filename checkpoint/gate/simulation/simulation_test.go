package simulation

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/gate"
	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// experiments of each candidate: few for every day; `make simulate` asks for thousands.
func experiments(t *testing.T) int {
	t.Helper()
	text := os.Getenv("MILLRACE_EXPERIMENTS")
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func small() gate.Traffic {
	return gate.Traffic{Units: 1600, TurnsPerUnit: 3, TurnsCV: 1, ICC: .1, EditShare: .7}
}

// wide are the shipped rules with guardrails that this traffic can see through, so that what is asked decides.
func wide() gate.Policy {
	p := gatepolicy.Default()
	p.Guardrails = []gatepolicy.Margin{{Metric: "edit_rate", Margin: .08}, {Metric: "latency", Margin: .2}}
	for i, m := range p.Harm {
		if g, ok := p.Guardrail(m.Metric); ok {
			p.Harm[i].Margin = g.Margin
		}
	}
	return p
}

func play(t *testing.T, p gate.Policy, traffic gate.Traffic, names ...string) []Tally {
	t.Helper()
	scenarios, err := Scenarios(p, traffic)
	require.NoError(t, err)
	scenarios, err = Only(scenarios, names)
	require.NoError(t, err)
	tallies, err := Run(context.Background(), p, traffic, scenarios, Options{Experiments: experiments(t), Seed: 7, Every: 1})
	require.NoError(t, err)
	for _, x := range tallies {
		t.Logf("%s (%s): SHIP %.4f ± %.4f of which early %.4f, HOLD %.4f, ROLLBACK %.4f ± %.4f, INVALID %.4f ± %.4f", x.Name, x.Text,
			x.Decisions[gate.Ship].Share, x.Decisions[gate.Ship].Error, x.Early.Share, x.Decisions[gate.Hold].Share,
			x.Decisions[gate.Rollback].Share, x.Decisions[gate.Rollback].Error, x.Decisions[gate.Invalid].Share, x.Decisions[gate.Invalid].Error)
	}
	return tallies
}

// The gate looks every minute, and what the policy and the plan say about it holds: an unchanged candidate, better ones
// of three sizes, harmful ones, each guardrail at its margin, a unit of 1,000 turns, lost units, lost events.
func TestWhatThePolicySaysHolds(t *testing.T) {
	t.Parallel()
	asked := 0
	for _, x := range play(t, wide(), small()) {
		for _, c := range x.Claims {
			asked++
			require.False(t, c.Broken, "%s: %+v", x.Name, c)
		}
	}
	require.Equal(t, 15, asked)
}

// A check that can't fail isn't one: of a policy with other rules than it is judged by, the claims are broken.
func TestBrokenClaimsAreSeen(t *testing.T) {
	t.Parallel()
	honest := wide()
	scenarios, err := Scenarios(honest, small())
	require.NoError(t, err)
	scenarios, err = Only(scenarios, []string{"unchanged", "harmful"})
	require.NoError(t, err)
	loose := honest
	loose.Alphas.Win, loose.Alphas.EarlyWin, loose.Alphas.Harm = .45, .45, 1e-9
	tallies, err := Run(context.Background(), loose, small(), scenarios, Options{Experiments: 40, Seed: 7, Every: 5})
	require.NoError(t, err)
	for _, x := range tallies {
		broken := false
		for _, c := range x.Claims {
			broken = broken || c.Broken
		}
		require.True(t, broken, "%+v", x)
	}
}

func TestTheSameSeedGivesTheSameReport(t *testing.T) {
	t.Parallel()
	o := Options{Experiments: 6, Seed: 3, Every: 10}
	scenarios := []Scenario{{Name: "x", Effects: map[string]float64{"latency": .05, "slow_turns": .5}, UnitLoss: .01}}
	first, err := Run(context.Background(), wide(), small(), scenarios, o)
	require.NoError(t, err)
	second, err := Run(context.Background(), wide(), small(), scenarios, o)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

// The moments beside the buckets give what the buckets give, but for a heavy one.
func TestMomentsAreThoseOfTheBuckets(t *testing.T) {
	t.Parallel()
	b := newBench()
	w := newWorld(wide(), small(), Scenario{})
	_, err := w.play(b, rand.New(rand.NewPCG(1, 2)), 1)
	require.NoError(t, err)
	b.sums.estimates(b.estimates)
	read := gate.Evidence{Metrics: b.sums.metrics()}.Estimate()
	require.Len(t, read, len(metric.All))
	for name, want := range read {
		got := b.estimates[name]
		require.Equal(t, want.Control.Clusters, got.Control.Clusters)
		require.InEpsilon(t, want.Control.Value, got.Control.Value, 1e-9, name)
		require.InEpsilon(t, want.Candidate.Var, got.Candidate.Var, 1e-6, name)
	}
}

// The drawn world is the one that the plan was asked about: the turns' mean and spread, the rates, and how turns of a
// unit hang together.
func TestTheWorldIsThatOfTheTraffic(t *testing.T) {
	t.Parallel()
	traffic := small()
	traffic.Units = 20_000
	w := newWorld(gatepolicy.Default(), traffic, Scenario{Effects: map[string]float64{"malformed_calls": 1}})
	r := rand.New(rand.NewPCG(1, 1))
	var sum, squares float64
	for range traffic.Units {
		n := float64(w.turns(r))
		sum += n
		squares += n * n
	}
	mean := sum / float64(traffic.Units)
	require.InDelta(t, traffic.TurnsPerUnit, mean, .1)
	require.InDelta(t, traffic.TurnsCV*traffic.TurnsPerUnit, sd(sum, squares, float64(traffic.Units)), .15)

	b := newBench()
	both, hits := 0., 0.
	for range traffic.Units {
		u := unit{arm: 1, bucket: int16(r.IntN(4096)), own: w.drawTurn(r)}
		var pair [2]float64
		for i := range pair {
			w.settle(b, r, &u, 0)
			pair[i] = b.parts[aborts].num
		}
		both += pair[0] * pair[1]
		hits += pair[0] + pair[1]
	}
	p := hits / float64(2*traffic.Units)
	require.InDelta(t, .06*(1-.004)*(1-.01), p, .005, "observed turns without a failure")
	require.InDelta(t, traffic.ICC, (both/float64(traffic.Units)-p*p)/(p*(1-p)), .03)
	b.sums.estimates(b.estimates)
	require.InDelta(t, .04, b.estimates["malformed_calls"].Candidate.Value, .004)
	require.InDelta(t, .05, b.estimates["slow_turns"].Candidate.Value, .004)
}

func sd(sum, squares, n float64) float64 {
	return math.Sqrt(squares/n - sum/n*sum/n)
}

func TestSimulationRefuses(t *testing.T) {
	t.Parallel()
	run := func(x gate.Traffic, o Options) error {
		_, err := Run(context.Background(), wide(), x, []Scenario{{Name: "x"}}, o)
		return err
	}
	require.ErrorContains(t, run(small(), Options{Experiments: 0, Every: 1}), "at least 1")
	require.ErrorContains(t, run(small(), Options{Experiments: 1, Every: 0}), "at least 1")
	few := small()
	few.TurnsPerUnit = .5
	require.ErrorContains(t, run(few, Options{Experiments: 1, Every: 1}), "turns per unit")
	_, err := Only([]Scenario{{Name: "a"}}, []string{"b"})
	require.ErrorContains(t, err, `no candidate "b"; there are a`)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Run(ended, wide(), small(), []Scenario{{Name: "x"}}, Options{Experiments: 1, Every: 1})
	require.ErrorIs(t, err, context.Canceled)
}

// At the size from which the plan promises it, 1 % of one arm's units that nobody sees are found.
func TestOnePercentOfTheUnitsIsMissed(t *testing.T) {
	t.Parallel()
	if os.Getenv("MILLRACE_EXPERIMENTS") == "" {
		t.Skip("a million units in every experiment: make simulate")
	}
	traffic := gate.Traffic{TurnsPerUnit: 1, EditShare: .6}
	low, high := 100_000, 4_000_000
	for high-low > 1000 {
		traffic.Units = (low + high) / 2
		f, err := gate.Plan(gatepolicy.Default(), traffic)
		require.NoError(t, err)
		if f.UnitLoss > .01 {
			low = traffic.Units
		} else {
			high = traffic.Units
		}
	}
	n := max(40, experiments(t)/10)
	tallies, err := Run(context.Background(), gatepolicy.Default(), traffic, []Scenario{
		{Name: "none lost"}, {Name: "1 % lost", UnitLoss: .01},
	}, Options{Experiments: n, Seed: 7, Every: 1})
	require.NoError(t, err)
	for _, x := range tallies {
		t.Logf("%d units, %s: INVALID %.3f ± %.3f of %d", traffic.Units, x.Name, x.Decisions[gate.Invalid].Share, x.Decisions[gate.Invalid].Error, n)
	}
	require.LessOrEqual(t, tallies[0].Decisions[gate.Invalid].Share, .04+3*tallies[0].Decisions[gate.Invalid].Error)
	require.GreaterOrEqual(t, tallies[1].Decisions[gate.Invalid].Share, .75-3*tallies[1].Decisions[gate.Invalid].Error)
}

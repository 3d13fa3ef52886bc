package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/gate"
	"millrace/schemas/gatepolicy"
)

// A team of some hundreds under the policy for it: an unchanged candidate ships, since nothing has to be won; one that
// makes everything as bad as the margins allow doesn't.
func TestSmallTeam(t *testing.T) {
	t.Parallel()
	text, _ := gatepolicy.ShippedText("small")
	p, err := gatepolicy.Parse(text)
	require.NoError(t, err)
	traffic := gate.Traffic{Units: 300, Minutes: 300, Pool: 1000, TurnsPerUnit: 4, TurnsCV: 1, ICC: .1, EditShare: .6}
	f, err := gate.Plan(p, traffic)
	require.NoError(t, err)
	require.Equal(t, gate.Fits, f.Cycle.Fit)
	edge := map[string]float64{}
	for _, g := range p.Guardrails {
		edge[g.Metric] = possible(traffic, g.Metric, -relative(traffic, g))
	}
	tallies, err := Run(t.Context(), p, traffic, []Scenario{{Name: "unchanged"}, {Name: "at every margin", Effects: edge}}, Options{Experiments: experiments(t), Seed: 7, Every: 60})
	require.NoError(t, err)
	unchanged, edged := tallies[0].Decisions[gate.Ship], tallies[1].Decisions[gate.Ship]
	t.Logf("unchanged ships %.3f ± %.3f (planned %.3f), at every margin %.3f ± %.3f", unchanged.Share, unchanged.Error, f.ShipUnchanged, edged.Share, edged.Error)
	require.InDelta(t, f.ShipUnchanged, unchanged.Share, planTolerance+3*unchanged.Error)
	require.LessOrEqual(t, edged.Share, p.Alphas.Guardrail+3*edged.Error)
}

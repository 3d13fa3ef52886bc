package reward

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/rewardspec"
)

func TestEffortCost(t *testing.T) {
	t.Parallel()
	require.InDelta(t, (math.Sqrt(5)-1)/.001, effortCost(2000, .002, .5), 1e-9)
	require.InDelta(t, math.Log(5)/.002, effortCost(2000, .002, 1), 1e-9)
	require.InDelta(t, 2000, effortCost(2000, 0, .5), 0)
	require.InDelta(t, 2000, effortCost(2000, .002, 0), 1e-9)
	require.Zero(t, effortCost(0, .002, .5))
	// Both limits are reached without a jump, from either side, and the nearer, the closer.
	require.InEpsilon(t, effortCost(2000, .002, 1), effortCost(2000, .002, 1-1e-12), 1e-9)
	require.InEpsilon(t, effortCost(2000, .002, 1), effortCost(2000, .002, 1+1e-12), 1e-9)
	require.InEpsilon(t, effortCost(2000, 0, .5), effortCost(2000, 1e-15, .5), 1e-9)
	for near := 1e-2; near > 1e-10; near /= 10 {
		require.InEpsilon(t, effortCost(2000, .002, 1), effortCost(2000, .002, 1-near), 1.5*near)
		require.InEpsilon(t, effortCost(2000, 0, .5), effortCost(2000, near/1000, .5), near)
	}
}

func TestEffort(t *testing.T) {
	t.Parallel()
	r := shipped(t)
	for _, c := range []struct {
		name  string
		facts Facts
		x     float64
	}{
		{"weights", Facts{
			"effort.thinking_tokens": 100, "effort.tool_argument_tokens": 200, "effort.tool_output_tokens": 1000,
			"effort.final_tokens": 50, "tools.calls": 3, "effort.steps": 2,
		}, 50 + 100 + 100 + 50 + 120 + 120},
		{"what is missing adds nothing", Facts{"effort.steps": 2}, 120},
		{"known to be none", Facts{"effort.final_tokens": 0}, 0},
		{"no more than the weight", Facts{"effort.final_tokens": 1e9}, 10_000},
	} {
		got := parts(r.Score(Input{Signals: c.facts.Signals()}))
		want := -.15 * effortCost(c.x, .002, .5) / effortCost(10_000, .002, .5)
		require.InDelta(t, want, got[rewardspec.EffortBlock], 1e-12, c.name)
	}
	_, known := parts(r.Score(Input{Signals: Facts{"effort.wall_s": 3}.Signals()}))[rewardspec.EffortBlock]
	require.False(t, known)
}

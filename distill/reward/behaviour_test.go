package reward

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/rewardspec"
)

func shipped(t testing.TB) *Reward {
	t.Helper()
	spec, _ := rewardspec.Default()
	r, err := Compile(spec, "digest", rewardspec.BaselineV0())
	require.NoError(t, err)
	return r
}

// The values of the design, to its own rounding. Equal ones may tie; everything else must fall strictly.
func TestBehaviourTable(t *testing.T) {
	t.Parallel()
	want := []float64{.90, .80, .63, .40, .33, -.03, -.42, -.65, -.69, -.83, -.83, -.99, -1.13, -1.19}
	r := shipped(t)
	behaviours := Behaviours(r)
	require.Len(t, behaviours, len(want))
	before := 2.
	for i, b := range behaviours {
		result := r.Score(b.Input)
		require.True(t, result.Evidence, b.Name)
		require.InDelta(t, want[i], result.Reward.Number, .01, b.Name)
		if i > 0 && want[i] == want[i-1] {
			require.InDelta(t, before, result.Reward.Number, 1e-12, b.Name)
		} else {
			require.Less(t, result.Reward.Number, before, b.Name)
		}
		before = result.Reward.Number
	}
}

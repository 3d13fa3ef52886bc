package account

import (
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/ledger"
)

func TestShares(t *testing.T) {
	t.Parallel()
	b := New()
	maps.Copy(b.Settled, map[Settled]int64{
		{"base", "control", ledger.Incomplete}:   10,
		{"base", "control", ledger.Rewarded}:     390,
		{"base", "", ledger.Incomplete}:          77,
		{"cand", "candidate", ledger.Incomplete}: 30,
		{"cand", "candidate", ledger.Rewarded}:   270,
		{"cand", "candidate", ledger.Faulted}:    0,
	})
	require.Equal(t, []Share{
		{"base", "", ledger.Incomplete, 77, 77, 1},
		{"base", "control", ledger.Rewarded, 390, 400, .975},
		{"base", "control", ledger.Incomplete, 10, 400, .025},
		{"cand", "candidate", ledger.Rewarded, 270, 300, .9},
		{"cand", "candidate", ledger.Incomplete, 30, 300, .1},
	}, b.Shares(), "turns outside of the test are no arm's")

	c, ok := b.Compare("base", "cand", ledger.Incomplete)
	require.True(t, ok)
	require.InDelta(t, .075, c.Difference, 1e-12)
	p, q := 11./402, 31./302
	require.InDelta(t, 1.96*math.Sqrt(p*(1-p)/402+q*(1-q)/302), c.Chance, 1e-12)
	require.InDelta(t, .038, c.Chance, .001)

	c, ok = b.Compare("base", "cand", ledger.Faulted)
	require.True(t, ok)
	require.Zero(t, c.Difference)
	require.Positive(t, c.Chance, "nothing seen is not nothing possible")
	_, ok = b.Compare("base", "other", ledger.Faulted)
	require.False(t, ok)
	require.Empty(t, New().Shares())
}

package correlation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRanks(t *testing.T) {
	t.Parallel()
	require.Equal(t, []float64{4, 1.5, 3, 1.5}, ranks([]float64{9, -1, 3, -1}))
	require.Empty(t, ranks(nil))
}

func TestCorrelations(t *testing.T) {
	t.Parallel()
	require.Nil(t, Pearson([]float64{1, 2}, []float64{1, 2}), "of two it would always be 1")
	require.Nil(t, Pearson([]float64{1, 1, 1}, []float64{1, 2, 3}), "one that doesn't vary goes with nothing")
	require.InDelta(t, 1, *Spearman([]float64{1, 2, 3, 4}, []float64{1, 8, 27, 64}), 1e-12)
	require.InDelta(t, -1, *Spearman([]float64{1, 2, 3}, []float64{3, 0, -9}), 1e-12)
	require.InDelta(t, .6, *Spearman([]float64{1, 2, 3, 4}, []float64{2, 1, 4, 3}), 1e-12) // 1 − 6·4/(4·15)
}

package cut

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func turns(n, units int) []turn {
	out := make([]turn, n)
	for i := range out {
		id := fmt.Sprintf("turn-%d", i)
		out[i] = turn{place: place("seed", id), id: id, unit: fmt.Sprintf("unit-%d", i%units), rows: 1 + i%3, bytes: 100, shard: i % 4, first: i}
	}
	return out
}

func rowsOf(ts []turn) (n int64) {
	for _, t := range ts {
		n += int64(t.rows)
	}
	return n
}

func TestOrderIsSeededAndIndependentOfReading(t *testing.T) {
	t.Parallel()
	a, b := turns(500, 20), turns(500, 20)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
	order(a)
	order(b)
	require.Equal(t, a, b)
	require.NotEqual(t, turns(500, 20), a)
	require.NotEqual(t, place("seed", "turn-1"), place("other seed", "turn-1"))
}

func TestLimit(t *testing.T) {
	t.Parallel()
	ts := turns(300, 3) // three units with 100, 200 and 300 rows
	order(ts)
	for name, c := range map[string]struct {
		share float64
		floor int64
		most  int64
	}{
		"no cap":              {share: 1, most: 300},
		"a share of all rows": {share: .25, most: 150},
		"the floor is higher": {share: .01, floor: 120, most: 120},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept, capped := limit(ts, c.share, c.floor)
			require.Equal(t, rowsOf(ts), rowsOf(kept)+capped)
			used := map[string]int64{}
			for _, k := range kept {
				used[k.unit] += int64(k.rows)
			}
			for unit, n := range used {
				require.LessOrEqual(t, n, c.most, unit)
			}
		})
	}
	without := turns(30, 1)
	for i := range without {
		without[i].unit = ""
	}
	kept, capped := limit(without, .01, 1)
	require.Len(t, kept, 30)
	require.Zero(t, capped)
}

func TestSplit(t *testing.T) {
	t.Parallel()
	ts := turns(10, 2)
	ts[4].bytes = 1000
	parts := split(ts, 300)
	var sizes []int
	var joined []turn
	for _, p := range parts {
		sizes = append(sizes, len(p))
		joined = append(joined, p...)
	}
	require.Equal(t, []int{3, 1, 1, 3, 2}, sizes, "a turn that is larger than a part gets its own")
	require.Equal(t, ts, joined)
	require.Empty(t, split(nil, 300))
}

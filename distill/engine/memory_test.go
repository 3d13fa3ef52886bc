package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	n := &numbers{}
	for _, x := range []uint64{5, 6, 9, 8, 2, 6, 3, 1, 20} {
		n.add(x)
	}
	require.Equal(t, [][2]uint64{{1, 3}, {5, 6}, {8, 9}, {20, 20}}, n.Runs)
	n.add(7)
	require.Equal(t, [][2]uint64{{1, 3}, {5, 9}, {20, 20}}, n.Runs, "a number that joins two runs")
	require.EqualValues(t, 20, n.last())
	for _, c := range []struct {
		from, to, lo, hi uint64
		missing          bool
	}{
		{1, 3, 0, 0, false},
		{1, 4, 4, 4, true},
		{1, 9, 4, 4, true},
		{5, 9, 0, 0, false},
		{6, 20, 10, 19, true},
		{6, 15, 10, 15, true},
		{10, 12, 10, 12, true},
		{20, 22, 21, 22, true},
		{30, 30, 30, 30, true},
	} {
		lo, hi, missing := n.gap(c.from, c.to)
		require.Equal(t, c.missing, missing, c)
		if missing {
			require.Equal(t, []uint64{c.lo, c.hi}, []uint64{lo, hi}, c)
		}
	}
}

func TestMemoryForgetsWhatIsOlderThanTheWindow(t *testing.T) {
	t.Parallel()
	m := newMemory()
	for i := range 5000 {
		m.add(memoryKey{byte(i), byte(i >> 8)}, uint64(i), int64(i))
	}
	m.forget(4000)
	known, same := m.look(memoryKey{160 /* 4000 */, 15}, 4000)
	require.True(t, known && same, "as old as the window")
	known, same = m.look(memoryKey{160, 15}, 1)
	require.True(t, known && !same, "another digest")
	known, _ = m.look(memoryKey{159, 15}, 3999)
	require.False(t, known, "older")
	require.Len(t, m.digests, 1000)
	require.Len(t, m.order[m.head:], 1000)
}

// Keys of settled turns are kept for so many whole hours, those of imported ones for good.
func TestKeepers(t *testing.T) {
	t.Parallel()
	k := newKeepers()
	k.add(1, 10*hour, false)
	k.add(2, 12*hour+5, false)
	k.add(3, 10*hour, true)
	k.forget(10*hour + 59)
	require.True(t, k.has(1))
	k.forget(11 * hour)
	require.False(t, k.has(1))
	require.True(t, k.has(2))
	k.forget(1000 * hour)
	require.False(t, k.has(2))
	require.True(t, k.has(3))
	k.add(4, 1001*hour, false)
	k.forget(1001 * hour)
	require.True(t, k.has(4), "after a time without any")
	k.forget(1002 * hour)
	require.False(t, k.has(4))
	require.Equal(t, map[uint64]int64{3: forever}, k.hours)
}

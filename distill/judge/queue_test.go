package judge

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	dropped := 0
	q := newQueue(2, func(n int) { dropped += n })
	var clock atomic.Int64
	ask := func(id string, settles int64) waiting { return waiting{&Ask{TurnID: id, settles: settles}, &clock} }
	takes := func(id string) waiting {
		t.Helper()
		require.True(t, q.await(t.Context()))
		w, ok := q.take()
		require.True(t, ok)
		require.Equal(t, id, w.TurnID)
		return w
	}
	require.True(t, q.offer(ask("a", 10)))
	require.True(t, q.offer(ask("b", 20)))
	require.False(t, q.offer(ask("c", 30)), "full")

	// Whom nobody answered is the next again; whoever was removed meanwhile isn't.
	a := takes("a")
	q.back(a)
	a = takes("a")
	require.Equal(t, 1, q.remove(func(x *Ask) bool { return x.TurnID == "a" }))
	require.Zero(t, q.remove(func(x *Ask) bool { return x.TurnID == "a" }), "counted once")
	q.back(a)
	q.done(takes("b"))
	require.Empty(t, q.taken)
	require.Zero(t, q.length())

	// What is too late makes room, and is not taken.
	require.True(t, q.offer(ask("d", 40)))
	require.True(t, q.offer(ask("e", 50)))
	clock.Store(40)
	require.True(t, q.offer(ask("f", 60)))
	require.Equal(t, 1, dropped)
	clock.Store(50)
	takes("f")
	require.Equal(t, 2, dropped)
	require.True(t, q.offer(ask("g", 50)))
	_, ok := q.take()
	require.False(t, ok)

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, q.await(stopped))
}

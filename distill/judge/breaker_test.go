package judge

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(time.Second)
		began := time.Now()
		passed := func() time.Duration { return time.Since(began) }
		for i := range failuresToOpen {
			require.True(t, b.wait(t.Context()))
			require.Zero(t, passed(), "nobody waits before it opens")
			require.Equal(t, i == failuresToOpen-1, b.failed())
		}
		require.True(t, b.open())
		for _, rest := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
			began = time.Now()
			require.True(t, b.wait(t.Context()))
			require.Equal(t, rest, passed())
			require.False(t, b.failed())
		}

		// One tries, the others wait for what comes of it.
		ready := make(chan string, 3)
		for _, who := range []string{"a", "b", "c"} {
			go func() {
				if b.wait(t.Context()) {
					ready <- who
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, ready, 1)
		b.release() // it made no use of its turn: the next one has it
		synctest.Wait()
		require.Len(t, ready, 2)
		require.True(t, b.answered())
		synctest.Wait()
		require.Len(t, ready, 3)
		require.False(t, b.open())
		require.False(t, b.answered())

		for range failuresToOpen {
			b.failed()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.False(t, b.wait(ctx))
	})
}

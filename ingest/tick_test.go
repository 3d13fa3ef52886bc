package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/ingest"
	"millrace/internal/eventlog"
)

func TestTicks(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{Name: "g1"})
	require.NoError(t, b.gateway.Tick(t.Context()))
	require.Len(t, b.ticks, 1)
	require.Equal(t, fmt.Sprintf("tick:g1:%d", b.now.UnixMilli()), b.ticks[0].Id)
	require.NotNil(t, b.ticks[0].GetTick())
	b.now = b.now.Add(5 * time.Second)
	require.NoError(t, b.gateway.Tick(t.Context()))
	require.NotEqual(t, b.ticks[0].Id, b.ticks[1].Id)

	b.tickErr, b.probe = errors.New("refused"), errors.New("refused")
	require.ErrorContains(t, b.gateway.Tick(t.Context()), "refused")
	b.tickErr = nil
	require.ErrorContains(t, b.gateway.Tick(t.Context()), "accepts nothing")
	require.Len(t, b.ticks, 2, "none while the gateway doesn't accept")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, b.gateway.Run(ctx))
	require.ErrorContains(t, b.gateway.Tick(t.Context()), "shutting down")
	_, answer := b.send(t, "application/json", ended("a"))
	require.Equal(t, "retry", statuses(answer))
}

// Who notices first that the log is back must not matter: emitters have the whole pause to send again.
func TestNoTickForAWhileAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hold  time.Duration
		ticks int
	}{"held": {time.Hour, 0}, "not held": {-1, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, ingest.Config{TickHold: c.hold})
			refused := errors.New("connection refused")
			b.log.fail = func(eventlog.Message) error { return refused }
			_, answer := b.send(t, "application/json", ended("a"))
			require.Equal(t, "retry", statuses(answer))
			b.log.fail = nil
			require.Eventually(t, func() bool { return b.gateway.Ready(t.Context()) == nil }, 10*time.Second, 50*time.Millisecond)
			for range 3 {
				require.NoError(t, b.gateway.Tick(t.Context()))
			}
			require.Len(t, b.ticks, 3*c.ticks)
		})
	}
}

func TestATickThatOnePartitionRefusesIsNoOutage(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	b.tickErr = errors.New("not in 1 of 8 partitions")
	require.ErrorIs(t, b.gateway.Tick(t.Context()), b.tickErr)
	require.Equal(t, http.StatusOK, b.do(t, http.MethodGet, "/readyz", nil).Code)
	_, answer := b.send(t, "application/json", ended("a"))
	require.Equal(t, "accepted", statuses(answer))
	require.Empty(t, b.logged.String())
}

// Time must not pass while nobody is let in; who is inside already is still served.
func TestNoTicksOnceTheServerStops(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{TickEvery: time.Millisecond})
	begun := make(chan struct{}, 1000)
	b.ticking = func(ctx context.Context) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- b.gateway.Run(ctx) }()
	<-begun
	close(b.stop)
	require.Eventually(t, func() bool { return b.do(t, http.MethodGet, "/readyz", nil).Code == http.StatusServiceUnavailable }, 10*time.Second, time.Millisecond)
	require.ErrorContains(t, b.gateway.Tick(t.Context()), "shutting down")
	_, answer := b.send(t, "application/json", ended("a"))
	require.Equal(t, "accepted", statuses(answer))
	cancel()
	require.NoError(t, <-ran)
	require.Empty(t, begun)
	require.Empty(t, b.logged.String(), "a tick that was broken off is no outage")
}

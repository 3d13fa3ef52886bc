package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/ingest"
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

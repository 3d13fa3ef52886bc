package eventlog

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnsureTwice(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 3)
	require.NoError(t, Ensure(deadline(t), cfg))
	for name, partitions := range map[string]int{"events": 3, "events.dead": 1, "millrace.checkpoints": 1} {
		require.Len(t, broker.PartitionInfos(name), partitions, name)
	}
	cfg.Partitions = 4
	require.ErrorContains(t, Ensure(deadline(t), cfg), "has 3 partitions, wanted are 4")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 3)
	wrong, err := Check(deadline(t), cfg)
	require.NoError(t, err)
	require.Empty(t, wrong)

	cfg.Retention = 30 * 24 * time.Hour
	wrong, err = Check(deadline(t), cfg)
	require.NoError(t, err)
	require.Empty(t, wrong, "how long the log is kept beyond the least is the operator's choice")

	require.NoError(t, broker.DeleteTopic("events.dead"))
	cfg.Partitions = 5
	wrong, err = Check(deadline(t), cfg)
	require.NoError(t, err)
	require.Contains(t, wrong, "topic events.dead does not exist; `millrace migrate` makes it")
	require.Contains(t, wrong, "topic events has 3 partitions, configured are 5")
	retention := setting{name: "retention.ms"}
	require.False(t, retention.fits("3600000"))
	require.True(t, retention.fits("-1"))
}

func TestEnsureWaitsForABroker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := Ensure(ctx, Config{Brokers: []string{"127.0.0.1:1"}, Topic: "events"})
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.ErrorContains(t, err, "refused")
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"no broker":    {Topic: "events"},
		"no topic":     {Brokers: []string{"b:1"}},
		"a bad topic":  {Brokers: []string{"b:1"}, Topic: "a b"},
		"negative":     {Brokers: []string{"b:1"}, Topic: "events", Partitions: -1},
		"bad as reply": {Brokers: []string{"b:1"}, Topic: "événements"},
	} {
		require.Error(t, cfg.Validate(), name)
		_, err := NewReader(cfg)
		require.Error(t, err, name)
		_, err = NewWriter(cfg, cfg.Topic)
		require.Error(t, err, name)
	}
}

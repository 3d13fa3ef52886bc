package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/internal/embedded"
	"millrace/internal/eventlog"
)

// A topic that isn't as it must be ends the role before it has read a record; a Kafka that is away holds up only readers.
func TestRolesLookAtTheTopics(t *testing.T) {
	t.Parallel()
	broker, err := embedded.StartKafka(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, broker.Close()) })
	right := eventlog.Config{Brokers: broker.Brokers(), Topic: defaultTopic, Partitions: 2}
	require.NoError(t, eventlog.Ensure(t.Context(), right))
	wrong, away := right, right
	wrong.Topic, wrong.Retention = "short", time.Hour
	require.NoError(t, eventlog.Ensure(t.Context(), wrong))
	away.Brokers = []string{"127.0.0.1:1"}

	for name, c := range map[string]struct {
		cfg     eventlog.Config
		reads   bool
		runs    bool
		problem string
	}{
		"right":            {right, true, true, ""},
		"wrong":            {wrong, true, false, "topic short: retention.ms is 3600000"},
		"wrong, for all":   {wrong, false, true, "retention.ms"},
		"away":             {away, false, true, ""},
		"away, for reader": {away, true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if name == "away, for reader" {
				ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond) // nothing tells that it waits
				defer cancel()
			}
			ran := make(chan struct{})
			r := role{reads: c.reads, run: func(ctx context.Context) error {
				close(ran)
				if c.problem == "" {
					cancel()
				}
				<-ctx.Done()
				return nil
			}}
			err := r.onTopics(&parts{cfg: c.cfg, logger: slog.New(slog.DiscardHandler)}).run(ctx)
			if c.problem == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.problem)
			}
			select {
			case <-ran:
				require.True(t, c.runs)
			default:
				require.False(t, c.runs)
			}
		})
	}
}

package eventlog

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestFetchSkipsWhatLiesBefore(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 1)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	requireDurable(t, w.Write(deadline(t), numbered(0, 50)...)) // one batch
	records, err := r.Fetch(deadline(t), 0, 20)
	require.NoError(t, err)
	require.Len(t, records, 30)
	require.EqualValues(t, 20, records[0].Offset)
	require.Equal(t, "20", string(records[0].Value))
}

func TestFetchAtTheEnd(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 1)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	records, err := r.Fetch(deadline(t), 0, 0)
	require.NoError(t, err)
	require.Empty(t, records)

	// A long poll is answered when something comes.
	requireDurable(t, w.Write(deadline(t), numbered(0, 1)...))
	records, err = r.Fetch(deadline(t), 0, 0)
	require.NoError(t, err)
	require.Len(t, records, 1)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Fetch(ctx, 0, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, Retryable(err))
}

func TestFetchedBytesAreTheCallers(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 1)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	requireDurable(t, w.Write(deadline(t), numbered(0, 100)...))
	first := readAll(t, r, 0, 0)
	want := values(first)
	for range 20 { // kafka-go's page buffers go round
		for _, record := range readAll(t, r, 0, 0) {
			clear(record.Value)
			_ = append(record.Key, 'x')
		}
	}
	require.Equal(t, want, values(first))
}

func TestPositionLost(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 1)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	requireDurable(t, w.Write(deadline(t), numbered(0, 10)...))
	require.NoError(t, broker.DeleteRecords("events", 0, 6))
	for _, offset := range []int64{0, 5, 11, 1 << 40} {
		_, err := r.Fetch(deadline(t), 0, offset)
		require.ErrorIs(t, err, ErrPositionLost)
		require.ErrorContains(t, err, "the log holds 6 up to 10")
		require.False(t, Retryable(err))
	}
	records, err := r.Fetch(deadline(t), 0, 6)
	require.NoError(t, err)
	require.Len(t, records, 4)
	first, next, err := r.Bounds(deadline(t), 0)
	require.NoError(t, err)
	require.Equal(t, []int64{6, 10}, []int64{first, next})
}

func TestNewTopicIsRetryableThenMissing(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 1)
	cfg.Topic = "other"
	r := openReader(t, cfg)
	_, err := r.Fetch(deadline(t), 0, 0)
	require.Error(t, err)
	require.True(t, Retryable(err), "%v", err)
	_, _, err = r.Bounds(deadline(t), 0)
	require.True(t, Retryable(err), "%v", err)
	_, err = r.Partitions(deadline(t))
	require.True(t, Retryable(err), "%v", err)

	r.gone.mu.Lock()
	r.gone.since = time.Now().Add(-2 * topicMissingAfter)
	r.gone.mu.Unlock()
	_, err = r.Fetch(deadline(t), 0, 0)
	require.ErrorIs(t, err, ErrTopicMissing)
	require.False(t, Retryable(err))
}

func TestReaderOfNoBroker(t *testing.T) {
	t.Parallel()
	r := openReader(t, Config{Brokers: []string{"127.0.0.1:1"}, Topic: "events"})
	_, err := r.Fetch(deadline(t), 0, 0)
	require.ErrorContains(t, err, "connection refused")
	require.True(t, Retryable(err))
}

func TestReachable(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 3)
	r := openReader(t, cfg)
	require.NoError(t, r.Reachable(deadline(t)))
	broker.Close()
	n, err := r.Partitions(deadline(t))
	require.NoError(t, err, "known from before")
	require.Equal(t, 3, n)
	require.ErrorContains(t, r.Reachable(deadline(t)), "no partition's leader answers")
}

func TestParallelPolls(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 6)
	r := openReader(t, cfg)
	start := time.Now()
	done := make(chan error, 6)
	for p := range int32(6) {
		go func() {
			_, err := r.Fetch(deadline(t), p, 0)
			done <- err
		}()
	}
	for range 6 {
		require.NoError(t, <-done)
	}
	require.Less(t, time.Since(start), 5*maxWait, "the polls don't queue behind each other")
}

func TestLowWatermark(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 2, kfake.NumBrokers(1))
	r := openReader(t, cfg)
	require.NoError(t, r.CommitLowWatermark(deadline(t), 1, 17))
	require.NoError(t, r.CommitLowWatermark(deadline(t), 1, 12), "backward is fine")
	require.EqualValues(t, 12, broker.GroupInfo(Group).Commits["events"][1].Offset)
	n, err := r.Partitions(deadline(t))
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

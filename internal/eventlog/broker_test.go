package eventlog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startBroker starts a broker with the topics made.
func startBroker(t *testing.T, partitions int, options ...kfake.Opt) (*kfake.Cluster, Config) {
	t.Helper()
	broker, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	cfg := Config{Brokers: broker.ListenAddrs(), Topic: "events", Partitions: partitions, ClientID: t.Name()}
	require.NoError(t, Ensure(deadline(t), cfg))
	return broker, cfg
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func openWriter(t *testing.T, cfg Config, topic string) *Writer {
	t.Helper()
	w, err := NewWriter(cfg, topic)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

func openReader(t *testing.T, cfg Config) *Reader {
	t.Helper()
	r, err := NewReader(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func requireDurable(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		require.NoError(t, err, "message %d", i)
	}
}

// readAll reads a partition from offset up to its end as it is now.
func readAll(t *testing.T, r *Reader, partition int32, offset int64) []Record {
	t.Helper()
	ctx := deadline(t)
	_, next, err := r.Bounds(ctx, partition)
	require.NoError(t, err)
	var all []Record
	for offset < next {
		records, err := r.Fetch(ctx, partition, offset)
		require.NoError(t, err)
		all = append(all, records...)
		if len(records) > 0 {
			offset = records[len(records)-1].Offset + 1
		}
	}
	return all
}

func numbered(partition int32, n int) []Message {
	messages := make([]Message, n)
	for i := range messages {
		messages[i] = Message{Partition: partition, Key: fmt.Appendf(nil, "k%d", i%7), Value: fmt.Appendf(nil, "%d", i)}
	}
	return messages
}

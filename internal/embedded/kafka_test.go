package embedded

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/internal/eventlog"
)

func TestKafkaKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, err := StartKafka(dir, 0)
	require.NoError(t, err)
	require.Len(t, k.Brokers(), 1)
	host, number, err := net.SplitHostPort(k.Brokers()[0])
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	port, err := strconv.Atoi(number)
	require.NoError(t, err)

	cfg := eventlog.Config{Brokers: k.Brokers(), Topic: "events", Partitions: 2}
	require.NoError(t, eventlog.Ensure(deadline(t), cfg))
	w, err := eventlog.NewWriter(cfg, cfg.Topic)
	require.NoError(t, err)
	require.Equal(t, []error{nil}, w.Write(deadline(t), eventlog.Message{Partition: 1, Value: []byte("kept")}))
	require.NoError(t, w.Close())

	_, err = StartKafka(dir, 0)
	require.ErrorIs(t, err, ErrInUse)
	_, err = StartKafka(t.TempDir(), port)
	require.ErrorContains(t, err, "port "+number+" of 127.0.0.1 is taken")
	require.NoError(t, k.Close())

	k, err = StartKafka(dir, port)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(k.Brokers()[0], ":"+number))
	r, err := eventlog.NewReader(cfg)
	require.NoError(t, err)
	records, err := r.Fetch(deadline(t), 1, 0)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, "kept", string(records[0].Value))
	require.NoError(t, r.Close())
	require.NoError(t, k.Close())

	_, err = StartKafka(dir, -1)
	require.Error(t, err)
}

package eventlog

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

// What only a real broker does. MILLRACE_TEST_KAFKA is its address, as `deploy/kafka4.sh start` prints it.
func TestKafka4(t *testing.T) {
	t.Parallel()
	brokers := os.Getenv("MILLRACE_TEST_KAFKA")
	if brokers == "" {
		t.Skip("MILLRACE_TEST_KAFKA names no Kafka; deploy/kafka4.sh starts one")
	}
	cfg := Config{
		Brokers: strings.Split(brokers, ","), Topic: "test-" + strings.ToLower(rand.Text()[:10]),
		Partitions: 4, ReplicationFactor: min(3, len(strings.Split(brokers, ","))),
	}
	require.NoError(t, Ensure(deadline(t), cfg))
	require.NoError(t, Ensure(deadline(t), cfg))
	wrong, err := Check(deadline(t), cfg)
	require.NoError(t, err)
	require.Empty(t, wrong)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)

	// The broker refuses a time far ahead of its clock, and with it the batch; the neighbours pass all the same.
	messages := numbered(0, 40)
	for i := range messages {
		messages[i].Time = time.Now()
	}
	messages[7].Time = time.Now().Add(time.Minute)
	messages[23].Time = time.Now().Add(time.Hour)
	messages[30].Time = time.Now().Add(-24 * time.Hour)
	for i, err := range w.Write(deadline(t), messages...) {
		if i == 7 || i == 23 {
			require.ErrorIs(t, err, kafka.InvalidTimestamp)
		} else {
			require.NoError(t, err, "message %d", i)
		}
	}
	require.Len(t, readAll(t, r, 0, 0), 38)

	// The largest message of all, which doesn't compress.
	large := make([]byte, MaxMessageBytes-recordOverhead)
	_, _ = rand.Read(large)
	requireDurable(t, w.Write(deadline(t), Message{Partition: 1, Value: large}, Message{Partition: 1, Value: []byte("next")}))
	got := readAll(t, r, 1, 0)
	require.Len(t, got, 2)
	require.Equal(t, large, got[0].Value)
	dead := openWriter(t, cfg, cfg.DeadLetterTopic())
	requireDurable(t, dead.Write(deadline(t), Message{Partition: 0, Value: large, Headers: []Header{{"reason", make([]byte, 4096)}}}))

	_, err = r.Fetch(deadline(t), 1, 3)
	require.ErrorIs(t, err, ErrPositionLost)
	require.ErrorContains(t, err, "the log holds 0 up to 2")
	require.NoError(t, r.CommitLowWatermark(deadline(t), 1, 2))

	k := newKeyring(t, "a")
	record := &event.ControlRecord{Id: "c", Body: &event.ControlRecord_Tick{Tick: &event.Tick{}}}
	require.NoError(t, WriteControl(deadline(t), w, k, cfg, record, time.Now()))
	for p, at := range []int64{38, 2, 0, 0} {
		records := readAll(t, r, int32(p), at)
		require.Len(t, records, 1)
		_, control, reject := Decode(records[0], k, 4)
		require.Empty(t, reject)
		require.Equal(t, "c", control.GetId())
	}
}

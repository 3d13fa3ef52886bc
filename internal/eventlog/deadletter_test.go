package eventlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeadLetterKeepsItsRecord(t *testing.T) {
	t.Parallel()
	for name, original := range map[string]Record{
		"an event":           {Key: []byte("s1"), Value: []byte("broken"), Headers: []Header{{ContentTypeHeader, []byte(eventContentType)}}},
		"no headers":         {Key: []byte("s1"), Value: []byte("broken")},
		"a tombstone":        {Key: []byte("s1")},
		"a letter of before": {Value: []byte("x"), Headers: []Header{{reasonHeader, []byte("other")}, {offsetHeader, []byte("1")}}},
	} {
		original.Topic, original.Partition, original.Offset, original.Time = "events", 3, 1<<40, time.UnixMilli(1_800_000_000_000).UTC()
		m := DeadLetter{Record: original, Reason: "misrouted"}.Message()
		back, ok := ReadDeadLetter(Record{Topic: "events.dead", Offset: 7, Time: m.Time, Key: m.Key, Value: m.Value, Headers: m.Headers})
		require.True(t, ok, name)
		require.Equal(t, "misrouted", back.Reason, name)
		require.Len(t, back.Headers, len(original.Headers), name)
		original.Headers, back.Headers = nil, nil
		require.Equal(t, original, back.Record, name)
	}
	_, ok := ReadDeadLetter(Record{Value: []byte("x"), Headers: []Header{{reasonHeader, nil}}})
	require.False(t, ok)
}

func TestDeadLetterAgain(t *testing.T) {
	t.Parallel()
	m, ok := DeadLetter{Record: Record{Partition: 3, Key: []byte("s1"), Value: []byte("x"), Time: time.Now()}}.Again()
	require.True(t, ok)
	require.Equal(t, Message{Partition: AnyPartition, Key: []byte("s1"), Value: []byte("x")}, m)
	_, ok = DeadLetter{Record: Record{Key: []byte("control:tick"), Value: []byte("x")}}.Again()
	require.False(t, ok, "signed for one place")
}

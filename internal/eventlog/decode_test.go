package eventlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/schemas/event"
)

func endedSession() *event.SessionEvent {
	return &event.SessionEvent{
		Source: "ide", EventId: "e1", SessionId: "s1", Sequence: 3,
		OccurredAt: timestamppb.New(time.UnixMilli(1_800_000_000_000)),
		Body:       &event.SessionEvent_SessionEnded{SessionEnded: &event.SessionEnded{Reason: "closed"}},
	}
}

// landed is a message as it comes back from its place.
func landed(m Message, partitions int) Record {
	return Record{
		Topic: "events", Partition: PartitionOf(m.Key, partitions), Time: m.Time, Key: m.Key, Value: m.Value, Headers: m.Headers,
	}
}

func TestDecodeEvent(t *testing.T) {
	t.Parallel()
	e := endedSession()
	m, err := EventMessage(e, time.UnixMilli(1_800_000_000_000))
	require.NoError(t, err)
	require.Equal(t, AnyPartition, m.Partition)
	r := landed(m, 8)
	got, control, reject := Decode(r, nil, 8)
	require.Empty(t, reject)
	require.Nil(t, control)
	require.True(t, proto.Equal(e, got))

	// Other writers put it in other words.
	for _, content := range []string{
		"Application/X-Protobuf;proto=millrace.events.v1.SessionEvent",
		`application/x-protobuf; proto="millrace.events.v1.SessionEvent"; charset=binary`,
	} {
		r.Headers = []Header{{ContentTypeHeader, []byte(content)}}
		_, _, reject = Decode(r, nil, 8)
		require.Empty(t, reject, content)
	}
}

func TestDecodeRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Record)
		want   string
	}{
		"tombstone":                {func(r *Record) { r.Value = nil }, RejectTombstone},
		"tombstone without header": {func(r *Record) { r.Value, r.Headers = nil, nil }, RejectTombstone},
		"no content type":          {func(r *Record) { r.Headers = nil }, RejectContentType},
		"JSON": {func(r *Record) {
			r.Headers, r.Value = []Header{{ContentTypeHeader, []byte("application/json")}}, []byte("{}")
		}, RejectContentType},
		"another message": {func(r *Record) {
			r.Headers = []Header{{ContentTypeHeader, []byte("application/x-protobuf; proto=millrace.events.v1.EventBatch")}}
		}, RejectContentType},
		"a registry's magic byte": {func(r *Record) { r.Value = append([]byte{0, 0, 0, 0, 1}, r.Value...) }, RejectUndecodable},
		"cut short":               {func(r *Record) { r.Value = r.Value[:len(r.Value)-1] }, RejectUndecodable},
		"another key":             {func(r *Record) { r.Key = []byte("s2") }, RejectKeyMismatch},
		"no key":                  {func(r *Record) { r.Key = nil }, RejectKeyMismatch},
		"another partition":       {func(r *Record) { r.Partition = (r.Partition + 1) % 8 }, RejectMisrouted},
	} {
		m, err := EventMessage(endedSession(), time.Now())
		require.NoError(t, err)
		r := landed(m, 8)
		c.change(&r)
		ev, control, reject := Decode(r, nil, 8)
		require.Equal(t, c.want, reject, name)
		require.Nil(t, ev, name)
		require.Nil(t, control, name)
	}
}

func FuzzDecode(f *testing.F) {
	k, err := NewKeyring(map[string][]byte{"a": []byte("the first secret key")}, "a")
	require.NoError(f, err)
	m, err := EventMessage(endedSession(), time.Now())
	require.NoError(f, err)
	control, err := (&event.ControlRecord{Id: "c", Body: &event.ControlRecord_ConfigAdopted{ConfigAdopted: &event.ConfigAdopted{
		PolicyOrdinals: map[string]int64{"p": 1}, Experiments: []*event.Experiment{{Id: "x"}},
	}}}).MarshalVT()
	require.NoError(f, err)
	step, err := (&event.SessionEvent{Body: &event.SessionEvent_StepCompleted{StepCompleted: &event.StepCompleted{
		VersionSpans: []*event.VersionSpan{{Version: "p"}}, OutputTokenIds: []byte{1, 0, 0, 0}, Sampling: &event.Sampling{},
	}}}).MarshalVT()
	require.NoError(f, err)
	f.Add(m.Key, m.Value, []byte(eventContentType), []byte(""), false)
	f.Add([]byte("control:c"), control, []byte(controlContentType), []byte("a:00"), true)
	f.Add([]byte(""), step, []byte(eventContentType), []byte(""), false)
	f.Add([]byte(nil), []byte(nil), []byte("application/x-protobuf; proto"), []byte(":"), false)
	f.Fuzz(func(t *testing.T, key, value, content, signature []byte, signed bool) {
		r := Record{Topic: "events", Key: key, Value: value, Headers: []Header{{ContentTypeHeader, content}, {SignatureHeader, signature}}}
		if signed { // so that the decoder of control records is reached
			r.Headers[1] = k.Sign(r.Topic, r.Partition, key, value)
		}
		ev, c, reject := Decode(r, k, 3)
		outcomes := 0
		for _, is := range []bool{ev != nil, c != nil, reject != ""} {
			if is {
				outcomes++
			}
		}
		if outcomes != 1 {
			t.Fatalf("event %v, control %v, reject %q", ev, c, reject)
		}
	})
}

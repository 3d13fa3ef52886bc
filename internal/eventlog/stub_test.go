package eventlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/schemas/event"
)

func calledTool() *event.SessionEvent {
	return &event.SessionEvent{
		Source: "ide", EventId: "e1", SessionId: "s1", TurnId: "t1", UnitId: "u1", Sequence: 3, Privacy: event.Privacy_FULL,
		OccurredAt: timestamppb.New(time.UnixMilli(1_800_000_000_000)),
		Body:       &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{CallId: "c1", Tool: "read_file"}},
	}
}

func TestStub(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_001_000)
	for name, c := range map[string]struct {
		event  func(*event.SessionEvent)
		record func(*Record)
		want   string // reason and body; empty: no stub
		bare   bool   // times and level are not kept
	}{
		"a body's field": {event: func(e *event.SessionEvent) { e.GetToolCalled().CallId = "" }, want: "missing tool_called"},
		"no body":        {event: func(e *event.SessionEvent) { e.Body = nil }, want: "unknown_body "},
		"a bad time": {event: func(e *event.SessionEvent) {
			e.OccurredAt = &timestamppb.Timestamp{Seconds: 1}
		}, want: "out_of_range tool_called", bare: true},
		"a bad level": {event: func(e *event.SessionEvent) { e.Privacy = 77 }, want: "unknown_value tool_called", bare: true},
		"cut short":   {record: func(r *Record) { r.Value = r.Value[:len(r.Value)-1] }, want: "undecodable "},
		"no turn":     {event: func(e *event.SessionEvent) { e.TurnId = "" }},
		"no event id": {event: func(e *event.SessionEvent) { e.EventId = "" }},
		"no session":  {event: func(e *event.SessionEvent) { e.SessionId = "" }},
		"another key": {record: func(r *Record) { r.Key = []byte("s2"); r.Partition = PartitionOf(r.Key, 8) }},
		"misrouted":   {record: func(r *Record) { r.Partition = (r.Partition + 1) % 8 }},
		"no value":    {record: func(r *Record) { r.Value = nil }},
		"control":     {record: func(r *Record) { r.Headers = []Header{{ContentTypeHeader, []byte(controlContentType)}} }},
		"fine":        {},
	} {
		e := calledTool()
		if c.event != nil {
			c.event(e)
		}
		m, err := EventMessage(e, at)
		require.NoError(t, err, name)
		r := landed(m, 8)
		if c.record != nil {
			c.record(&r)
		}
		keyring, err := NewKeyring(map[string][]byte{"1": []byte("0123456789abcdef")}, "1")
		require.NoError(t, err)
		_, _, reject := Decode(r, keyring, 8)
		stub := Stub(r, reject, 8)
		if c.want == "" {
			require.Nil(t, stub, name)
			continue
		}
		require.NotNil(t, stub, name)
		require.Nil(t, event.Validate(stub), name)
		require.Equal(t, "ide e1 s1 t1", stub.Source+" "+stub.EventId+" "+stub.SessionId+" "+stub.TurnId, name)
		require.EqualValues(t, 3, stub.Sequence, name)
		require.Equal(t, c.want, stub.GetStub().Reason+" "+stub.GetStub().Body, name)
		require.EqualValues(t, len(r.Value), stub.GetStub().Bytes, name)
		if c.bare {
			require.Equal(t, at.UnixMilli(), stub.OccurredAt.AsTime().UnixMilli(), name)
		}
		require.True(t, proto.Equal(stub, Stub(r, reject, 8)), name)
	}
}

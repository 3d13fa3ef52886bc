package eventlog

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

func TestStub(t *testing.T) {
	t.Parallel()
	call := func(change func(*event.SessionEvent)) Record {
		e := endedSession()
		e.TurnId = "t1"
		e.Body = &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{CallId: "c", Tool: strings.Repeat("x", event.MaxToolNameBytes+1)}}
		change(e)
		m, err := EventMessage(e, time.UnixMilli(1_800_000_000_000))
		require.NoError(t, err)
		return landed(m, 8)
	}
	r := call(func(*event.SessionEvent) {})
	_, _, reject := Decode(r, nil, 8)
	require.Equal(t, event.ReasonTooLong, reject)
	stub := Stub(r, 8, reject)
	require.Nil(t, event.Validate(stub))
	require.Equal(t, "e1", stub.EventId)
	require.Equal(t, "t1", stub.TurnId)
	require.EqualValues(t, 3, stub.Sequence)
	require.Equal(t, "tool_called", stub.GetStub().GetBody())
	require.Equal(t, event.ReasonTooLong, stub.GetStub().GetReason())
	require.EqualValues(t, len(r.Value), stub.GetStub().GetBytes())

	for name, r := range map[string]Record{
		"of no turn":         call(func(e *event.SessionEvent) { e.TurnId = "" }),
		"of nobody":          call(func(e *event.SessionEvent) { e.EventId = "" }),
		"at no time":         call(func(e *event.SessionEvent) { e.OccurredAt = nil }),
		"under another key":  func() Record { r := call(func(*event.SessionEvent) {}); r.Key = []byte("s2"); return r }(),
		"somewhere else":     func() Record { r := call(func(*event.SessionEvent) {}); r.Partition = (r.Partition + 1) % 8; return r }(),
		"a tombstone":        func() Record { r := call(func(*event.SessionEvent) {}); r.Value = nil; return r }(),
		"of another message": func() Record { r := call(func(*event.SessionEvent) {}); r.Headers = nil; return r }(),
		"cut short":          func() Record { r := call(func(*event.SessionEvent) {}); r.Value = r.Value[:9]; return r }(),
	} {
		require.Nil(t, Stub(r, 8, "why"), name)
	}
}

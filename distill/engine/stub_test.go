package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/distill/account"
	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// What comes straight from an emitter is rejected by the reader, and leaves its stub all the same: a call that no
// validation lets pass is no loss in transport.
func TestARejectedRecordLeavesAStubInItsTurn(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	s.Start(event.Intent_EDIT, 0, "x").Step(10, time.Second)
	s.Call("read_file", event.ToolKind_READ, `{"path":"a"}`, event.ToolOutcome_OK).End(event.EndReason_COMPLETED, false)
	blowUp(s, "tool_called")
	for _, ev := range s.Events {
		r, class := engine.Record{Event: ev}, account.Applied
		if ev.GetStub() != nil {
			r.Reject, class = "too_long", account.DeadLetter
		}
		eff := p.apply(0, r)
		require.Equal(t, class, eff.Class)
		require.Equal(t, r.Reject, eff.DeadLetter)
	}
	p.tick(time.Hour)
	row := p.row("s1-t1")
	require.Equal(t, ledger.Rewarded, row.Disposition, row.Reason)
	require.Equal(t, ledger.Of(1), row.Signal("tools.calls"))

	rejected := s.Events[2].CloneVT()
	rejected.EventId = "late"
	eff := p.apply(time.Hour, engine.Record{Event: rejected, Reject: "too_long"})
	require.Equal(t, account.DeadLetter, eff.Class)
	require.Nil(t, eff.Amendment)
}

// blowUp makes the last event of that kind too large for the log: only its stub is there.
func blowUp(s *rehearsal.Stream, body string) {
	for i := len(s.Events) - 1; i >= 0; i-- {
		if ev := s.Events[i]; bodyOf(ev) == body {
			ev.Body = &event.SessionEvent_Stub{Stub: &event.Stub{Reason: "too_large", Body: body, Bytes: 20 << 20}}
			return
		}
	}
	panic(fmt.Sprintf("no %s in the stream", body))
}

func bodyOf(ev *event.SessionEvent) string {
	m := ev.ProtoReflect()
	return string(m.WhichOneof(m.Descriptor().Oneofs().ByName("body")).Name())
}

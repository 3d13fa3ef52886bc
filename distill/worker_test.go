package distill

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/distill/engine/enginetest"
	"millrace/distill/rehearsal"
	"millrace/internal/eventlog"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// TestARejectedEventIsNotMissed writes events past the gateway that can't be taken. Their turns know of them, also when
// they are rebuilt; the records are dead letters.
func TestARejectedEventIsNotMissed(t *testing.T) {
	t.Parallel()
	s := rehearsal.NewStream("s1", "u1", rehearsal.Epoch)
	s.Start(event.Intent_ASK, 0, "why").Step(10, time.Second)
	s.Call("read_file", event.ToolKind_READ, `{"path":"a.go"}`, event.ToolOutcome_OK)
	s.End(event.EndReason_COMPLETED, false)
	spoiled := 0
	for _, ev := range s.Events {
		if call := ev.GetToolCalled(); call != nil {
			call.CallId = ""
			spoiled++
		}
	}
	require.Equal(t, 1, spoiled)
	log := writeRecords(t, enginetest.WithBatches(rehearsal.Log(s.Events), 60_000, 1000))
	w := newWorld(t, log)
	crashed := map[string]bool{}
	w.runUntilEnd(w.distill("crashing", func(_ *Lease, step string) error {
		if at := fmt.Sprint(w.committed()); step == "flush: begin" && !crashed[at] {
			crashed[at] = true // whoever comes next reads the open turn's records again
			return errCrash
		}
		return nil
	}))
	require.Greater(t, len(crashed), 10)
	rows := w.product().rows
	require.Len(t, rows, 1)
	require.NotEqual(t, ledger.Incomplete, rows[0].Disposition, rows[0].Reason)

	letters, err := eventlog.NewReader(eventlog.Config{Brokers: log.cfg.Brokers, Topic: log.cfg.DeadLetterTopic()})
	require.NoError(t, err)
	defer letters.Close()
	records, err := letters.Fetch(t.Context(), 0, 0)
	require.NoError(t, err)
	require.NotEmpty(t, records)
	letter, ok := eventlog.ReadDeadLetter(records[0])
	require.True(t, ok)
	require.Equal(t, event.ReasonMissing, letter.Reason)
	want, err := s.Events[2].MarshalVT()
	require.NoError(t, err)
	require.Equal(t, want, letter.Value)
}

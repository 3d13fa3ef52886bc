package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"millrace/distill/rehearsal"
	"millrace/distill/signal"
	"millrace/schemas/event"
)

// Of several classifiers' evidence the last counts; under a configuration that names one, only that one's.
func TestClassifierInForce(t *testing.T) {
	t.Parallel()
	evidence := func(s *rehearsal.Stream, version string, polarity float64) {
		s.Emit("judge", &event.SessionEvent{Body: &event.SessionEvent_EvidenceAdded{EvidenceAdded: &event.EvidenceAdded{
			FollowUp: event.FollowUpClass_CORRECTION, Polarity: proto.Float64(polarity), Confidence: proto.Float64(.8), ClassifierVersion: version,
		}}})
	}
	for name, c := range map[string]struct {
		inForce  string
		relation event.Relation
		version  string
		polarity float64
	}{
		"none is named: the last":            {"", 0, "judge/b/1", -.5},
		"the first is named":                 {"judge/a/1", 0, "judge/a/1", -1},
		"one is named that has said nothing": {"judge/c/1", 0, signal.ClassifierVersion, 0},
		"structure decides before any judge": {"judge/a/1", event.Relation_UNDO, signal.ClassifierVersion, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rehearsal.NewStream("s", "u", rehearsal.Epoch)
			s.Start(event.Intent_EDIT, 0, "make the parser faster").Step(50, time.Second).End(event.EndReason_COMPLETED, false)
			evidence(s, "judge/a/1", -1)
			evidence(s, "judge/b/1", -.5)
			s.Wait(time.Minute).Start(event.Intent_EDIT, c.relation, "look at the numbers again").Step(50, time.Second).End(event.EndReason_COMPLETED, false)
			records := rehearsal.Records(s)
			records[0].Control.GetConfigAdopted().ClassifierVersion = c.inForce
			_, settled := rehearsal.Run(records)
			require.Len(t, settled, 2)
			row := settled[0].Row
			require.Equal(t, c.version, row.ClassifierVersion)
			require.Equal(t, c.polarity, row.Signal("follow_up.polarity").Number)
		})
	}
}

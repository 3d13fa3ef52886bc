package enginetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/internal/unithash"
	"millrace/schemas/event"
)

// RandomLog is a partition's log of many sessions, from a seed, with everything that can go wrong on the way:
// events out of order, repeated, lost, late by hours, in conflict, of turns never seen; versions mixed inside a
// turn; turns that never end; incidents, quarantines, erasures, cut marks; records that can't be read.
func RandomLog(seed uint64, sessions int) []engine.Record {
	r := rand.New(rand.NewPCG(seed, 1))
	var events []*event.SessionEvent
	for i := range sessions {
		s := rehearsal.NewStream(fmt.Sprintf("s%d", i), fmt.Sprintf("u%d", r.IntN(sessions)), rehearsal.Epoch.Add(time.Duration(r.IntN(4*3600))*time.Second))
		for range 1 + r.IntN(4) {
			randomTurn(r, s)
		}
		events = append(events, s.Events...)
	}
	return spoil(r, rehearsal.Log(disturb(r, events)))
}

func randomTurn(r *rand.Rand, s *rehearsal.Stream) {
	relation := event.Relation(0)
	if r.IntN(8) == 0 {
		relation = event.Relation(1 + r.IntN(3))
	}
	s.Start(event.Intent(r.IntN(4)), relation, fmt.Sprintf("request %d of some words", r.IntN(5)))
	var edits []string
	for range r.IntN(4) {
		if r.IntN(20) == 0 {
			s.Version = fmt.Sprintf("v%d", r.IntN(4))
		}
		s.Step(uint32(1+r.IntN(30)), time.Duration(200+r.IntN(5000))*time.Millisecond)
		if r.IntN(15) == 0 {
			movedWeights(r, s)
		}
		switch r.IntN(5) {
		case 0:
			s.Call("read_file", event.ToolKind_READ, `{"path":"a.go"}`, event.ToolOutcome_OK)
		case 1:
			s.Call("edit_file", event.ToolKind_EDIT_FILE, `{"path":`, event.ToolOutcome_EXECUTION_FAILED)
		default:
			edits = append(edits, s.Edit(uint32(5+r.IntN(500))))
		}
	}
	if r.IntN(12) == 0 {
		s.Emit("engine", &event.SessionEvent{Body: &event.SessionEvent_InfrastructureReported{InfrastructureReported: &event.InfrastructureReported{Status: event.InfrastructureStatus_OUTAGE}}})
	}
	if r.IntN(15) != 0 {
		s.End(event.EndReason(1+r.IntN(5)), r.IntN(4) == 0)
	}
	for _, e := range edits {
		if r.IntN(5) == 0 {
			continue
		}
		s.Wait(time.Duration(r.IntN(60))*time.Second).Decide(e, event.Decision(1+r.IntN(3)))
		for _, after := range []float64{30, 120, 300, 600} {
			if r.IntN(4) > 0 {
				s.Wait(time.Duration(after/2)*time.Second).Observe(e, after, r.Float64())
			}
		}
	}
	if r.IntN(6) == 0 {
		s.Checks(uint32(r.IntN(3)), uint32(r.IntN(3)))
	}
	if r.IntN(6) == 0 {
		s.Judge(event.FollowUpClass(1+r.IntN(9)), float64(r.IntN(3)-1), r.Float64())
	}
	s.Wait(time.Duration(r.IntN(1800)) * time.Second)
}

// movedWeights lets the weights move while the last step was generated. What the engine reports as the step's own
// version may be that at its beginning or at its end; a span may be missing, or reach too far.
func movedWeights(r *rand.Rand, s *rehearsal.Stream) {
	step := s.Events[len(s.Events)-1].GetStepCompleted()
	n := uint32(len(step.GetOutputTokenIds()) / 4)
	at := uint32(r.IntN(int(n) + 1))
	step.VersionSpans = []*event.VersionSpan{{Version: "base", Start: 0, End: at}, {Version: "v2", Start: at, End: n + uint32(r.IntN(2))}}
	if r.IntN(3) == 0 {
		step.PolicyVersion = "v2"
	}
}

// disturb loses, repeats, delays and contradicts events.
func disturb(r *rand.Rand, events []*event.SessionEvent) []*event.SessionEvent {
	var out []*event.SessionEvent
	for _, ev := range events {
		if r.IntN(100) == 0 {
			continue
		}
		if ev.GetTurnStarted() != nil && r.IntN(8) == 0 {
			ev = late(r, ev, 900) // behind the turn's other events, and perhaps behind the next turn
		}
		out = append(out, ev)
		if r.IntN(30) == 0 {
			again := ev.CloneVT()
			again.ReceivedAt = timestamppb.New(ev.GetOccurredAt().AsTime().Add(time.Second))
			out = append(out, late(r, again, 600))
		}
		if r.IntN(200) == 0 {
			other := ev.CloneVT()
			other.Sequence += 1000
			out = append(out, late(r, other, 60))
		}
		if r.IntN(50) == 0 {
			out = append(out, late(r, &event.SessionEvent{
				Source: "ide", EventId: fmt.Sprintf("late-%d-%s", len(out), ev.GetEventId()), SessionId: ev.GetSessionId(),
				TurnId: ev.GetTurnId(), UnitId: ev.GetUnitId(), OccurredAt: ev.GetOccurredAt(), Privacy: event.Privacy_FULL,
				Body: &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: 1}},
			}, 4*3600))
		}
		if r.IntN(300) == 0 {
			out = append(out, &event.SessionEvent{
				Source: "ide", EventId: fmt.Sprintf("orphan-%d", len(out)), SessionId: ev.GetSessionId(), TurnId: "nowhere",
				OccurredAt: ev.GetOccurredAt(), Body: &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: -1}},
			})
		}
	}
	return out
}

// late sends an event up to so many seconds later: it stands there in the log.
func late(r *rand.Rand, ev *event.SessionEvent, seconds int) *event.SessionEvent {
	at := ev.GetOccurredAt().AsTime().Add(time.Duration(r.IntN(seconds)) * time.Second)
	ev.SentAt, ev.ReceivedAt = timestamppb.New(ev.GetOccurredAt().AsTime()), timestamppb.New(ev.GetOccurredAt().AsTime())
	ev.OccurredAt = timestamppb.New(at)
	if ev.GetBody() != nil {
		ev.SentAt = timestamppb.New(at)
	}
	return ev
}

// spoil swaps neighbours and puts control records and unreadable ones between.
func spoil(r *rand.Rand, log []engine.Record) []engine.Record {
	for i := 2; i+1 < len(log); i++ {
		if r.IntN(15) == 0 {
			log[i], log[i+1] = log[i+1], log[i]
		}
	}
	var out []engine.Record
	for i, x := range log {
		out = append(out, x)
		extra := engine.Record{Time: x.Time}
		kind := r.IntN(400)
		if i == len(log)/2 {
			kind = 1 // every log has at least one cut
		}
		switch kind {
		case 0:
			extra.Reject = "not_protobuf"
		case 1:
			extra.Control = &event.ControlRecord{Id: fmt.Sprintf("cut-%d", i), Body: &event.ControlRecord_CutMarked{CutMarked: &event.CutMarked{Cut: fmt.Sprintf("cut-%d", i)}}}
		case 2:
			extra.Control = &event.ControlRecord{Id: fmt.Sprintf("q-%d", i), Body: &event.ControlRecord_Quarantined{Quarantined: &event.Quarantined{SessionId: fmt.Sprintf("s%d", r.IntN(30)), Reason: "bot"}}}
		case 3:
			at := time.UnixMicro(x.Time)
			extra.Control = &event.ControlRecord{Id: fmt.Sprintf("i-%d", i), Body: &event.ControlRecord_IncidentDeclared{IncidentDeclared: &event.IncidentDeclared{Incident: "inc", StartsAt: timestamppb.New(at.Add(-time.Minute)), EndsAt: timestamppb.New(at.Add(time.Minute))}}}
		case 4:
			extra.Control = rehearsal.Config(uint64(1 + r.IntN(5)))
		case 5:
			extra.Control = &event.ControlRecord{Id: fmt.Sprintf("erase-%d", i), Body: &event.ControlRecord_UnitErased{UnitErased: &event.UnitErased{UnitHash: unithash.Pseudonym([]byte("test"), fmt.Sprintf("u%d", r.IntN(12)))}}}
		default:
			continue
		}
		out = append(out, extra)
	}
	for i := range out {
		out[i].Offset = int64(i)
	}
	return out
}

// WithBatches is the log with other batch limits in its configurations.
func WithBatches(log []engine.Record, intervalMs int64, rows uint64) []engine.Record {
	out := make([]engine.Record, len(log))
	copy(out, log)
	for i, x := range out {
		if c := x.Control.GetConfigAdopted(); c != nil {
			other := proto.Clone(x.Control).(*event.ControlRecord)
			other.GetConfigAdopted().BatchIntervalMs, other.GetConfigAdopted().BatchRows = intervalMs, rows
			out[i].Control = other
		}
	}
	return out
}

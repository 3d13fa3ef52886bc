package replay_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/schemas/event"
)

// questionLog is a random log of sessions that ask much: long runs of questions under every intent, answers that are
// worth something, nothing, or not known, question tools in turns that go on, ends that come after the answer has settled.
func questionLog(seed uint64) []engine.Record {
	r := rand.New(rand.NewPCG(seed, 7))
	var events []*event.SessionEvent
	for i := range 40 {
		s := rehearsal.NewStream(fmt.Sprintf("q%d", i), fmt.Sprintf("u%d", r.IntN(9)), rehearsal.Epoch.Add(time.Duration(r.IntN(7200))*time.Second))
		for range 1 + r.IntN(6) {
			questioningTurn(r, s)
			s.Wait(time.Duration(20+r.IntN(600)) * time.Second)
		}
		events = append(events, s.Events...)
	}
	events = slices.DeleteFunc(events, func(*event.SessionEvent) bool { return r.IntN(400) == 0 })
	log := rehearsal.Log(events)
	for range 25 {
		at := 1 + r.IntN(len(log)-1)
		log = slices.Insert(log, at, engine.Record{Time: log[at-1].Time, Control: &event.ControlRecord{
			Id: fmt.Sprintf("q-%d", at), Body: &event.ControlRecord_Quarantined{Quarantined: &event.Quarantined{
				TurnId: fmt.Sprintf("q%d-t%d", r.IntN(40), 1+r.IntN(4)), Reason: "bot",
			}},
		}})
	}
	for i := range log {
		log[i].Offset = int64(i)
	}
	return log
}

func questioningTurn(r *rand.Rand, s *rehearsal.Stream) {
	s.Start(event.Intent(r.IntN(5)), 0, fmt.Sprintf("request %d", r.IntN(1000)))
	if r.IntN(12) == 0 {
		s.Version = fmt.Sprintf("v%d", r.IntN(3))
	}
	s.Step(uint32(5+r.IntN(200)), time.Duration(r.IntN(9000))*time.Millisecond)
	for range r.IntN(3) {
		if r.IntN(2) == 0 {
			s.Call("ask_user", event.ToolKind_QUESTION, `{"question":"which?"}`, event.ToolOutcome_OK)
		} else {
			s.Call("read_file", event.ToolKind_READ, `{"path":`, event.ToolOutcome_EXECUTION_FAILED)
		}
		if r.IntN(6) == 0 {
			s.Version = fmt.Sprintf("v%d", r.IntN(3))
		}
		s.Step(5, time.Second)
	}
	switch r.IntN(6) {
	case 0, 1, 2:
		s.End(event.EndReason_COMPLETED, true)
		if r.IntN(5) == 0 {
			end := s.Events[len(s.Events)-1]
			end.OccurredAt = timestamppb.New(s.Now.Add(time.Duration(30+r.IntN(40)) * time.Minute))
		}
	case 3:
		edit := s.Edit(uint32(5 + r.IntN(300)))
		s.End(event.EndReason_COMPLETED, false).Wait(time.Second).Decide(edit, event.Decision(1+r.IntN(3)))
		if r.IntN(2) == 0 {
			s.Wait(30*time.Second).Observe(edit, 30, r.Float64())
		}
	case 4:
		s.Emit("engine", &event.SessionEvent{Body: &event.SessionEvent_InfrastructureReported{InfrastructureReported: &event.InfrastructureReported{Status: event.InfrastructureStatus_OUTAGE}}})
		s.End(event.EndReason_PROVIDER_FAILED, false)
	default:
		s.End(event.EndReason_COMPLETED, false)
	}
}

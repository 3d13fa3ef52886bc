package engine_test

import (
	"time"

	"millrace/distill/rehearsal"
	"millrace/schemas/event"
)

// Turns of the tests are long or short: in weighted effort, and in wall time.
const (
	longWork, shortWork = 2000, 500
	longWall, shortWall = 120 * time.Second, 45 * time.Second
)

// effort lets the turn's last step be so long, in tokens and in time, that the turn's weighted effort and wall time
// are the given ones once it has ended: each step counts 60, each call 40, each token of a result .1.
func effort(s *rehearsal.Stream, work uint32, wall time.Duration, calls uint32) {
	s.Step(work-60-42*calls, wall)
}

func keep(s *rehearsal.Stream, edit string, share float64) {
	s.Decide(edit, event.Decision_ACCEPTED).Wait(10*time.Minute).Observe(edit, 600, share)
}

// edits is a turn that proposes one edit of that many characters and ends; it gives the edit's id.
func edits(s *rehearsal.Stream, intent event.Intent, work, characters uint32) string {
	s.Start(intent, 0, "make the parser faster")
	effort(s, work, longWall, 1)
	edit := s.Edit(characters)
	s.End(event.EndReason_COMPLETED, false).Wait(5 * time.Second)
	return edit
}

// says is a short turn of words alone.
func says(s *rehearsal.Stream, intent event.Intent, reason event.EndReason, asks bool) {
	s.Start(intent, 0, "make the parser faster")
	effort(s, shortWork, shortWall, 0)
	s.End(reason, asks)
}

func outage(s *rehearsal.Stream) {
	s.Emit("engine", &event.SessionEvent{Body: &event.SessionEvent_InfrastructureReported{
		InfrastructureReported: &event.InfrastructureReported{Status: event.InfrastructureStatus_OUTAGE},
	}})
}

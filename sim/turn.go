package sim

import (
	"millrace/schemas/event"
)

// outcome is what became of a turn.
type outcome uint8

const (
	none      outcome = iota
	answered          // an ask or a review, answered by text
	delivered         // an edit was proposed
	asked             // ended with a question and no edit
	stopped           // the user stopped it before any edit
	gaveUp            // ended without an edit and without a question
	failed            // a provider or the harness failed
)

const (
	latencyMedian  = 20.0 // seconds of generation in a turn of the base
	latencySD      = .80  // of the log within a unit; with the unit's own spread .9 in all
	shareUnending  = .001 // of turns: the harness is gone, nobody says that the turn ended
	shareHarness   = .001 // of turns that end by a failure of the harness
	shareStopAfter = 1. / 6
)

// plan is what will happen in a turn, drawn before its first step.
type plan struct {
	outcome   outcome
	aborted   bool
	wantsEdit bool
	edits     int
	reason    event.EndReason
	unending  bool
	noTokens  bool // failed before the first token
	crashed   bool
}

// step is one planned generation.
type step struct {
	calls [2]call
	n     int
	stop  string
}

// turn plays a whole turn that begins at a time: its events are put into the future.
func (s *session) turn(at int64) {
	s.turns++
	s.left--
	id := name(s.id, 't', s.turns)
	started := s.request()
	p := s.plan(started, at)
	started.Intent = s.intent(p.wantsEdit, s.previous.outcome == asked)
	file := s.file()
	s.occur(at, ide, id, &event.SessionEvent{Body: &event.SessionEvent_TurnStarted{TurnStarted: started}})

	steps := s.planSteps(p)
	run := s.run(at, id, file, steps)
	if p.noTokens {
		run.at += int64(float64(second) * (3 + 20*s.rng.Float64())) // that the client waited
	}
	ended := run.at + second/20

	kept := s.edits(&run, id, p, ended)
	s.previous.outcome, s.previous.kept, s.previous.file = p.outcome, kept, file
	if p.unending {
		// The machine is gone, and the session with it.
		s.leave(ended + 10*minute)
		return
	}
	if p.outcome == failed {
		s.failure(run.at, id, p)
	}
	s.occur(ended, ide, id, &event.SessionEvent{Body: &event.SessionEvent_TurnEnded{TurnEnded: s.ending(p, run, len(steps))}})
	s.feedback(ended, id, p.outcome, kept)
	s.goOn(ended, run.decided)
}

func (s *session) plan(started *event.TurnStarted, at int64) plan {
	r, b := s.rng, s.behaviour
	p := plan{reason: event.EndReason_COMPLETED}
	p.wantsEdit = s.previous.outcome == asked || started.Relation != 0 || r.Float64() < .84
	kind, stop := r.Float64(), r.Float64() < b.Aborts
	switch {
	case !p.wantsEdit:
		p.outcome = answered
		p.aborted = stop
	case kind < b.Questions:
		p.outcome = asked
	case kind < b.Questions+b.Delivery:
		p.outcome = delivered
		p.edits = 1 + whole(r, .15) + whole(r, .05)
		p.aborted = r.Float64() < shareStopAfter*b.Aborts/b.Delivery
	case kind < b.Questions+b.Delivery+(1-shareStopAfter)*b.Aborts:
		p.outcome, p.aborted = stopped, true
	default:
		p.outcome = gaveUp
		if r.IntN(8) == 0 {
			p.reason = event.EndReason_LENGTH
		}
	}
	if p.aborted {
		p.reason = event.EndReason_ABORTED_BY_USER
	}
	if s.sim.cfg.Calm {
		return p
	}
	failing, harness, unending, early := r.Float64(), r.Float64(), r.Float64(), r.IntN(2) == 0
	switch {
	case s.sim.outages.during(at) && failing < shareFailing:
		p = plan{wantsEdit: p.wantsEdit, outcome: failed, reason: event.EndReason_PROVIDER_FAILED, noTokens: early}
	case harness < shareHarness:
		p = plan{wantsEdit: p.wantsEdit, outcome: failed, reason: event.EndReason_HARNESS_FAILED, crashed: true}
	case unending < shareUnending:
		p.unending = true
	}
	return p
}

// intent is what the backend knew before the first step; a seventh of the edit requests are not known as such.
func (s *session) intent(wantsEdit, answer bool) event.Intent {
	p := s.rng.Float64()
	switch {
	case wantsEdit && answer && p < .7, wantsEdit && !answer && p < .71:
		return event.Intent_EDIT
	case wantsEdit && !answer && p < .86:
		return event.Intent_DEBUG
	case wantsEdit:
		return event.Intent_INTENT_UNSPECIFIED
	case p < .75:
		return event.Intent_ASK
	default:
		return event.Intent_REVIEW
	}
}

func (s *session) file() string {
	return "src/" + s.sim.vocabulary[0][s.rng.IntN(wordsPerScript)] + "." + extensions[s.unit.repository.MainLanguage]
}

var extensions = map[string]string{"go": "go", "typescript": "ts", "python": "py", "rust": "rs", "java": "java"}

const mostSteps = 6

// planSteps lays out the generations of a turn: look-ups, broken calls, edits, a check, the closing text.
func (s *session) planSteps(p plan) []step {
	r := s.rng
	steps := s.sim.steps[:0]
	if p.noTokens {
		return steps
	}
	broken := 0
	if r.Float64() < s.behaviour.Malformed/1.1 {
		broken = 1 + whole(r, .1) // one in ten goes wrong a second time
	}
	editSteps := (p.edits + 1) / 2
	lookups := min(r.IntN(3), mostSteps-1-editSteps-broken)
	if p.outcome == gaveUp {
		lookups = max(lookups, 1)
	}
	for range lookups {
		st := step{n: 1, stop: "tool_calls"}
		if r.Float64() < .3 {
			st.n = 2
		}
		for i := range st.n {
			st.calls[i] = call{tool: tool(r.IntN(2)), outcome: event.ToolOutcome_OK}
			if p.outcome == gaveUp || r.Float64() < .03 {
				st.calls[i].outcome = event.ToolOutcome_EXECUTION_FAILED
			}
		}
		steps = append(steps, st)
	}
	for range broken {
		c := malformedCall(r)
		st := step{calls: [2]call{c}, n: 1, stop: "tool_calls"}
		if c.fault == event.ToolOutcome_TRUNCATED_BY_LENGTH {
			st.stop = "length"
		}
		steps = append(steps, st)
	}
	for edits := p.edits; edits > 0; edits -= 2 {
		st := step{n: min(edits, 2), stop: "tool_calls"}
		for i := range st.n {
			st.calls[i] = call{tool: editFile, outcome: event.ToolOutcome_OK, edit: true}
		}
		if len(steps)+editSteps+1 < mostSteps && r.Float64() < .05 {
			missed := event.ToolOutcome_EDIT_NO_MATCH
			if r.IntN(4) == 0 {
				missed = event.ToolOutcome_EDIT_AMBIGUOUS
			}
			steps = append(steps, step{calls: [2]call{{tool: editFile, outcome: missed}}, n: 1, stop: "tool_calls"})
		}
		steps = append(steps, st)
	}
	if p.outcome == delivered && !p.aborted && len(steps) < mostSteps-1 && r.Float64() < .25 {
		steps = append(steps, step{calls: [2]call{{tool: runTerminal, outcome: event.ToolOutcome_OK, check: true}}, n: 1, stop: "tool_calls"})
	}
	last := step{stop: "stop"}
	switch {
	case p.outcome == failed:
		last.stop = "error"
	case p.aborted:
		last.stop = "aborted"
	case p.reason == event.EndReason_LENGTH:
		last.stop = "length"
	case p.outcome == asked && r.IntN(3) == 0:
		last = step{calls: [2]call{{tool: askUser, outcome: event.ToolOutcome_OK}}, n: 1, stop: "tool_calls"}
	}
	steps = append(steps, last)
	s.sim.steps = steps
	return steps
}

func (s *session) ending(p plan, run run, steps int) *event.TurnEnded {
	e := &event.TurnEnded{
		Steps:     ptr(uint32(steps)),
		ToolCalls: ptr(uint32(run.calls)),
		Reason:    p.reason,
		AsksUser:  p.outcome == asked,
	}
	if p.outcome == delivered && !p.aborted {
		e.OffersMore = s.rng.Float64() < .15
		if s.rng.Float64() < .06 {
			e.UnfinishedTodos = ptr(uint32(1 + s.rng.IntN(3)))
		}
	}
	return e
}

// failure is the evidence from outside the turn.
func (s *session) failure(at int64, id string, p plan) {
	report := &event.InfrastructureReported{Status: event.InfrastructureStatus_OUTAGE, RequestId: id, Detail: "upstream 503"}
	from := engine
	if p.crashed {
		report.Status, report.Detail, from = event.InfrastructureStatus_CRASH, "harness exited", ide
	}
	noticed := at + int64(float64(second)*(2+6*s.rng.Float64()))
	s.occur(noticed, from, id, &event.SessionEvent{Body: &event.SessionEvent_InfrastructureReported{InfrastructureReported: report}})
}

// feedback is given now and then, mostly by those who are displeased.
func (s *session) feedback(ended int64, id string, o outcome, kept float64) {
	r := s.rng
	share, rating := .015, 1.
	if o == gaveUp || o == stopped || (o == delivered && kept < .4) {
		share, rating = .05, -1.
	}
	if r.Float64() >= share {
		return
	}
	at := ended + int64(float64(second)*(3+60*r.Float64()))
	s.occur(at, ide, id, &event.SessionEvent{Body: &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: rating}}})
}

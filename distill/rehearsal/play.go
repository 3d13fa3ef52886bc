package rehearsal

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

// carried bounds how many token ids a step of an acted-out side carries: its counts say what it cost.
const carried = 48

var toolKinds = map[string]event.ToolKind{
	"read_file": event.ToolKind_READ, "search": event.ToolKind_SEARCH, "edit_file": event.ToolKind_EDIT_FILE,
	"run": event.ToolKind_TERMINAL, "ask_user": event.ToolKind_QUESTION,
}

// player acts out one side in a session.
type player struct {
	*Stream
	v     Variation
	first string // the turn that counts
	edits []played
	asked int // requests so far
}

// played is an edit of the turn, and when it was proposed or decided.
type played struct {
	id string
	at time.Time
}

// Play acts a side out at the end of a session's stream, varied, and gives the id of the turn that counts: its first.
func Play(s *Stream, acts []rewardspec.Act, v Variation) (turn string) {
	p := &player{Stream: s, v: v}
	s.repository = v.repository()
	p.play(acts)
	return p.first
}

func (p *player) play(acts []rewardspec.Act) {
	for _, a := range acts {
		p.act(a)
	}
}

func (p *player) act(a rewardspec.Act) {
	switch {
	case a.Start != nil:
		p.start(a.Start)
	case a.Step != nil:
		p.generate(a.Step)
		if p.step == 1 && p.turn == p.first {
			p.lookAround()
		}
	case a.Call != nil:
		p.call(a.Call)
	case a.Edit != nil:
		p.edit(a.Edit)
	case a.Decide != nil:
		for _, e := range p.which(a.Decide.Edit) {
			e.at = p.Now
			p.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_EditDecided{EditDecided: &event.EditDecided{
				EditId: e.id, Decision: a.Decide.As, Shown: proto.Bool(true), Source: a.Decide.By, WithText: a.Decide.WithText,
			}}})
		}
	case a.Observe != nil:
		p.observe(a.Observe)
	case a.Checks != nil:
		p.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_ChecksRan{ChecksRan: &event.ChecksRan{
			Kind: a.Checks.Kind, FailuresBefore: a.Checks.Before, FailuresAfter: a.Checks.After, ByUser: a.Checks.ByUser,
		}}})
	case a.Judge != nil:
		p.Judge(a.Judge.Class, a.Judge.Polarity, a.Judge.Confidence)
	case a.Thumb != nil:
		p.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: *a.Thumb}}})
	case a.End != nil:
		p.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{
			Steps: proto.Uint32(p.step), ToolCalls: proto.Uint32(p.calls), Reason: a.End.Reason,
			AsksUser: a.End.Asks, OffersMore: a.End.Offers, UnfinishedTodos: a.End.Todos,
		}}})
	case a.Wait > 0:
		p.Wait(a.Wait)
	case a.Stub != "":
		p.blowUp(a.Stub)
	case a.Infra != 0:
		p.Emit("engine", &event.SessionEvent{Body: &event.SessionEvent_InfrastructureReported{
			InfrastructureReported: &event.InfrastructureReported{Status: a.Infra},
		}})
	case a.Repeat != nil:
		for range a.Repeat.Times {
			p.play(a.Repeat.Acts)
		}
	}
}

func (p *player) start(a *rewardspec.StartAct) {
	text := a.Text
	if text == "" {
		text = p.v.request(p.asked)
	}
	p.asked++
	p.edits = nil
	p.Start(p.v.intent(a.Intent), a.Relation, text)
	started := p.Events[len(p.Events)-1].GetTurnStarted()
	started.IsCommand, started.PastedStackTrace = a.Command, a.StackTrace
	if p.first == "" {
		p.first = p.turn
	}
}

// generate is one step: few token ids, and the counts that the act says.
func (p *player) generate(a *rewardspec.StepAct) {
	final, thinking, arguments := p.v.tokens(a.Tokens), p.v.tokens(a.Thinking), p.v.tokens(a.Arguments)
	d := time.Duration(p.v.seconds(a.Seconds) * float64(time.Second)).Round(time.Millisecond)
	p.Step(min(final+thinking+arguments, carried), d)
	step := p.Events[len(p.Events)-1].GetStepCompleted()
	step.StopReason = a.Stop
	step.Tokens.Final, step.Tokens.Thinking, step.Tokens.ToolArgument = &final, &thinking, &arguments
}

// lookAround is reading that a variation adds to the turn that counts.
func (p *player) lookAround() {
	for i := range p.v.Reads {
		p.call(&rewardspec.CallAct{
			Tool: "read_file", Arguments: fmt.Sprintf(`{"path":"src/%s/%d"}`, p.v.Language, i),
			Outcome: event.ToolOutcome_OK, OutputTokens: 30,
		})
		p.generate(&rewardspec.StepAct{Tokens: 20, Seconds: 1, Stop: "stop"})
	}
}

func (p *player) call(a *rewardspec.CallAct) {
	p.calls++
	id := fmt.Sprintf("%s-c%d", p.turn, p.calls)
	p.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{
		CallId: id, Step: p.step, Tool: a.Tool, Kind: toolKinds[a.Tool], Raw: &event.ToolCalled_Arguments{Arguments: a.Arguments},
		Repaired: a.Repaired, ParallelGroup: a.Group,
	}}})
	if a.Outcome != event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED {
		p.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{
			CallId: id, Outcome: a.Outcome, OutputTokens: proto.Uint32(a.OutputTokens),
		}}})
	}
}

func (p *player) edit(a *rewardspec.EditAct) {
	id := p.Edit(p.v.characters(a.Characters))
	proposed := p.Events[len(p.Events)-1].GetEditProposed()
	proposed.CharactersRemoved, proposed.Shown, proposed.Applied, proposed.TestsRemoved = p.v.characters(a.Removed), a.Shown, a.Applied, a.TestsRemoved
	if p.v.Language != "" {
		proposed.Language = p.v.Language
	}
	p.edits = append(p.edits, played{id, p.Now})
}

// which are the edits that an act means; none if there is no such edit.
func (p *player) which(n int) []*played {
	var out []*played
	for i := range p.edits {
		if n == rewardspec.AllEdits || i+1 == n || (n == 0 && i == len(p.edits)-1) {
			out = append(out, &p.edits[i])
		}
	}
	return out
}

func (p *player) observe(a *rewardspec.ObserveAct) {
	edits := p.which(a.Edit)
	for _, after := range a.AfterS {
		for _, e := range edits {
			if at := e.at.Add(time.Duration(after * float64(time.Second))); at.After(p.Now) {
				p.Now = at
			}
			p.Observe(e.id, after, a.Kept)
		}
	}
}

// blowUp makes the last event of that body too large for the log: only its stub arrives.
func (p *player) blowUp(body string) {
	for i := len(p.Events) - 1; i >= 0; i-- {
		m := p.Events[i].ProtoReflect()
		if string(m.WhichOneof(m.Descriptor().Oneofs().ByName("body")).Name()) == body {
			p.Events[i].Body = &event.SessionEvent_Stub{Stub: &event.Stub{Reason: "too_large", Body: body, Bytes: 20 << 20}}
			return
		}
	}
}

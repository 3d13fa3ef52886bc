package turn

import (
	"cmp"
	"slices"
	"time"

	"millrace/schemas/event"
)

// Facts are a turn's events, joined: calls with their results, edits with their decisions and observations.
// Everything that did not come is nil or zero.
type Facts struct {
	Started  *event.TurnStarted
	Context  *event.TurnContext // never nil
	UnitID   string
	Privacy  event.Privacy // the strictest of all events
	Steps    []*event.StepCompleted
	Calls    []Call
	Edits    []Edit
	Checks   []Check
	Feedback []*event.FeedbackGiven
	Evidence []*event.EvidenceAdded
	Infra    []*event.InfrastructureReported
	Ended    *event.TurnEnded
	Stubs    map[string]int // by the rejected body's name

	Registered bool // the gateway stamped that the tool schemas are in the store
	StartedAt  time.Time
	EndedAt    time.Time // zero: it never ended
	Versions   []string  // policy versions in order of appearance
	LastStepAt time.Time
}

// Call is a tool call and what came of it.
type Call struct {
	*event.ToolCalled
	At       int64
	Returned *event.ToolReturned
	Place    int // in the turn's order of events

	kind event.ToolKind // of the registered tool, where the call itself doesn't say
}

// GetKind is what the call does: as it says itself, else as its tool was registered.
func (c *Call) GetKind() event.ToolKind {
	if k := c.ToolCalled.GetKind(); k != event.ToolKind_TOOL_KIND_UNSPECIFIED {
		return k
	}
	return c.kind
}

// Raw is the call's arguments as the model wrote them; sent is false where the backend did not send them, which is
// not the same as empty ones.
func (c *Call) Raw() (raw []byte, sent bool) {
	switch body := c.GetRaw().(type) {
	case *event.ToolCalled_Arguments:
		return []byte(body.Arguments), true
	case *event.ToolCalled_ArgumentsBytes:
		return body.ArgumentsBytes, true
	default:
		return nil, false
	}
}

// Edit is a proposed edit, its decision and its observations in order of seconds since acceptance.
type Edit struct {
	*event.EditProposed
	Decided  *event.EditDecided
	Observed []*event.EditObserved
	Place    int
}

// Check is a run of a check.
type Check struct {
	*event.ChecksRan
	Place int
}

// Characters are the characters that the edit added and removed.
func (e *Edit) Characters() float64 {
	return float64(e.GetCharactersAdded()) + float64(e.GetCharactersRemoved())
}

// RejectedByUser says whether a user saw the edit and refused it.
func (e *Edit) RejectedByUser() bool {
	return e.Decided.GetDecision() == event.Decision_REJECTED && e.Decided.GetSource() == event.DecisionSource_USER
}

// AcceptedByUser says whether a user took the edit, wholly or partly.
func (e *Edit) AcceptedByUser() bool {
	d := e.Decided.GetDecision()
	return e.Decided.GetSource() == event.DecisionSource_USER && (d == event.Decision_ACCEPTED || d == event.Decision_PARTLY)
}

// Fold joins a turn's events. Order is by client time, then by offset; what the model did in steps is ordered
// by step number.
func Fold(t *Turn) *Facts {
	entries := slices.Clone(t.Entries)
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(OccurredAt(a.Event), OccurredAt(b.Event)), cmp.Compare(a.Offset, b.Offset))
	})
	f := &Facts{Context: &event.TurnContext{}, Stubs: map[string]int{}}
	calls, edits := map[string]int{}, map[string]int{}
	returned := map[string]*event.ToolReturned{}
	decided := map[string]*event.EditDecided{}
	observed := map[string][]*event.EditObserved{}
	for place, entry := range entries {
		e := entry.Event
		at := time.UnixMicro(OccurredAt(e)).UTC()
		f.Privacy = max(f.Privacy, e.GetPrivacy())
		if f.UnitID == "" {
			f.UnitID = e.GetUnitId()
		}
		if f.StartedAt.IsZero() && opens(e) {
			f.StartedAt = at
		}
		switch body := e.GetBody().(type) {
		case *event.SessionEvent_TurnStarted:
			if f.Started != nil {
				continue
			}
			f.Started, f.StartedAt, f.Registered = body.TurnStarted, at, e.GetSchemaRegistered()
			if c := body.TurnStarted.GetContext(); c != nil {
				f.Context = c
			}
		case *event.SessionEvent_StepCompleted:
			f.Steps = append(f.Steps, body.StepCompleted)
			f.LastStepAt = at
		case *event.SessionEvent_ToolCalled:
			calls[body.ToolCalled.GetCallId()] = len(f.Calls)
			f.Calls = append(f.Calls, Call{ToolCalled: body.ToolCalled, At: at.UnixMicro(), Place: place})
		case *event.SessionEvent_ToolReturned:
			returned[body.ToolReturned.GetCallId()] = body.ToolReturned
		case *event.SessionEvent_EditProposed:
			// The same edit again says more of it, as when it is applied: it stays one edit.
			if i, ok := edits[body.EditProposed.GetEditId()]; ok {
				f.Edits[i].EditProposed = body.EditProposed
				continue
			}
			edits[body.EditProposed.GetEditId()] = len(f.Edits)
			f.Edits = append(f.Edits, Edit{EditProposed: body.EditProposed, Place: place})
		case *event.SessionEvent_EditDecided:
			decided[body.EditDecided.GetEditId()] = body.EditDecided
		case *event.SessionEvent_EditObserved:
			id := body.EditObserved.GetEditId()
			observed[id] = append(observed[id], body.EditObserved)
		case *event.SessionEvent_ChecksRan:
			f.Checks = append(f.Checks, Check{ChecksRan: body.ChecksRan, Place: place})
		case *event.SessionEvent_FeedbackGiven:
			f.Feedback = append(f.Feedback, body.FeedbackGiven)
		case *event.SessionEvent_EvidenceAdded:
			f.Evidence = append(f.Evidence, body.EvidenceAdded)
		case *event.SessionEvent_InfrastructureReported:
			f.Infra = append(f.Infra, body.InfrastructureReported)
		case *event.SessionEvent_TurnEnded:
			if f.Ended == nil {
				f.Ended, f.EndedAt = body.TurnEnded, at
			}
		case *event.SessionEvent_Stub:
			f.Stubs[body.Stub.GetBody()]++
		}
	}
	for id, i := range calls {
		f.Calls[i].Returned = returned[id]
	}
	for id, i := range edits {
		f.Edits[i].Decided = decided[id]
		f.Edits[i].Observed = observed[id]
		slices.SortStableFunc(f.Edits[i].Observed, func(a, b *event.EditObserved) int {
			return cmp.Compare(a.GetSecondsSinceAcceptance(), b.GetSecondsSinceAcceptance())
		})
	}
	slices.SortStableFunc(f.Steps, func(a, b *event.StepCompleted) int { return cmp.Compare(a.GetStep(), b.GetStep()) })
	if t.PolicyVersion != "" {
		f.Versions = append(f.Versions, t.PolicyVersion) // of two first steps, the one that the turn is counted under
	}
	for _, s := range f.Steps {
		for _, v := range versionsOf(s) {
			if !slices.Contains(f.Versions, v) {
				f.Versions = append(f.Versions, v)
			}
		}
	}
	return f
}

// KnowTools tells the facts what the registered tools do.
func (f *Facts) KnowTools(kindOf func(tool string) event.ToolKind) {
	for i := range f.Calls {
		f.Calls[i].kind = kindOf(f.Calls[i].GetTool())
	}
}

// opens says whether an event is an act of the turn itself, by which a turn may begin before its TurnStarted.
func opens(e *event.SessionEvent) bool {
	switch body := e.GetBody().(type) {
	case *event.SessionEvent_TurnStarted, *event.SessionEvent_StepCompleted, *event.SessionEvent_ToolCalled,
		*event.SessionEvent_ToolReturned, *event.SessionEvent_EditProposed, *event.SessionEvent_TurnEnded:
		return true
	case *event.SessionEvent_Stub:
		switch body.Stub.GetBody() {
		case "edit_decided", "edit_observed", "checks_ran", "feedback_given", "evidence_added", "infrastructure_reported":
			return false // evidence on a turn, whatever its size
		}
		return true
	}
	return false
}

// Opens says whether the event opens its turn if the turn is not known yet.
func Opens(e *event.SessionEvent) bool { return opens(e) }

func versionsOf(s *event.StepCompleted) []string {
	if len(s.GetVersionSpans()) == 0 {
		return []string{s.GetPolicyVersion()}
	}
	var out []string
	for _, span := range s.GetVersionSpans() {
		if !slices.Contains(out, span.GetVersion()) {
			out = append(out, span.GetVersion())
		}
	}
	return out
}

// Delivered says whether an edit was proposed and shown, decided or applied.
func (f *Facts) Delivered() bool {
	for i := range f.Edits {
		e := &f.Edits[i]
		decided := e.Decided != nil && e.Decided.GetSource() != event.DecisionSource_ABORT
		if e.GetShown() || e.GetApplied() || e.Decided.GetShown() || decided {
			return true
		}
	}
	return false
}

// InTree says whether the edit reached the working tree.
func (e *Edit) InTree() bool {
	switch e.Decided.GetDecision() {
	case event.Decision_ACCEPTED, event.Decision_PARTLY:
		return true
	case event.Decision_REJECTED:
		return false
	default:
		return e.GetApplied()
	}
}

// QuestionCalls are the calls of a question tool.
func (f *Facts) QuestionCalls() int {
	n := 0
	for i := range f.Calls {
		if f.Calls[i].GetKind() == event.ToolKind_QUESTION {
			n++
		}
	}
	return n
}

// Questions are the calls of a question tool, and the question at the end.
func (f *Facts) Questions() int {
	n := f.QuestionCalls()
	if f.Ended.GetAsksUser() {
		n++
	}
	return n
}

// AsksInsteadOfEditing says whether the turn ended with a question and delivered nothing.
func (f *Facts) AsksInsteadOfEditing() bool {
	return f.Ended != nil && f.Ended.GetReason() == event.EndReason_COMPLETED && f.endsAsking() && !f.Delivered()
}

// endsAsking says whether the turn's last word is a question: its final message, or a call of a question tool after
// which nothing was generated. A question that was answered within the turn, and then gave up, is no question turn.
func (f *Facts) endsAsking() bool {
	if f.Ended.GetAsksUser() {
		return true
	}
	if len(f.Calls) == 0 {
		return false
	}
	last := &f.Calls[len(f.Calls)-1]
	if last.GetKind() != event.ToolKind_QUESTION {
		return false
	}
	if len(f.Steps) == 0 || last.GetStep() == 0 {
		return f.LastStepAt.UnixMicro() <= last.At || f.LastStepAt.IsZero()
	}
	return f.Steps[len(f.Steps)-1].GetStep() <= last.GetStep()
}

// Outcome is how the turn ended, in the words of the sample schema.
func (f *Facts) Outcome() string {
	switch f.Ended.GetReason() {
	case event.EndReason_COMPLETED:
		return "completed"
	case event.EndReason_ABORTED_BY_USER:
		return "aborted"
	case event.EndReason_LENGTH:
		return "length"
	case event.EndReason_PROVIDER_FAILED, event.EndReason_HARNESS_FAILED:
		return "error"
	default:
		return "unended"
	}
}

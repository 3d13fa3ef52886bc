package signal

import (
	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// Vector is the signals of a turn by their place in ledger.Signals.
type Vector []ledger.Value

// Set puts a signal's value. The name must be one of ledger.Signals: a wrong one is a programming error.
func (v Vector) Set(name string, value ledger.Value) {
	i, ok := ledger.SignalIndex[name]
	if !ok {
		panic("unknown signal " + name)
	}
	v[i] = value
}

// Context is what a turn's signals need from outside its own events.
type Context struct {
	Tools    *ToolSchemas // nil: no schema is registered
	PEdit    float64
	Answered bool     // the turn's question was answered by a next turn
	Shown    FollowUp // the user's next move
	FollowUp Verdict  // what it says
	OpenFor  float64  // seconds for which a turn that never ended was waited for
}

// Compute gives all signals of a turn.
func Compute(f *turn.Facts, c Context) Vector {
	v := make(Vector, len(ledger.Signals))
	v.Set("intent.p_edit", ledger.Of(c.PEdit))
	editSignals(v, f)
	followUpSignals(v, f, c)
	toolSignals(v, f, c.Tools)
	effortSignals(v, f, c.OpenFor)
	careSignals(v, f)
	stallingSignals(v, f, c)
	explicitSignals(v, f)
	return v
}

func explicitSignals(v Vector, f *turn.Facts) {
	if n := len(f.Feedback); n > 0 {
		v.Set("explicit.thumb", ledger.Of(f.Feedback[n-1].GetRating()))
	}
	v.Set("outcome.delivered", flag(f.Delivered()))
	if f.Ended != nil {
		v.Set("outcome.aborted", flag(f.Ended.GetReason() == event.EndReason_ABORTED_BY_USER))
	}
}

func stallingSignals(v Vector, f *turn.Facts, c Context) {
	questions := f.Questions()
	v.Set("stalling.questions", ledger.Of(float64(questions)))
	v.Set("stalling.question_calls", ledger.Of(float64(f.QuestionCalls())))
	asks := f.AsksInsteadOfEditing() && c.PEdit > 0
	v.Set("stalling.question", flag(asks))
	if asks {
		v.Set("stalling.answered", flag(c.Answered))
	}
	failed := 0
	for i := range f.Calls {
		if kind := f.Calls[i].GetKind(); (kind == event.ToolKind_READ || kind == event.ToolKind_SEARCH) && Failed(f.Calls[i].Returned) {
			failed++
		}
	}
	v.Set("giving_up.after_failed_lookups", flag(f.Ended != nil && failed > 0 && !f.Delivered() && !asks && c.PEdit > 0))
}

func effortSignals(v Vector, f *turn.Facts, openFor float64) {
	v.Set("effort.steps", ledger.Of(float64(len(f.Steps)+f.Stubs["step_completed"])))
	var thinking, arguments, final, model sum
	counted := true
	for i, s := range f.Steps {
		t := s.GetTokens()
		counted = counted && t != nil && (t.Thinking != nil || t.ToolArgument != nil || t.Final != nil)
		thinking.addIf(t != nil && t.Thinking != nil, float64(t.GetThinking()))
		arguments.addIf(t != nil && t.ToolArgument != nil, float64(t.GetToolArgument()))
		final.addIf(t != nil && t.Final != nil, float64(t.GetFinal()))
		model.addIf(s.LatencyMs != nil, s.GetLatencyMs()/1000)
		if i == 0 && s.TimeToFirstTokenMs != nil {
			v.Set("effort.time_to_first_token_s", ledger.Of(s.GetTimeToFirstTokenMs()/1000))
		}
	}
	var output sum
	for i := range f.Calls {
		r := f.Calls[i].Returned
		output.addIf(r != nil && r.OutputTokens != nil, float64(r.GetOutputTokens()))
	}
	if counted { // of a turn in which a step was not counted, the sum is not known
		v.Set("effort.thinking_tokens", thinking.value())
		v.Set("effort.tool_argument_tokens", arguments.value())
		v.Set("effort.final_tokens", final.value())
	}
	v.Set("effort.tool_output_tokens", output.value())
	v.Set("effort.model_s", model.value())
	// A turn that never ended took at least as long as it was waited for: a hang is no way to be fast.
	if f.Ended == nil && openFor > 0 {
		v.Set("effort.wall_s", ledger.Of(openFor))
	}
	if end := f.EndedAt; !end.IsZero() && !f.StartedAt.IsZero() && !end.Before(f.StartedAt) {
		v.Set("effort.wall_s", ledger.Of(end.Sub(f.StartedAt).Seconds()))
	}
}

// sum is null until something was added.
type sum struct {
	total float64
	known bool
}

func (s *sum) addIf(observed bool, x float64) {
	if observed {
		s.total += x
		s.known = true
	}
}

func (s *sum) value() ledger.Value { return ledger.Value{Number: s.total, Known: s.known} }

func flag(b bool) ledger.Value {
	if b {
		return ledger.Of(1)
	}
	return ledger.Of(0)
}

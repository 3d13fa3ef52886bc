package signal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// told is what one event of a turn says.
type told func(e *event.SessionEvent)

// facts are those of a turn whose events came a second apart.
func facts(events ...told) *turn.Facts {
	t := &turn.Turn{}
	for i, tell := range events {
		e := &event.SessionEvent{OccurredAt: timestamppb.New(time.Unix(1_800_000_000+int64(i), 0))}
		tell(e)
		t.Entries = append(t.Entries, turn.Entry{Offset: int64(i), Event: e})
	}
	return turn.Fold(t)
}

func start(e *event.SessionEvent) {
	e.Body = &event.SessionEvent_TurnStarted{TurnStarted: &event.TurnStarted{}}
}

func stepOf(s *event.StepCompleted) told {
	return func(e *event.SessionEvent) { e.Body = &event.SessionEvent_StepCompleted{StepCompleted: s} }
}

func callOf(c *event.ToolCalled) told {
	return func(e *event.SessionEvent) { e.Body = &event.SessionEvent_ToolCalled{ToolCalled: c} }
}

func call(id string, step uint32, kind event.ToolKind, arguments string) told {
	return callOf(&event.ToolCalled{CallId: id, Step: step, Tool: kind.String(), Kind: kind, Raw: &event.ToolCalled_Arguments{Arguments: arguments}})
}

func result(id string, o event.ToolOutcome, output string) told {
	return func(e *event.SessionEvent) {
		e.Body = &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{CallId: id, Outcome: o, Output: output}}
	}
}

func edit(p *event.EditProposed) told {
	return func(e *event.SessionEvent) { e.Body = &event.SessionEvent_EditProposed{EditProposed: p} }
}

func decide(id string, d event.Decision, source event.DecisionSource) told {
	return func(e *event.SessionEvent) {
		e.Body = &event.SessionEvent_EditDecided{EditDecided: &event.EditDecided{EditId: id, Decision: d, Source: source}}
	}
}

func observe(o *event.EditObserved) told {
	return func(e *event.SessionEvent) { e.Body = &event.SessionEvent_EditObserved{EditObserved: o} }
}

// seen is an observation with both scores.
func seen(id string, seconds, fourGram, noRevert float64) told {
	return observe(&event.EditObserved{EditId: id, SecondsSinceAcceptance: seconds, FourGram: &fourGram, NoRevert: &noRevert})
}

func check(c *event.ChecksRan) told {
	return func(e *event.SessionEvent) { e.Body = &event.SessionEvent_ChecksRan{ChecksRan: c} }
}

// ran is a run of the tests by the agent; a negative number is not known.
func ran(before, after int) told {
	c := &event.ChecksRan{Kind: event.CheckKind_TEST}
	if before >= 0 {
		c.FailuresBefore = proto.Uint32(uint32(before))
	}
	if after >= 0 {
		c.FailuresAfter = proto.Uint32(uint32(after))
	}
	return check(c)
}

func rated(rating float64) told {
	return func(e *event.SessionEvent) {
		e.Body = &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: rating}}
	}
}

func end(t *event.TurnEnded) told {
	return func(e *event.SessionEvent) { e.Body = &event.SessionEvent_TurnEnded{TurnEnded: t} }
}

func done(e *event.SessionEvent) { end(&event.TurnEnded{Reason: event.EndReason_COMPLETED})(e) }

func stub(body string) told {
	return func(e *event.SessionEvent) {
		e.Body = &event.SessionEvent_Stub{Stub: &event.Stub{Reason: "too_large", Body: body}}
	}
}

// vectorCase is a turn, what else is known of it, and one of its signals; a nil want is null.
type vectorCase struct {
	name    string
	events  []told
	context Context
	signal  string
	want    any
}

func runVectorCases(t *testing.T, cases []vectorCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.signal+": "+c.name, func(t *testing.T) {
			t.Parallel()
			i, ok := ledger.SignalIndex[c.signal]
			require.True(t, ok)
			got := Compute(facts(c.events...), c.context)[i]
			if c.want == nil {
				require.False(t, got.Known, "not observed is null, got %v", got.Number)
				return
			}
			require.True(t, got.Known, "observed")
			require.InDelta(t, c.want, got.Number, 1e-9)
		})
	}
}

func TestEffortSignals(t *testing.T) {
	t.Parallel()
	runVectorCases(t, effortSignalsCases())
}

func effortSignalsCases() []vectorCase {
	step := func(n uint32, thinking, argument, final *uint32, latency, first *float64) told {
		return stepOf(&event.StepCompleted{
			Step: n, PolicyVersion: "a", LatencyMs: latency, TimeToFirstTokenMs: first,
			Tokens: &event.TokenCounts{Thinking: thinking, ToolArgument: argument, Final: final},
		})
	}
	n, s := proto.Uint32, proto.Float64
	two := []told{start, step(1, n(10), n(1), n(100), s(1500), s(250)), step(2, nil, n(2), n(200), s(500), s(999)), done}
	bare := []told{start, stepOf(&event.StepCompleted{Step: 1, PolicyVersion: "a"}), done}
	result := func(id string, tokens *uint32) told {
		return func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{CallId: id, OutputTokens: tokens}}
		}
	}
	return []vectorCase{
		{"two", two, Context{}, "effort.steps", 2},
		{"none", []told{start}, Context{}, "effort.steps", 0},
		{"one of them a stub", append(two[:3:3], stub("step_completed")), Context{}, "effort.steps", 3},
		{"one step says", two, Context{}, "effort.thinking_tokens", 10},
		{"no step says", bare, Context{}, "effort.thinking_tokens", nil},
		{"both say", two, Context{}, "effort.tool_argument_tokens", 3},
		{"no step says", bare, Context{}, "effort.tool_argument_tokens", nil},
		{"both say", two, Context{}, "effort.final_tokens", 300},
		{"a step that was not counted", append(two[:3:3], stepOf(&event.StepCompleted{Step: 3, PolicyVersion: "a"}), done), Context{}, "effort.final_tokens", nil},
		{"a step that was not counted", append(two[:3:3], stepOf(&event.StepCompleted{Step: 3, PolicyVersion: "a"}), done), Context{}, "effort.thinking_tokens", nil},
		{"a step that was not counted", append(two[:3:3], stepOf(&event.StepCompleted{Step: 3, PolicyVersion: "a"}), done), Context{}, "effort.tool_argument_tokens", nil},
		{"zero is known", []told{start, step(1, nil, nil, n(0), nil, nil)}, Context{}, "effort.final_tokens", 0},
		{"no step says", bare, Context{}, "effort.final_tokens", nil},
		{"one result says", []told{start, call("c", 1, event.ToolKind_READ, "{}"), result("c", n(7)), call("d", 1, event.ToolKind_READ, "{}"), result("d", nil)}, Context{}, "effort.tool_output_tokens", 7},
		{"no result came", []told{start, call("c", 1, event.ToolKind_READ, "{}")}, Context{}, "effort.tool_output_tokens", nil},
		{"summed", two, Context{}, "effort.model_s", 2},
		{"not known", bare, Context{}, "effort.model_s", nil},
		{"of the first step", two, Context{}, "effort.time_to_first_token_s", .25},
		{"not of a later one", []told{start, step(1, nil, nil, nil, nil, nil), step(2, nil, nil, nil, nil, s(3))}, Context{}, "effort.time_to_first_token_s", nil},
		{"from start to end", two, Context{OpenFor: 7200}, "effort.wall_s", 3},
		{"never ended: as long as it was waited for", two[:3], Context{OpenFor: 7200}, "effort.wall_s", 7200},
		{"never ended, and not waited for", two[:3], Context{}, "effort.wall_s", nil},
		{"ended before it began", []told{done, start}, Context{}, "effort.wall_s", nil},
	}
}

func TestStallingSignals(t *testing.T) {
	t.Parallel()
	runVectorCases(t, stallingSignalsCases())
}

func stallingSignalsCases() []vectorCase {
	asks := end(&event.TurnEnded{Reason: event.EndReason_COMPLETED, AsksUser: true})
	change := edit(&event.EditProposed{EditId: "e", Applied: true})
	lookup := []told{start, call("c", 1, event.ToolKind_SEARCH, "{}"), result("c", event.ToolOutcome_EXECUTION_FAILED, "")}
	const question, questions, answered, giveUp = "stalling.question", "stalling.questions", "stalling.answered", "giving_up.after_failed_lookups"
	return []vectorCase{
		{"at the end", []told{start, asks}, Context{PEdit: 1}, question, 1},
		{"where the intent is unknown", []told{start, asks}, Context{PEdit: .5}, question, 1},
		{"where no edit was asked for", []told{start, asks}, Context{PEdit: 0}, question, 0},
		{"with an edit", []told{start, change, asks}, Context{PEdit: 1}, question, 0},
		{"none", []told{start, done}, Context{PEdit: 1}, question, 0},
		{"by tool and at the end", []told{start, call("c", 1, event.ToolKind_QUESTION, "{}"), asks}, Context{PEdit: 1}, questions, 2},
		{"none", []told{start, done}, Context{PEdit: 1}, questions, 0},
		{"by tool, not at the end", []told{start, call("c", 1, event.ToolKind_QUESTION, "{}"), asks}, Context{PEdit: 1}, "stalling.question_calls", 1},
		{"answered", []told{start, asks}, Context{PEdit: 1, Answered: true}, answered, 1},
		{"not answered", []told{start, asks}, Context{PEdit: 1}, answered, 0},
		{"no question", []told{start, done}, Context{PEdit: 1, Answered: true}, answered, nil},
		{"after a failed search", append(lookup, done), Context{PEdit: 1}, giveUp, 1},
		{"after a failed command", []told{start, call("c", 1, event.ToolKind_TERMINAL, "{}"), result("c", event.ToolOutcome_EXECUTION_FAILED, ""), done}, Context{PEdit: 1}, giveUp, 0},
		{"with an edit", append(lookup[:3:3], change, done), Context{PEdit: 1}, giveUp, 0},
		{"with a question", append(lookup[:3:3], asks), Context{PEdit: 1}, giveUp, 0},
		{"no edit asked for", append(lookup[:3:3], done), Context{PEdit: 0}, giveUp, 0},
		{"still running", lookup, Context{PEdit: 1}, giveUp, 0},
	}
}

func TestOutcomeAndExplicitSignals(t *testing.T) {
	t.Parallel()
	runVectorCases(t, outcomeAndExplicitSignalsCases())
}

func outcomeAndExplicitSignalsCases() []vectorCase {
	return []vectorCase{
		{"by the user", []told{start, end(&event.TurnEnded{Reason: event.EndReason_ABORTED_BY_USER})}, Context{}, "outcome.aborted", 1},
		{"completed", []told{start, done}, Context{}, "outcome.aborted", 0},
		{"never ended", []told{start}, Context{}, "outcome.aborted", nil},
		{"an edit", []told{start, edit(&event.EditProposed{EditId: "e", Shown: true})}, Context{}, "outcome.delivered", 1},
		{"an edit that nobody saw", []told{start, edit(&event.EditProposed{EditId: "e"})}, Context{}, "outcome.delivered", 0},
		{"nothing", []told{start}, Context{}, "outcome.delivered", 0},
		{"the last one", []told{start, rated(1), rated(-.5)}, Context{}, "explicit.thumb", -.5},
		{"none", []told{start}, Context{}, "explicit.thumb", nil},
		{"as told", nil, Context{PEdit: .25}, "intent.p_edit", .25},
		{"as told", nil, Context{FollowUp: Verdict{Polarity: ledger.Of(-1), Confidence: ledger.Of(.8)}}, "follow_up.polarity", -1},
		{"as told", nil, Context{FollowUp: Verdict{Polarity: ledger.Of(-1), Confidence: ledger.Of(.8)}}, "follow_up.confidence", .8},
		{"silence", nil, Context{}, "follow_up.polarity", nil},
		{"silence", nil, Context{}, "follow_up.confidence", nil},
	}
}

func TestAnUnknownSignalIsAProgrammersMistake(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { make(Vector, len(ledger.Signals)).Set("edits.retension", ledger.Of(1)) })
}

// Every signal of the registry is null in some turn or known in every one, as its kind demands.
func TestAnEmptyTurnKnowsOnlyWhatItCanCount(t *testing.T) {
	t.Parallel()
	known := []string{}
	for i, v := range Compute(facts(), Context{Shown: FollowUp{Silence: true}}) {
		if v.Known {
			known = append(known, ledger.Signals[i].Name)
			require.Zero(t, v.Number, ledger.Signals[i].Name)
		}
	}
	require.ElementsMatch(t, []string{
		"edits.proposed", "edits.shown", "edits.decided", "edits.accepted", "edits.rejected", "edits.applied", "edits.characters",
		"tools.calls", "tools.invalid", "tools.invalid_json", "tools.not_an_object", "tools.unknown_tool", "tools.missing_required",
		"tools.unexpected_property", "tools.wrong_type", "tools.truncated_by_length", "tools.repaired", "tools.failed", "tools.repeated",
		"tools.serial_could_be_parallel", "effort.steps", "stalling.question", "stalling.questions", "giving_up.after_failed_lookups",
		"intent.p_edit", "outcome.delivered", "stalling.question_calls",
		"tools.execution_failed", "tools.command_timeout", "tools.edit_no_match", "tools.edit_ambiguous", "tools.not_read_yet",
		"tools.unexpected_environment", "tools.user_rejected", "tools.policy_denied",
	}, known)
}

// Every signal has a case in which it is known and, unless an empty turn knows it too, one in which it is null.
func TestEverySignalHasATableOfCases(t *testing.T) {
	t.Parallel()
	known, null := map[string]bool{}, map[string]bool{}
	for _, cases := range [][]vectorCase{
		editSignalsCases(), retentionCases(), retentionAtHorizonsCases(), serialCallsCases(), toolSignalsCases(), effortSignalsCases(),
		careSignalsCases(), stallingSignalsCases(), outcomeAndExplicitSignalsCases(), followUpSignalsCases(),
	} {
		for _, c := range cases {
			if c.want == nil {
				null[c.signal] = true
			} else {
				known[c.signal] = true
			}
		}
	}
	empty := Compute(facts(), Context{Shown: FollowUp{Silence: true}})
	for i, def := range ledger.Signals {
		require.True(t, known[def.Name], "%s: no case in which it is known", def.Name)
		require.True(t, null[def.Name] || empty[i].Known, "%s: no case in which it is null", def.Name)
		require.NotEmpty(t, def.Doc, def.Name)
	}
	require.Len(t, ledger.SignalIndex, len(ledger.Signals), "no name twice")
}

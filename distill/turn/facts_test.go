package turn_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/distill/turn"
	"millrace/schemas/event"
)

var epoch = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// at is an event so many seconds after the epoch.
func at(seconds int, e *event.SessionEvent) *event.SessionEvent {
	e.OccurredAt = timestamppb.New(epoch.Add(time.Duration(seconds) * time.Second))
	return e
}

func fold(events ...*event.SessionEvent) *turn.Facts {
	t := &turn.Turn{}
	for i, e := range events {
		t.Entries = append(t.Entries, turn.Entry{Offset: int64(i), Event: e})
	}
	return turn.Fold(t)
}

func started(s *event.TurnStarted) *event.SessionEvent {
	return &event.SessionEvent{UnitId: "ann", Body: &event.SessionEvent_TurnStarted{TurnStarted: s}}
}

func stepped(s *event.StepCompleted) *event.SessionEvent {
	return &event.SessionEvent{Body: &event.SessionEvent_StepCompleted{StepCompleted: s}}
}

func called(id string, step uint32, kind event.ToolKind) *event.SessionEvent {
	return &event.SessionEvent{Body: &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{CallId: id, Step: step, Tool: "t", Kind: kind}}}
}

func returned(id string, o event.ToolOutcome) *event.SessionEvent {
	return &event.SessionEvent{Body: &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{CallId: id, Outcome: o}}}
}

func proposed(e *event.EditProposed) *event.SessionEvent {
	return &event.SessionEvent{Body: &event.SessionEvent_EditProposed{EditProposed: e}}
}

func decided(id string, d event.Decision, source event.DecisionSource) *event.SessionEvent {
	return &event.SessionEvent{Body: &event.SessionEvent_EditDecided{EditDecided: &event.EditDecided{EditId: id, Decision: d, Source: source}}}
}

func observed(id string, seconds float64) *event.SessionEvent {
	return &event.SessionEvent{Body: &event.SessionEvent_EditObserved{EditObserved: &event.EditObserved{EditId: id, SecondsSinceAcceptance: seconds, FourGram: proto.Float64(1)}}}
}

func ended(e *event.TurnEnded) *event.SessionEvent {
	return &event.SessionEvent{Body: &event.SessionEvent_TurnEnded{TurnEnded: e}}
}

func TestFoldOrdersByTheClientsTimeThenByOffset(t *testing.T) {
	t.Parallel()
	f := fold(
		at(30, called("c2", 2, event.ToolKind_READ)),
		at(30, called("c3", 2, event.ToolKind_READ)),
		at(20, stepped(&event.StepCompleted{Step: 2, PolicyVersion: "b"})),
		at(40, stepped(&event.StepCompleted{Step: 1, PolicyVersion: "a"})), // a step's number outranks its time
		at(10, called("c1", 1, event.ToolKind_READ)),
		at(50, returned("c1", event.ToolOutcome_OK)),
		at(0, started(&event.TurnStarted{Text: "x", Context: &event.TurnContext{HarnessVersion: "h"}})),
		at(1, started(&event.TurnStarted{Text: "the same start, from another source"})),
		at(70, ended(&event.TurnEnded{Reason: event.EndReason_LENGTH})),
		at(80, ended(&event.TurnEnded{Reason: event.EndReason_COMPLETED})),
	)
	require.Equal(t, "x", f.Started.GetText())
	require.Equal(t, "h", f.Context.GetHarnessVersion())
	require.Equal(t, "ann", f.UnitID)
	require.Equal(t, epoch, f.StartedAt)
	require.Equal(t, epoch.Add(70*time.Second), f.EndedAt)
	require.Equal(t, "length", f.Outcome())
	require.Equal(t, []string{"a", "b"}, f.Versions)
	require.Equal(t, epoch.Add(40*time.Second), f.LastStepAt)
	ids := []string{}
	for i := range f.Calls {
		ids = append(ids, f.Calls[i].GetCallId())
	}
	require.Equal(t, []string{"c1", "c2", "c3"}, ids)
	require.NotNil(t, f.Calls[0].Returned)
	require.Nil(t, f.Calls[1].Returned)
}

func TestFoldJoinsEdits(t *testing.T) {
	t.Parallel()
	f := fold(
		at(0, proposed(&event.EditProposed{EditId: "e1", CharactersAdded: 3, CharactersRemoved: 4})),
		at(1, proposed(&event.EditProposed{EditId: "e2"})),
		at(2, proposed(&event.EditProposed{EditId: "e1", CharactersAdded: 3, CharactersRemoved: 4, Applied: true})),
		at(3, decided("e1", event.Decision_ACCEPTED, event.DecisionSource_USER)),
		at(9, decided("e1", event.Decision_REJECTED, event.DecisionSource_USER)),
		at(5, observed("e1", 120)),
		at(6, observed("e1", 30)),
		at(7, observed("of no edit", 30)),
	)
	require.Len(t, f.Edits, 2, "the same edit, proposed again, is one edit")
	e := &f.Edits[0]
	require.EqualValues(t, 7, e.Characters())
	require.True(t, e.GetApplied())
	require.True(t, e.RejectedByUser(), "the last decision counts")
	require.False(t, e.AcceptedByUser())
	require.Len(t, e.Observed, 2)
	require.EqualValues(t, 30, e.Observed[0].GetSecondsSinceAcceptance())
	require.Empty(t, f.Edits[1].Observed)
	require.Nil(t, f.Edits[1].Decided)
}

func TestFoldTakesTheStrictestPrivacyAndCountsStubs(t *testing.T) {
	t.Parallel()
	f := fold(
		at(0, started(&event.TurnStarted{})),
		at(1, &event.SessionEvent{Privacy: event.Privacy_NO_CONTENT, Body: &event.SessionEvent_Stub{Stub: &event.Stub{Body: "tool_called"}}}),
		at(2, &event.SessionEvent{Privacy: event.Privacy_FULL, Body: &event.SessionEvent_Stub{Stub: &event.Stub{Body: "tool_called"}}}),
	)
	require.Equal(t, event.Privacy_NO_CONTENT, f.Privacy)
	require.Equal(t, map[string]int{"tool_called": 2}, f.Stubs)
	require.Equal(t, "unended", f.Outcome())
	require.True(t, f.EndedAt.IsZero())
}

func TestOccurredAtIsCorrectedForSkew(t *testing.T) {
	t.Parallel()
	e := at(0, started(nil))
	require.Equal(t, epoch.UnixMicro(), turn.OccurredAt(e))
	e.SentAt = timestamppb.New(epoch.Add(2 * time.Second))
	require.Equal(t, epoch.UnixMicro(), turn.OccurredAt(e), "both stamps are needed")
	e.ReceivedAt = timestamppb.New(epoch.Add(time.Hour))
	require.Equal(t, epoch.Add(time.Hour-2*time.Second).UnixMicro(), turn.OccurredAt(e))
}

// An edit is delivered if it was proposed and shown, decided or applied. It is in the tree if it was accepted, or
// applied and not refused.
func TestDeliveredAndInTree(t *testing.T) {
	t.Parallel()
	decision := func(d event.Decision, source event.DecisionSource) *event.EditDecided {
		return &event.EditDecided{EditId: "e", Decision: d, Source: source}
	}
	shown := decision(event.Decision_REJECTED, event.DecisionSource_ABORT)
	shown.Shown = proto.Bool(true)
	for name, c := range map[string]struct {
		edit              *event.EditProposed
		decided           *event.EditDecided
		delivered, inTree bool
	}{
		"none":                        {nil, nil, false, false},
		"proposed only":               {&event.EditProposed{}, nil, false, false},
		"shown":                       {&event.EditProposed{Shown: true}, nil, true, false},
		"applied at once":             {&event.EditProposed{Applied: true}, nil, true, true},
		"accepted":                    {&event.EditProposed{}, decision(event.Decision_ACCEPTED, event.DecisionSource_USER), true, true},
		"auto-accepted":               {&event.EditProposed{}, decision(event.Decision_ACCEPTED, event.DecisionSource_AUTO_ACCEPT), true, true},
		"partly":                      {&event.EditProposed{}, decision(event.Decision_PARTLY, event.DecisionSource_USER), true, true},
		"rejected":                    {&event.EditProposed{}, decision(event.Decision_REJECTED, event.DecisionSource_USER), true, false},
		"applied, then rejected":      {&event.EditProposed{Applied: true}, decision(event.Decision_REJECTED, event.DecisionSource_USER), true, false},
		"refused by a hook":           {&event.EditProposed{}, decision(event.Decision_REJECTED, event.DecisionSource_HOOK), true, false},
		"dropped by an abort":         {&event.EditProposed{}, decision(event.Decision_REJECTED, event.DecisionSource_ABORT), false, false},
		"shown, dropped by an abort":  {&event.EditProposed{}, shown, true, false},
		"applied, then the abort":     {&event.EditProposed{Applied: true}, nil, true, true},
		"decided without a decision":  {&event.EditProposed{Applied: true}, decision(0, event.DecisionSource_CONFIG), true, true},
		"a decision without any edit": {nil, decision(event.Decision_ACCEPTED, event.DecisionSource_USER), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var events []*event.SessionEvent
			if c.edit != nil {
				c.edit.EditId = "e"
				events = append(events, at(0, proposed(c.edit)))
			}
			if c.decided != nil {
				events = append(events, at(1, &event.SessionEvent{Body: &event.SessionEvent_EditDecided{EditDecided: c.decided}}))
			}
			f := fold(events...)
			require.Equal(t, c.delivered, f.Delivered())
			if c.edit != nil {
				require.Equal(t, c.inTree, f.Edits[0].InTree())
			}
		})
	}
}

func TestAsksInsteadOfEditing(t *testing.T) {
	t.Parallel()
	const question = event.ToolKind_QUESTION
	done := func(asks bool) *event.SessionEvent {
		return at(90, ended(&event.TurnEnded{Reason: event.EndReason_COMPLETED, AsksUser: asks}))
	}
	step := func(seconds int, n uint32) *event.SessionEvent {
		return at(seconds, stepped(&event.StepCompleted{Step: n, PolicyVersion: "a"}))
	}
	for name, c := range map[string]struct {
		events    []*event.SessionEvent
		asks      bool
		questions int
	}{
		"a final question":                 {[]*event.SessionEvent{step(1, 1), done(true)}, true, 1},
		"no question":                      {[]*event.SessionEvent{step(1, 1), done(false)}, false, 0},
		"the last call is a question":      {[]*event.SessionEvent{step(1, 1), at(2, called("c", 1, question)), done(false)}, true, 1},
		"a question answered in the turn":  {[]*event.SessionEvent{step(1, 1), at(2, called("c", 1, question)), step(3, 2), done(false)}, false, 1},
		"asked in the turn and at its end": {[]*event.SessionEvent{step(1, 1), at(2, called("c", 1, question)), step(3, 2), done(true)}, true, 2},
		"a question, then another call":    {[]*event.SessionEvent{step(1, 1), at(2, called("c", 1, question)), at(3, called("d", 1, event.ToolKind_READ)), done(false)}, false, 1},
		"a call without its step, last":    {[]*event.SessionEvent{step(1, 1), at(2, called("c", 0, question)), done(false)}, true, 1},
		"a call without its step, earlier": {[]*event.SessionEvent{at(1, called("c", 0, question)), step(2, 1), done(false)}, false, 1},
		"no steps known":                   {[]*event.SessionEvent{at(1, called("c", 0, question)), done(false)}, true, 1},
		"with an edit":                     {[]*event.SessionEvent{step(1, 1), at(2, proposed(&event.EditProposed{EditId: "e", Applied: true})), done(true)}, false, 1},
		"not ended":                        {[]*event.SessionEvent{step(1, 1), at(2, called("c", 1, question))}, false, 1},
		"aborted":                          {[]*event.SessionEvent{step(1, 1), at(90, ended(&event.TurnEnded{Reason: event.EndReason_ABORTED_BY_USER, AsksUser: true}))}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fold(c.events...)
			require.Equal(t, c.asks, f.AsksInsteadOfEditing())
			require.Equal(t, c.questions, f.Questions())
		})
	}
}

func TestFirstFollowUp(t *testing.T) {
	t.Parallel()
	next := func(key turn.Key, occurred, offset int64) turn.FollowUp {
		return turn.FollowUp{Key: key, OccurredAt: occurred, Offset: offset}
	}
	command := next(2, 101, 51)
	command.IsCommand = true
	undo := command
	undo.Relation = event.Relation_UNDO
	for name, c := range map[string]struct {
		follow []turn.FollowUp
		want   turn.Key // 0: none
	}{
		"none":                           {nil, 0},
		"one":                            {[]turn.FollowUp{next(1, 110, 60)}, 1},
		"the earliest, however it came":  {[]turn.FollowUp{next(1, 130, 60), next(2, 110, 61), next(3, 120, 62)}, 2},
		"one that began before the turn": {[]turn.FollowUp{next(1, 99, 60)}, 0},
		"at the same time, behind it":    {[]turn.FollowUp{next(1, 100, 60)}, 1},
		"at the same time, before it":    {[]turn.FollowUp{next(1, 100, 40)}, 0},
		"a command is none":              {[]turn.FollowUp{command, next(1, 110, 60)}, 1},
		"unless it undoes":               {[]turn.FollowUp{next(1, 110, 60), undo}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, known := range []bool{true, false} {
				x := turn.Turn{StartedAt: 100, StartedOffset: 50, Started: known}
				for _, f := range c.follow {
					x.Follow(f)
				}
				if c.want == 0 {
					require.Nil(t, x.First())
					continue
				}
				require.Equal(t, c.want, x.First().Key)
				if known {
					require.Len(t, x.FollowUps, 1, "the rest is not kept")
				}
			}
		})
	}
}

func TestVersionIsThatOfTheFirstStep(t *testing.T) {
	t.Parallel()
	x := &turn.Turn{}
	require.Equal(t, "none", x.Version())
	x.SawStep(&event.StepCompleted{Step: 2, PolicyVersion: "b"})
	require.Equal(t, "b", x.Version())
	x.SawStep(&event.StepCompleted{Step: 1, PolicyVersion: "b", VersionSpans: []*event.VersionSpan{{Version: "a", End: 3}, {Version: "b", Start: 3, End: 5}}})
	require.Equal(t, "a", x.Version(), "by which it began")
	x.SawStep(&event.StepCompleted{Step: 1, PolicyVersion: "c"})
	x.SawStep(&event.StepCompleted{Step: 3, PolicyVersion: "c"})
	require.Equal(t, "a", x.Version())
}

// An act of the turn opens it, evidence on it doesn't; a stub stands for what it was.
func TestOpens(t *testing.T) {
	t.Parallel()
	stub := func(body string) *event.SessionEvent {
		return &event.SessionEvent{Body: &event.SessionEvent_Stub{Stub: &event.Stub{Body: body}}}
	}
	for _, e := range []*event.SessionEvent{
		started(nil), stepped(nil), called("c", 1, 0), returned("c", 0), proposed(nil), ended(nil), stub("tool_called"), stub("step_completed"), stub(""),
	} {
		require.True(t, turn.Opens(e), e)
	}
	for _, e := range []*event.SessionEvent{
		decided("e", 0, 0), observed("e", 1), stub("edit_observed"), stub("feedback_given"),
		{},
		{Body: &event.SessionEvent_ChecksRan{}},
		{Body: &event.SessionEvent_FeedbackGiven{}},
		{Body: &event.SessionEvent_EvidenceAdded{}},
		{Body: &event.SessionEvent_InfrastructureReported{}},
	} {
		require.False(t, turn.Opens(e), e)
	}
}

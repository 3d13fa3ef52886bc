package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/distill/rehearsal"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

func TestAGoodTurnIsRewarded(t *testing.T) {
	t.Parallel()
	s := rehearsal.NewStream("s1", "ann", rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, "make the parser faster").Step(40, 3*time.Second)
	edit := s.Edit(400)
	s.Step(20, time.Second).End(event.EndReason_COMPLETED, false)
	s.Wait(5*time.Second).Decide(edit, event.Decision_ACCEPTED)
	s.Wait(10*time.Minute).Observe(edit, 600, 1)

	e, settled := rehearsal.Run(rehearsal.Records(s))
	require.NoError(t, e.Account().Check())
	require.Len(t, settled, 1)
	row := settled[0].Row
	require.Equal(t, ledger.Rewarded, row.Disposition, row.Reason)
	require.Equal(t, ledger.Of(1), row.Signal("edits.retention"))
	require.Greater(t, row.Reward.Number, 0.5)
	require.Len(t, settled[0].Samples, 1)
	sample := settled[0].Samples[0]
	require.Equal(t, 5+40+5+20, sample.Length())
	require.EqualValues(t, 5, sample.PromptLength)
	require.Nil(t, sample.TokenAdvantages)
	require.Equal(t, map[ledger.Disposition]int64{ledger.Rewarded: 1}, e.Account().ByDisposition())
}

func TestAMalformedCallIsPunishedOnItsOwnTokens(t *testing.T) {
	t.Parallel()
	s := rehearsal.NewStream("s1", "ann", rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, "make the parser faster").Step(40, 3*time.Second)
	s.Call("edit_file", event.ToolKind_EDIT_FILE, `{"path": `, event.ToolOutcome_EXECUTION_FAILED)
	s.Step(20, time.Second)
	edit := s.Edit(400)
	s.End(event.EndReason_COMPLETED, false).Wait(5*time.Second).Decide(edit, event.Decision_ACCEPTED)
	s.Wait(10*time.Minute).Observe(edit, 600, 1)

	_, settled := rehearsal.Run(rehearsal.Records(s))
	require.Len(t, settled, 1)
	row, sample := settled[0].Row, settled[0].Samples[0]
	require.Equal(t, ledger.Rewarded, row.Disposition)
	require.Equal(t, ledger.Of(1), row.Signal("tools.invalid"))
	require.Equal(t, ledger.Of(1), row.Signal("tools.invalid_json"))
	require.Greater(t, row.Advantage.Number, 0.0)
	require.InDelta(t, -0.3, sample.TokenAdvantages[5], 1e-6, "the step that broke the call")
	require.InDelta(t, row.Advantage.Number, sample.TokenAdvantages[5+40+5], 1e-6, "the step after it")
	require.Zero(t, sample.TokenAdvantages[0], "the prompt is not trained")
}

func TestAQuestionSettlesWithItsAnswer(t *testing.T) {
	t.Parallel()
	s := rehearsal.NewStream("s1", "ann", rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, "make it faster").Step(10, time.Second).End(event.EndReason_COMPLETED, true)
	s.Wait(time.Minute).Start(0, 0, "the parser").Step(40, 3*time.Second)
	edit := s.Edit(400)
	s.End(event.EndReason_COMPLETED, false).Wait(5*time.Second).Decide(edit, event.Decision_ACCEPTED)
	s.Wait(10*time.Minute).Observe(edit, 600, 1)

	_, settled := rehearsal.Run(rehearsal.Records(s))
	require.Len(t, settled, 2)
	question, final := settled[0].Row, settled[1].Row
	require.Equal(t, "s1-t1", question.TurnID)
	require.Equal(t, question.SettledAt, final.SettledAt, "a question settles with the turn that answers it")
	require.Equal(t, ledger.Of(1), question.Signal("stalling.answered"))
	require.InDelta(t, final.Reward.Number-0.2, question.Reward.Number, 0.05)
	require.Equal(t, ledger.Of(1), final.Signal("intent.p_edit"), "the answer inherits what was asked for")
}

func TestDispositions(t *testing.T) {
	t.Parallel()
	at := rehearsal.Epoch
	edit := func(s *rehearsal.Stream) string {
		s.Start(event.Intent_EDIT, 0, "do it").Step(10, time.Second)
		return s.Edit(300)
	}
	cases := map[string]struct {
		make func(s *rehearsal.Stream)
		want ledger.Disposition
	}{
		"a text answer, then silence": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_ASK, 0, "why?").Step(10, time.Second).End(event.EndReason_COMPLETED, false)
		}, ledger.Censored},
		"gave up": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_EDIT, 0, "do it").Step(10, time.Second).End(event.EndReason_COMPLETED, false)
		}, ledger.Rewarded},
		"an applied edit that nobody observed": {func(s *rehearsal.Stream) {
			e := edit(s)
			s.End(event.EndReason_COMPLETED, false).Decide(e, event.Decision_ACCEPTED)
		}, ledger.Censored},
		"never ended": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_EDIT, 0, "do it").Step(10, time.Second)
		}, ledger.Rewarded},
		"aborted before any edit": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_EDIT, 0, "do it").Step(10, time.Second).End(event.EndReason_ABORTED_BY_USER, false)
		}, ledger.Rewarded},
		"provider failed before the first token": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_EDIT, 0, "do it").End(event.EndReason_PROVIDER_FAILED, false)
		}, ledger.Faulted},
		"provider failed later, without evidence": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_EDIT, 0, "do it").Step(10, time.Second).End(event.EndReason_PROVIDER_FAILED, false)
		}, ledger.Rewarded},
		"provider failed later, with evidence": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_EDIT, 0, "do it").Step(10, time.Second)
			s.Emit("engine", &event.SessionEvent{Body: &event.SessionEvent_InfrastructureReported{InfrastructureReported: &event.InfrastructureReported{Status: event.InfrastructureStatus_OUTAGE}}})
			s.End(event.EndReason_PROVIDER_FAILED, false)
		}, ledger.Faulted},
		"an event was lost": {func(s *rehearsal.Stream) {
			e := edit(s)
			s.Events = append(s.Events[:2], s.Events[3:]...)
			s.End(event.EndReason_COMPLETED, false).Decide(e, event.Decision_REJECTED)
		}, ledger.Incomplete},
		"an event was too large": {func(s *rehearsal.Stream) {
			e := edit(s)
			s.Events[2].Body = &event.SessionEvent_Stub{Stub: &event.Stub{Reason: "too_large", Body: "tool_called", Bytes: 1 << 25}}
			s.End(event.EndReason_COMPLETED, false).Decide(e, event.Decision_REJECTED)
		}, ledger.Rewarded},
		"three policy versions": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_EDIT, 0, "do it").Step(10, time.Second)
			s.Version = "v2"
			s.Step(10, time.Second)
			s.Version = "v3"
			s.Step(10, time.Second).End(event.EndReason_COMPLETED, false)
		}, ledger.MixedPolicy},
		"no content": {func(s *rehearsal.Stream) {
			s.Start(event.Intent_EDIT, 0, "do it").Step(10, time.Second).End(event.EndReason_COMPLETED, false)
			for _, ev := range s.Events {
				ev.Privacy = event.Privacy_NO_CONTENT
			}
		}, ledger.NoTokens},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rehearsal.NewStream("s1", "ann", at)
			c.make(s)
			e, settled := rehearsal.Run(rehearsal.Records(s))
			require.NoError(t, e.Account().Check())
			require.Len(t, settled, 1)
			require.Equal(t, c.want, settled[0].Row.Disposition, settled[0].Row.Reason)
		})
	}
}

// Two questions whose starts arrive in the wrong order must not answer each other.
func TestTurnsWhoseStartsArriveInTheWrongOrderFormNoCircle(t *testing.T) {
	t.Parallel()
	s := rehearsal.NewStream("s1", "ann", rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, "make it faster").Step(10, time.Second).End(event.EndReason_COMPLETED, true)
	s.Wait(time.Minute).Start(event.Intent_EDIT, 0, "the parser").Step(10, time.Second).End(event.EndReason_COMPLETED, true)
	log := rehearsal.Records(s)
	// log: configuration, start 1, step 1, end 1, start 2, …: the first start comes behind the second.
	late := log[1].Event
	log[1].Event, log[2].Event, log[3].Event, log[4].Event = log[2].Event, log[3].Event, log[4].Event, late
	for i := 2; i <= 4; i++ {
		log[i].Time = log[5].Time
	}
	e, settled := rehearsal.Run(log)
	require.NoError(t, e.Account().Check())
	require.Len(t, settled, 2)
	require.Equal(t, "s1-t1", settled[0].Row.TurnID)
	require.Equal(t, ledger.Of(1), settled[0].Row.Signal("stalling.answered"))
	require.Equal(t, ledger.Of(0), settled[1].Row.Signal("stalling.answered"))
}

package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/distill/account"
	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/internal/arrowfile"
	"millrace/internal/unithash"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// partition is an engine under test, fed record by record at given log times after the epoch.
type partition struct {
	t       *testing.T
	engine  *engine.Engine
	offset  int64
	settled []engine.Settled
}

func newPartition(t *testing.T) *partition {
	t.Helper()
	p := &partition{t: t, engine: engine.New(options)}
	for digest, document := range rehearsal.Documents() {
		p.engine.Provide(digest, document)
	}
	p.control(0, rehearsal.Config(1))
	return p
}

func (p *partition) apply(at time.Duration, r engine.Record) engine.Effects {
	p.t.Helper()
	r.Offset, r.Time = p.offset, rehearsal.Epoch.Add(at).UnixMicro()
	p.offset++
	rehearsal.Provide(p.engine, r)
	eff := p.engine.Apply(r)
	require.Empty(p.t, eff.Halt)
	require.NoError(p.t, p.engine.Account().Check())
	p.settled = append(p.settled, eff.Settled...)
	return eff
}

func (p *partition) control(at time.Duration, c *event.ControlRecord) engine.Effects {
	p.t.Helper()
	return p.apply(at, engine.Record{Control: c})
}

func (p *partition) tick(at time.Duration) { p.t.Helper(); p.control(at, rehearsal.Tick("tick")) }

// take applies the stream's events, each when it happened, and empties the stream.
func (p *partition) take(s *rehearsal.Stream) []engine.Effects {
	p.t.Helper()
	var out []engine.Effects
	for _, ev := range s.Events {
		out = append(out, p.apply(ev.GetOccurredAt().AsTime().Sub(rehearsal.Epoch), engine.Record{Event: ev}))
	}
	s.Events = nil
	return out
}

// row is the settled row of a turn.
func (p *partition) row(turnID string) *ledger.Row {
	p.t.Helper()
	var found []ledger.Row
	for _, s := range p.settled {
		if s.Row.TurnID == turnID {
			found = append(found, s.Row)
		}
	}
	require.Len(p.t, found, 1, turnID)
	return &found[0]
}

func stream() *rehearsal.Stream { return rehearsal.NewStream("s1", "ann", rehearsal.Epoch) }

// asks is a question turn of one step.
func asks(s *rehearsal.Stream, intent event.Intent, relation event.Relation) {
	s.Start(intent, relation, "make the parser faster").Step(10, time.Second).End(event.EndReason_COMPLETED, true)
}

func TestWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, relation := range map[string]event.Relation{
		"undo": event.Relation_UNDO, "restore": event.Relation_RESTORE, "retry": event.Relation_RETRY,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newPartition(t), stream()
			asks(s, event.Intent_EDIT, 0)
			s.Wait(time.Minute).Start(event.Intent_EDIT, relation, "make the parser faster").Step(10, time.Second).End(event.EndReason_COMPLETED, false)
			p.take(s)
			p.tick(time.Hour)
			question := p.row("s1-t1")
			require.Equal(t, ledger.Of(0), question.Signal("stalling.answered"))
			require.EqualValues(t, 1, question.Chain)
			require.Equal(t, ledger.Of(-1), question.Signal("follow_up.polarity"))
			require.Less(t, question.Reward.Number, -1.0)
		})
	}
}

func TestAnAnswerBeginsBeforeTheQuestionsTimeIsUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after time.Duration
		want  float64
	}{
		"just in time": {20*time.Minute - time.Microsecond, 1},
		"at the time":  {20 * time.Minute, 0},
		"within the allowed lateness, yet too late": {20*time.Minute + 9*time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newPartition(t), stream()
			asks(s, event.Intent_EDIT, 0)
			s.Wait(c.after).Start(0, 0, "the other one").Step(10, time.Second).End(event.EndReason_COMPLETED, false)
			p.take(s)
			p.tick(2 * time.Hour)
			question := p.row("s1-t1")
			require.Equal(t, ledger.Of(c.want), question.Signal("stalling.answered"))
			require.EqualValues(t, 1+c.want, question.Chain)
			require.Equal(t, c.want == 1, question.FollowUpClass == "clarification_answer", question.FollowUpClass)
		})
	}
}

// What became of the answer is what became of the question.
func TestAFinalTurnWithoutARewardGivesItsDispositionToTheChain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		final func(p *partition, s *rehearsal.Stream)
		want  ledger.Disposition
	}{
		"censored": {func(p *partition, s *rehearsal.Stream) {
			s.Start(0, 0, "the other one").Step(10, time.Second)
			edit := s.Edit(300)
			s.End(event.EndReason_COMPLETED, false).Decide(edit, event.Decision_ACCEPTED)
		}, ledger.Censored},
		"faulted": {func(p *partition, s *rehearsal.Stream) {
			s.Start(0, 0, "the other one").Step(10, time.Second)
			outage(s)
			s.End(event.EndReason_PROVIDER_FAILED, false)
		}, ledger.Faulted},
		"incomplete": {func(p *partition, s *rehearsal.Stream) {
			s.Start(0, 0, "the other one").Step(10, time.Second).Step(10, time.Second).End(event.EndReason_COMPLETED, false)
			s.Events = append(s.Events[:len(s.Events)-2], s.Events[len(s.Events)-1])
		}, ledger.Incomplete},
		"withheld": {func(p *partition, s *rehearsal.Stream) {
			s.Start(0, 0, "the other one").Step(10, time.Second).End(event.EndReason_COMPLETED, false)
			p.control(0, &event.ControlRecord{Body: &event.ControlRecord_Quarantined{Quarantined: &event.Quarantined{TurnId: s.Turn(), Reason: "bot"}}})
		}, ledger.Withheld},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newPartition(t), stream()
			asks(s, event.Intent_EDIT, 0)
			s.Wait(time.Minute)
			c.final(p, s)
			p.take(s)
			p.tick(2 * time.Hour)
			for _, id := range []string{"s1-t1", "s1-t2"} {
				row := p.row(id)
				require.Equal(t, c.want, row.Disposition, "%s: %s", id, row.Reason)
				require.False(t, row.Reward.Known, id)
			}
			require.Contains(t, p.row("s1-t1").Reason, "the turn that answered it: ")
		})
	}
}

func TestAThirdQuestionIsOneTooMany(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	asks(s, event.Intent_EDIT, 0)
	for range 2 {
		s.Wait(time.Minute)
		asks(s, event.Intent_ASK, 0) // however the answers are stamped: an edit was asked for
	}
	s.Wait(time.Minute)
	keep(s, edits(s, event.Intent_ASK, longWork, 400), 1)
	p.take(s)
	p.tick(3 * time.Hour)
	for _, id := range []string{"s1-t1", "s1-t2", "s1-t3"} {
		row := p.row(id)
		require.EqualValues(t, 3, row.Chain, id)
		require.Equal(t, ledger.Of(1), row.Signal("stalling.question"), id)
		require.Less(t, row.Reward.Number, -.8, id)
	}
	require.Less(t, p.row("s1-t1").Reward.Number, p.row("s1-t2").Reward.Number)
	last := p.row("s1-t4")
	require.EqualValues(t, 1, last.Chain)
	require.Equal(t, ledger.Of(1), last.Signal("intent.p_edit"), "what was asked for is inherited along the whole run")
	require.InDelta(t, .63, last.Reward.Number, .01)
}

// However the ends of a long run of questions are ordered, each turn finds the same chain.
func TestARunOfQuestionsIsCutFromItsStart(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	for range 5 {
		asks(s, event.Intent_EDIT, 0)
		s.Wait(time.Minute)
	}
	log := s.Events
	late := log[8] // the third turn's end comes last
	require.NotNil(t, late.GetTurnEnded())
	s.Events = append(append(log[:8:8], log[9:]...), late)
	for _, ev := range s.Events {
		p.apply(s.Now.Sub(rehearsal.Epoch), engine.Record{Event: ev})
	}
	p.tick(3 * time.Hour)
	for id, chain := range map[string]int32{"s1-t1": 3, "s1-t2": 3, "s1-t3": 3, "s1-t4": 2, "s1-t5": 2} {
		require.Equal(t, chain, p.row(id).Chain, id)
	}
}

func TestAChainWaitsNoLongerThanMaxTurn(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	asks(s, event.Intent_EDIT, 0)
	s.Wait(10*time.Minute).Start(0, 0, "the other one").Step(10, time.Second)
	p.take(s)
	p.tick(2*time.Hour + 9*time.Second)
	require.Empty(t, p.settled)
	p.tick(2*time.Hour + 10*time.Second)
	require.Equal(t, "unended", p.row("s1-t2").Outcome)
	require.Equal(t, p.row("s1-t1").SettledAt, p.row("s1-t2").SettledAt)
	require.InDelta(t, p.row("s1-t2").Reward.Number-.2, p.row("s1-t1").Reward.Number, .05)
}

// A turn that ended is observed for as long as any other, however late it ended.
func TestALongTurnIsObservedInFull(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	s.Start(event.Intent_EDIT, 0, "make the parser faster").Step(10, 119*time.Minute)
	edit := s.Edit(300)
	s.End(event.EndReason_COMPLETED, false).Wait(10 * time.Second)
	s.Decide(edit, event.Decision_ACCEPTED).Wait(10*time.Minute).Observe(edit, 600, 1)
	s.Events[len(s.Events)-1].Sequence = 0
	first := s.Events[0]
	p.take(s)
	p.tick(139 * time.Minute)
	require.Empty(t, p.settled)

	// Its start comes again when the dedupe window has long forgotten it; then as something else.
	require.Equal(t, account.Duplicate, p.apply(139*time.Minute, engine.Record{Event: first}).Class)
	other := first.CloneVT()
	other.GetTurnStarted().Text = "something else"
	eff := p.apply(139*time.Minute, engine.Record{Event: other})
	require.Equal(t, account.DeadLetter, eff.Class)
	require.Equal(t, "conflict", eff.DeadLetter)

	p.tick(139*time.Minute + 10*time.Second)
	row := p.row("s1-t1")
	require.Equal(t, ledger.Rewarded, row.Disposition, row.Reason)
	require.Equal(t, ledger.Of(1), row.Signal("edits.retention"))
}

func TestLateEvidenceIsAppended(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	edit := edits(s, event.Intent_EDIT, longWork, 400)
	s.Decide(edit, event.Decision_REJECTED)
	p.take(s)
	p.tick(time.Hour)
	before := *p.row("s1-t1")
	s.Now = rehearsal.Epoch.Add(2 * time.Hour)
	s.Observe(edit, 600, .5)
	eff := p.take(s)[0]
	require.Equal(t, account.Amended, eff.Class)
	require.Empty(t, eff.Settled)
	require.Equal(t, ledger.Amendment, eff.Amendment.Kind)
	require.Equal(t, "edit_observed", eff.Amendment.EventBody)
	require.Equal(t, ledger.Of(.5), eff.Amendment.Signal("edits.retention"))
	require.Equal(t, ledger.Of(.5), eff.Amendment.Signal("edits.retention_four_gram_600s"))
	require.Equal(t, before.UnitHash, eff.Amendment.UnitHash)
	require.False(t, eff.Amendment.Reward.Known)

	// Nothing opens the turn again, not even its own start under another id.
	again := stream()
	again.Now = s.Now
	again.Start(event.Intent_EDIT, 0, "make the parser faster")
	again.Events[0].EventId = "again"
	require.Equal(t, account.Amended, p.take(again)[0].Class)
	require.Zero(t, p.engine.Account().OpenTurns())
}

func TestEvidenceOnATurnNeverSeenIsAnOrphan(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	s.Start(event.Intent_EDIT, 0, "x").Judge(event.FollowUpClass_COMPLAINT, -1, 1)
	s.Events = s.Events[1:]
	require.Equal(t, account.Orphan, p.take(s)[0].Class)
	require.Zero(t, p.engine.Account().Opened)
}

func TestExpired(t *testing.T) {
	t.Parallel()
	const now = 5 * time.Hour
	for name, c := range map[string]struct {
		occurred time.Duration
		origin   event.Origin
		session  event.Origin // of a SessionStarted before it
		want     account.Class
	}{
		"as old as the window":    {now - 2*time.Hour, 0, 0, account.Applied},
		"older":                   {now - 2*time.Hour - time.Microsecond, 0, 0, account.Expired},
		"simulated":               {now - 3*time.Hour, event.Origin_SIMULATED, 0, account.Expired},
		"imported":                {now - 3*time.Hour, event.Origin_IMPORTED, 0, account.Applied},
		"of an imported session":  {now - 3*time.Hour, 0, event.Origin_IMPORTED, account.Applied},
		"a clock a year ahead":    {now + 365*24*time.Hour, 0, 0, account.Applied},
		"of a live session, late": {now - 3*time.Hour, 0, event.Origin_LIVE, account.Expired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newPartition(t), stream()
			p.tick(now)
			if c.session != 0 {
				started := s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_SessionStarted{SessionStarted: &event.SessionStarted{Origin: c.session}}})
				require.Equal(t, account.Applied, p.apply(now, engine.Record{Event: started}).Class)
			}
			s.Start(event.Intent_EDIT, 0, "x")
			ev := s.Events[len(s.Events)-1]
			ev.GetTurnStarted().Context.Origin = c.origin
			ev.OccurredAt = timestamppb.New(rehearsal.Epoch.Add(c.occurred))
			require.Equal(t, c.want, p.apply(now, engine.Record{Event: ev}).Class)
		})
	}
}

// A skewed clock is corrected before anything is called old.
func TestExpiryGoesByCorrectedTime(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	p.tick(5 * time.Hour)
	s.Start(event.Intent_EDIT, 0, "x")
	ev := s.Events[0]
	ev.OccurredAt = timestamppb.New(rehearsal.Epoch.Add(-365 * 24 * time.Hour))
	ev.SentAt = timestamppb.New(ev.OccurredAt.AsTime().Add(time.Second))
	ev.ReceivedAt = timestamppb.New(rehearsal.Epoch.Add(5 * time.Hour))
	require.Equal(t, account.Applied, p.apply(5*time.Hour, engine.Record{Event: ev}).Class)
}

func TestTimeNeverGoesBack(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	p.tick(time.Hour)
	tick := engine.Record{Offset: p.offset, Time: rehearsal.Epoch.UnixMicro(), Control: rehearsal.Tick("old")}
	require.False(t, p.engine.ClosesBefore(tick), "an old record stands in the batch of now")
	s.Now = rehearsal.Epoch.Add(time.Hour)
	s.Start(event.Intent_EDIT, 0, "x").End(event.EndReason_ABORTED_BY_USER, false)
	for _, ev := range s.Events {
		p.apply(time.Minute, engine.Record{Event: ev})
	}
	require.Equal(t, rehearsal.Epoch.Add(time.Hour).UnixMicro(), p.engine.LogTime())
	p.tick(80*time.Minute + 9*time.Second)
	require.Empty(t, p.settled)
	p.tick(80*time.Minute + 10*time.Second)
	require.Len(t, p.settled, 1)
}

func TestRepeatsAndConflicts(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	s.Start(event.Intent_EDIT, 0, "x")
	ev := s.Events[0]
	p.take(s)
	resent := ev.CloneVT()
	resent.SentAt, resent.ReceivedAt = timestamppb.Now(), timestamppb.Now()
	require.Equal(t, account.Duplicate, p.apply(time.Minute, engine.Record{Event: resent}).Class, "other stamps, the same event")
	changed := ev.CloneVT()
	changed.GetTurnStarted().Text = "y"
	require.Equal(t, "conflict", p.apply(time.Minute, engine.Record{Event: changed}).DeadLetter)
	stub := ev.CloneVT()
	stub.Body = &event.SessionEvent_Stub{Stub: &event.Stub{Reason: "too_large", Body: "turn_started"}}
	require.Equal(t, account.Applied, p.apply(time.Minute, engine.Record{Event: stub}).Class, "the item may come again, mended")
	other := ev.CloneVT()
	other.Source = "engine"
	require.Equal(t, account.Applied, p.apply(time.Minute, engine.Record{Event: other}).Class, "the same id of another source")
	require.Equal(t, account.Duplicate, p.apply(2*time.Hour, engine.Record{Event: resent}).Class, "the window's last moment")
	require.EqualValues(t, 1, p.engine.Account().Opened)
}

// config is a configuration with another spec, made from the shipped one.
func config(p *partition, seq uint64, replace ...string) *event.ControlRecord {
	_, document := rewardspec.Default()
	document = []byte(strings.NewReplacer(replace...).Replace(string(document)))
	digest := arrowfile.SHA256(document)
	p.engine.Provide(digest, document)
	c := rehearsal.Config(seq)
	c.GetConfigAdopted().RewardSpecDigest = digest
	return c
}

// settle_after is fixed when the turn ends, the scoring spec is the one in force when it settles.
func TestASpecThatChangesBetweenEndAndSettling(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	says(s, event.Intent_EDIT, event.EndReason_COMPLETED, false)
	p.take(s)
	other := config(p, 2, "settle_after: 20m", "settle_after: 5m", "undelivered: {value: -0.8}", "undelivered: {value: -1.8}")
	p.control(time.Minute, other)
	p.tick(10 * time.Minute)
	require.Empty(t, p.settled)
	p.tick(30 * time.Minute)
	row := p.row("s1-t1")
	require.InDelta(t, -1.83, row.Reward.Number, .01)
	require.Equal(t, other.GetConfigAdopted().GetRewardSpecDigest(), row.RewardSpecDigest)
}

func TestAnOlderConfigurationDoesNothing(t *testing.T) {
	t.Parallel()
	p := newPartition(t)
	p.control(0, config(p, 5, "value: -0.8", "value: -0.9"))
	for _, seq := range []uint64{1, 4, 5} {
		old := rehearsal.Config(seq)
		old.GetConfigAdopted().RewardSpecDigest = "gone from the store"
		require.Empty(t, p.engine.Needs(engine.Record{Control: old}))
		require.Equal(t, account.Control, p.control(0, old).Class)
		require.EqualValues(t, 5, p.engine.Config().GetSeq())
	}
	newer := rehearsal.Config(6)
	newer.GetConfigAdopted().RewardSpecDigest = "not there"
	before := p.engine.Account()
	eff := p.engine.Apply(engine.Record{Offset: p.offset, Control: newer})
	require.Contains(t, eff.Halt, "not there")
	require.Equal(t, before, p.engine.Account(), "a halt changes nothing")
}

func TestWithheldByAPerson(t *testing.T) {
	t.Parallel()
	hash := unithash.Pseudonym(options.UnitKey, "ann")
	quarantine := func(q *event.Quarantined) *event.ControlRecord {
		q.Reason = "bot"
		return &event.ControlRecord{Body: &event.ControlRecord_Quarantined{Quarantined: q}}
	}
	for name, c := range map[string]*event.ControlRecord{
		"quarantined turn":    quarantine(&event.Quarantined{TurnId: "s1-t1"}),
		"quarantined session": quarantine(&event.Quarantined{SessionId: "s1"}),
		"quarantined unit":    quarantine(&event.Quarantined{UnitHash: hash}),
		"erased unit":         {Body: &event.ControlRecord_UnitErased{UnitErased: &event.UnitErased{UnitHash: hash}}},
	} {
		for when, before := range map[string]bool{"before": true, "while open": false} {
			if before && c.GetUnitErased() != nil {
				continue // what comes after an erasure is new
			}
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				p, s := newPartition(t), stream()
				other := rehearsal.NewStream("s2", "bob", rehearsal.Epoch)
				says(s, event.Intent_EDIT, event.EndReason_COMPLETED, false)
				says(other, event.Intent_EDIT, event.EndReason_COMPLETED, false)
				if before {
					p.control(0, c)
				}
				p.take(s)
				p.take(other)
				if !before {
					p.control(time.Minute, c)
				}
				p.tick(time.Hour)
				require.Equal(t, ledger.Withheld, p.row("s1-t1").Disposition)
				require.False(t, p.row("s1-t1").Reward.Known)
				require.Equal(t, ledger.Rewarded, p.row("s2-t1").Disposition)
				for _, settled := range p.settled {
					require.Equal(t, settled.Row.TurnID == "s2-t1", len(settled.Samples) > 0)
				}
			})
		}
	}
}

func TestAnIncidentExcusesOnlyWhatFailedInIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason   event.EndReason
		from, to time.Duration
		version  string
		want     ledger.Disposition
	}{
		"failed in it":            {event.EndReason_PROVIDER_FAILED, 0, time.Hour, "", ledger.Faulted},
		"of this version":         {event.EndReason_PROVIDER_FAILED, 0, time.Hour, "base", ledger.Faulted},
		"of another version":      {event.EndReason_PROVIDER_FAILED, 0, time.Hour, "next", ledger.Rewarded},
		"failed after it":         {event.EndReason_PROVIDER_FAILED, 0, 44 * time.Second, "", ledger.Rewarded},
		"failed before it":        {event.EndReason_HARNESS_FAILED, 46 * time.Second, time.Hour, "", ledger.Rewarded},
		"did not fail":            {event.EndReason_COMPLETED, 0, time.Hour, "", ledger.Rewarded},
		"was stopped by the user": {event.EndReason_ABORTED_BY_USER, 0, time.Hour, "", ledger.Rewarded},
		"ran out of tokens":       {event.EndReason_LENGTH, 0, time.Hour, "", ledger.Rewarded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newPartition(t), stream()
			says(s, event.Intent_EDIT, c.reason, false)
			p.take(s)
			p.control(10*time.Minute, &event.ControlRecord{Body: &event.ControlRecord_IncidentDeclared{IncidentDeclared: &event.IncidentDeclared{
				Incident: "i1", PolicyVersion: c.version,
				StartsAt: timestamppb.New(rehearsal.Epoch.Add(c.from)), EndsAt: timestamppb.New(rehearsal.Epoch.Add(c.to)),
			}}})
			p.tick(time.Hour)
			require.Equal(t, c.want, p.row("s1-t1").Disposition, p.row("s1-t1").Reason)
		})
	}
}

func TestAGapInEitherSourceIsSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose string // body of the lost event
		end  bool
		want string // in the reason; empty: rewarded
	}{
		"nothing":                 {"", true, ""},
		"a step, by its number":   {"step_completed", true, "engine: events 2 to 2 did not arrive"},
		"a call, by its number":   {"tool_called", true, "ide: events 2 to 2 did not arrive"},
		"the start":               {"turn_started", true, "its start did not arrive"},
		"the end":                 {"turn_ended", true, "ide: events 5 to 5 did not arrive"},
		"nothing, but no end yet": {"", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newPartition(t), stream()
			s.Start(event.Intent_EDIT, 0, "x").Step(10, time.Second)
			s.Call("read_file", event.ToolKind_READ, `{"path":"a"}`, event.ToolOutcome_OK)
			s.Step(10, time.Second).Call("read_file", event.ToolKind_READ, `{"path":"b"}`, event.ToolOutcome_OK)
			s.Step(10, time.Second)
			s.Events = append(s.Events[:len(s.Events)-2:len(s.Events)-2], s.Events[len(s.Events)-1]) // the last result is of no weight
			s.Events[len(s.Events)-2].Sequence = 4
			renumber(s)
			if c.end {
				s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{Reason: event.EndReason_COMPLETED}}})
				renumber(s)
			}
			s.Wait(30*time.Minute).Start(event.Intent_EDIT, 0, "next").End(event.EndReason_ABORTED_BY_USER, false)
			renumber(s)
			for i, ev := range s.Events {
				if bodyOf(ev) == c.lose && (c.lose != "step_completed" || ev.GetStepCompleted().GetStep() == 2) {
					s.Events = append(s.Events[:i:i], s.Events[i+1:]...)
					break
				}
			}
			p.take(s)
			p.tick(5 * time.Hour)
			row := p.row("s1-t1")
			if c.want == "" {
				require.Equal(t, ledger.Rewarded, row.Disposition, row.Reason)
				return
			}
			require.Equal(t, ledger.Incomplete, row.Disposition)
			require.Equal(t, c.want, row.Reason)
		})
	}
}

// renumber gives each source's events the numbers 1, 2, … again.
func renumber(s *rehearsal.Stream) {
	n := map[string]uint64{}
	for _, ev := range s.Events {
		n[ev.GetSource()]++
		ev.Sequence = n[ev.GetSource()]
	}
}

// A shard's version is that of the turn's first step, in whatever order the steps arrive.
func TestStepsThatArriveInTheWrongOrder(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	s.Start(event.Intent_EDIT, 0, "x").Step(10, time.Second)
	s.Version = "next"
	s.Step(20, time.Second).End(event.EndReason_COMPLETED, false)
	s.Events[1], s.Events[2] = s.Events[2], s.Events[1]
	p.take(s)
	require.Equal(t, map[string]int64{"base": 1}, p.engine.Account().Open)
	p.tick(time.Hour)
	row := p.row("s1-t1")
	require.Equal(t, "base", row.PolicyVersion)
	require.Equal(t, []string{"base", "next"}, row.PolicyVersions)
	trained := 0
	for _, m := range p.settled[0].Samples[0].LossMask {
		trained += int(m)
	}
	require.Equal(t, 10, trained, "only the tokens of the version under which the shard is filed")
}

// A turn whose first record comes behind the start of the next one still knows that one.
func TestAFollowUpThatArrivesBeforeItsTurn(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	says(s, event.Intent_EDIT, event.EndReason_COMPLETED, false)
	s.Wait(time.Minute).Start(event.Intent_EDIT, event.Relation_UNDO, "undo")
	next := s.Events[len(s.Events)-1]
	s.Events = s.Events[:len(s.Events)-1]
	p.apply(time.Second, engine.Record{Event: next})
	p.take(s)
	p.tick(time.Hour)
	require.Equal(t, "reversion", p.row("s1-t1").FollowUpClass)
}

// A command of the client is no request, unless it takes the turn back.
func TestCommandsOfTheClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		relation event.Relation
		want     string
	}{
		"a command":             {0, "restatement"},
		"a command that undoes": {event.Relation_UNDO, "reversion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newPartition(t), stream()
			s.Start(event.Intent_EDIT, 0, "make the parser faster")
			s.Step(10, time.Second).End(event.EndReason_COMPLETED, false)
			s.Wait(time.Minute).Start(0, c.relation, "/command")
			s.Events[len(s.Events)-1].GetTurnStarted().IsCommand = true
			s.Wait(time.Minute).Start(event.Intent_EDIT, 0, "make the parser faster")
			p.take(s)
			p.tick(3 * time.Hour)
			require.Equal(t, c.want, p.row("s1-t1").FollowUpClass)
			require.Equal(t, ledger.Of(0), p.row("s1-t2").Signal("intent.p_edit"))
			require.GreaterOrEqual(t, p.row("s1-t2").Reward.Number, -.11, "nobody is punished for a command")
		})
	}
}

// What a call does is known from the registered tools where the call doesn't say it.
func TestAQuestionToolIsKnownByItsRegistration(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	s.Start(event.Intent_EDIT, 0, "x").Step(10, time.Second)
	s.Call("ask_user", 0, `{"question":"which?"}`, event.ToolOutcome_OK).End(event.EndReason_COMPLETED, false)
	p.take(s)
	p.tick(time.Hour)
	require.Equal(t, ledger.Of(1), p.row("s1-t1").Signal("stalling.question"))
}

func TestAProviderThatFailsAfterACallHasSampled(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	s.Start(event.Intent_EDIT, 0, "x").Call("read_file", event.ToolKind_READ, `{"path":"a"}`, event.ToolOutcome_OK)
	s.End(event.EndReason_PROVIDER_FAILED, false)
	p.take(s)
	p.tick(time.Hour)
	require.Equal(t, ledger.NoTokens, p.row("s1-t1").Disposition, "calls are sampled tokens, even where no step arrived")
}

// An answer that has settled before its question's end arrives: what it was worth is not known.
func TestAQuestionWhoseEndComesAfterTheAnswerHasSettled(t *testing.T) {
	t.Parallel()
	p, s := newPartition(t), stream()
	asks(s, event.Intent_EDIT, 0)
	end := s.Events[len(s.Events)-1]
	s.Events = s.Events[:len(s.Events)-1]
	s.Wait(time.Minute)
	s.Decide(edits(s, event.Intent_EDIT, longWork, 400), event.Decision_REJECTED)
	p.take(s)
	p.tick(time.Hour)
	require.Equal(t, ledger.Rewarded, p.row("s1-t2").Disposition)
	p.apply(time.Hour, engine.Record{Event: end})
	p.tick(2 * time.Hour)
	require.Equal(t, ledger.Of(1), p.row("s1-t1").Signal("stalling.answered"))
	require.Equal(t, ledger.Censored, p.row("s1-t1").Disposition)
}

package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/distill/rehearsal"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// What the design's table of behaviours assumes: weighted effort 2,000 (short turns 500), wall time .4 of the
// stratum's p95 of 300 s (short .15), a judge that is .9 sure.
const (
	longWork, shortWork = 2000, 500
	longWall, shortWall = 120 * time.Second, 45 * time.Second
	sure                = .9
)

// behaviour is one way of acting, as the events of a session that begins with the turn in question.
type behaviour struct {
	name string
	act  func(s *rehearsal.Stream)
	// The design's number, to its own rounding.
	want float64
}

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

func breaksCall(s *rehearsal.Stream) {
	s.Call("edit_file", event.ToolKind_EDIT_FILE, `{"path": `, event.ToolOutcome_EXECUTION_FAILED)
}

// The order of the table is the contract of the reward. Equal numbers may tie; everything else must fall strictly.
var behaviours = []behaviour{
	{"good edit kept, positive follow-up", func(s *rehearsal.Stream) {
		keep(s, edits(s, event.Intent_EDIT, longWork, 400), 1)
		s.Judge(event.FollowUpClass_NEW_REQUEST, 1, sure)
	}, .90},
	{"the same at five times the effort", func(s *rehearsal.Stream) {
		keep(s, edits(s, event.Intent_EDIT, 5*longWork, 400), 1)
		s.Judge(event.FollowUpClass_NEW_REQUEST, 1, sure)
	}, .80},
	{"good edit kept, then silence", func(s *rehearsal.Stream) {
		keep(s, edits(s, event.Intent_EDIT, longWork, 400), 1)
	}, .63},
	{"useful question, then a good edit", func(s *rehearsal.Stream) {
		says(s, event.Intent_EDIT, event.EndReason_COMPLETED, true)
		s.Wait(time.Minute)
		keep(s, edits(s, event.Intent_INTENT_UNSPECIFIED, longWork, 400), 1)
	}, .40},
	{"broken call, recovered, good edit", func(s *rehearsal.Stream) {
		s.Start(event.Intent_EDIT, 0, "make the parser faster").Step(300, 20*time.Second)
		breaksCall(s)
		effort(s, longWork-300-60-42, longWall-20*time.Second, 1)
		edit := s.Edit(400)
		s.End(event.EndReason_COMPLETED, false).Wait(5 * time.Second)
		keep(s, edit, 1)
	}, .33},
	{"a request to explain, answered by text, neutral follow-up", func(s *rehearsal.Stream) {
		says(s, event.Intent_ASK, event.EndReason_COMPLETED, false)
		s.Judge(event.FollowUpClass_NEW_REQUEST, 0, sure)
	}, -.03},
	{"edit rejected", func(s *rehearsal.Stream) {
		s.Decide(edits(s, event.Intent_EDIT, longWork, 400), event.Decision_REJECTED)
	}, -.42},
	{"edit reverted", func(s *rehearsal.Stream) {
		keep(s, edits(s, event.Intent_EDIT, longWork, 400), 0)
	}, -.42},
	{"useless question, then an edit that was rejected", func(s *rehearsal.Stream) {
		says(s, event.Intent_EDIT, event.EndReason_COMPLETED, true)
		s.Wait(time.Minute).Decide(edits(s, event.Intent_INTENT_UNSPECIFIED, longWork, 400), event.Decision_REJECTED)
	}, -.65},
	{"edit reverted, with a complaint", func(s *rehearsal.Stream) {
		keep(s, edits(s, event.Intent_EDIT, longWork, 400), 0)
		s.Judge(event.FollowUpClass_COMPLAINT, -1, sure)
	}, -.69},
	{"gave up or refused", func(s *rehearsal.Stream) {
		says(s, event.Intent_EDIT, event.EndReason_COMPLETED, false)
	}, -.83},
	{"aborted before any edit", func(s *rehearsal.Stream) {
		says(s, event.Intent_EDIT, event.EndReason_ABORTED_BY_USER, false)
	}, -.83},
	{"question that was never answered", func(s *rehearsal.Stream) {
		says(s, event.Intent_EDIT, event.EndReason_COMPLETED, true)
	}, -.83},
	{"question whose answer came too late", func(s *rehearsal.Stream) {
		says(s, event.Intent_EDIT, event.EndReason_COMPLETED, true)
		s.Wait(21 * time.Minute)
		keep(s, edits(s, event.Intent_EDIT, longWork, 400), 1)
	}, -.83},
	{"an outage without evidence", func(s *rehearsal.Stream) {
		says(s, event.Intent_EDIT, event.EndReason_PROVIDER_FAILED, false)
	}, -.83},
	{"tiny edit, request restated", func(s *rehearsal.Stream) {
		keep(s, edits(s, event.Intent_EDIT, longWork, 10), 1)
		s.Judge(event.FollowUpClass_RESTATEMENT, -1, sure)
	}, -.99},
	{"broken call and nothing", func(s *rehearsal.Stream) {
		s.Start(event.Intent_EDIT, 0, "make the parser faster")
		effort(s, shortWork, shortWall, 1)
		breaksCall(s)
		s.End(event.EndReason_COMPLETED, false)
	}, -1.13},
	{"edit reverted, with a complaint, and checks broken", func(s *rehearsal.Stream) {
		edit := edits(s, event.Intent_EDIT, longWork, 400)
		s.Checks(0, 2)
		keep(s, edit, 0)
		s.Judge(event.FollowUpClass_COMPLAINT, -1, sure)
	}, -1.19},
}

// settleFirst is the first turn of a session that does nothing but act.
func settleFirst(t *testing.T, act func(*rehearsal.Stream)) ledger.Row {
	t.Helper()
	s := rehearsal.NewStream("s1", "ann", rehearsal.Epoch)
	act(s)
	e, settled := rehearsal.Run(rehearsal.Records(s))
	require.NoError(t, e.Account().Check())
	require.NotEmpty(t, settled)
	require.Equal(t, "s1-t1", settled[0].Row.TurnID)
	return settled[0].Row
}

func TestBehaviourTable(t *testing.T) {
	t.Parallel()
	before := ledger.Row{Reward: ledger.Of(2)}
	want := 2.
	for _, b := range behaviours {
		row := settleFirst(t, b.act)
		require.Equal(t, ledger.Rewarded, row.Disposition, "%s: %s", b.name, row.Reason)
		require.InDelta(t, b.want, row.Reward.Number, .01, "%s: %v", b.name, row.Components)
		if b.want == want {
			require.InDelta(t, before.Reward.Number, row.Reward.Number, .01, b.name)
		} else {
			require.Less(t, row.Reward.Number, before.Reward.Number, b.name)
		}
		before, want = row, b.want
	}
}

func TestAnOutageIsDroppedOnlyWithEvidence(t *testing.T) {
	t.Parallel()
	row := settleFirst(t, func(s *rehearsal.Stream) {
		s.Start(event.Intent_EDIT, 0, "make the parser faster")
		effort(s, shortWork, shortWall, 0)
		outage(s)
		s.End(event.EndReason_PROVIDER_FAILED, false)
	})
	require.Equal(t, ledger.Faulted, row.Disposition)
	require.False(t, row.Reward.Known)
}

func outage(s *rehearsal.Stream) {
	s.Emit("engine", &event.SessionEvent{Body: &event.SessionEvent_InfrastructureReported{
		InfrastructureReported: &event.InfrastructureReported{Status: event.InfrastructureStatus_OUTAGE},
	}})
}

package judge

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"millrace/distill/rehearsal"
	"millrace/schemas/event"
)

var windows = Windows{SettleAfter: 20 * time.Minute, MaxTurn: 2 * time.Hour, Lateness: 10 * time.Second}

const (
	first  = "make the parser faster"
	second = "no, that is the wrong file, it must be in the lexer"
)

// edited is a turn that proposed an edit which was accepted, with a next request a minute after it.
func edited(id string, relation event.Relation, next string) *rehearsal.Stream {
	s := rehearsal.NewStream(id, "unit-"+id, rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, first).Step(50, time.Second)
	s.Decide(s.Edit(100), event.Decision_ACCEPTED).End(event.EndReason_COMPLETED, false)
	s.Wait(time.Minute).Start(event.Intent_EDIT, relation, next).Step(50, time.Second)
	return s
}

// spoke is a turn of words.
func spoke(id, next string, asks bool) *rehearsal.Stream {
	s := rehearsal.NewStream(id, "unit-"+id, rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, first).Step(50, time.Second).End(event.EndReason_COMPLETED, asks)
	s.Wait(time.Minute).Start(event.Intent_EDIT, 0, next).Step(50, time.Second)
	return s
}

func asksOf(s *rehearsal.Stream) ([]*Ask, map[string]int) {
	return Asks(s.Events, windows, func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") })
}

func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	near := "make the parser fast, but keep the lexer as it is" // by structure about the same matter: neutral
	for name, c := range map[string]struct {
		stream  *rehearsal.Stream
		turn    Turn
		next    string
		skipped string
	}{
		"a turn of words":               {spoke("s", second, false), Turn{Finished: true}, second, ""},
		"a question and its answer":     {spoke("s", second, true), Turn{Finished: true, AskedBack: true}, second, ""},
		"near the same matter":          {edited("s", 0, near), Turn{DeliveredEdit: true, Accepted: 1, Finished: true}, near, ""},
		"moved on: structure says it":   {edited("s", 0, "ソートを直して"), Turn{}, "", skippedDecided},
		"undone: structure says it":     {edited("s", event.Relation_UNDO, near), Turn{}, "", skippedDecided},
		"the same again":                {spoke("s", first, false), Turn{}, "", skippedDecided},
		"a stack trace":                 {spoke("s", "panic: boom\n\t/a/b.go:3 +0x1d\n\t/a/c.go:4 +0x2d", false), Turn{}, "", skippedDecided},
		"a stack trace as an answer":    {spoke("s", "panic: boom\n\t/a/b.go:3 +0x1d\n\t/a/c.go:4 +0x2d", true), Turn{Finished: true, AskedBack: true}, "panic: boom\n\t/a/b.go:3 +0x1d\n\t/a/c.go:4 +0x2d", ""},
		"no text":                       {spoke("s", " ", false), Turn{}, "", skippedNoText},
		"secrets are taken out":         {spoke("s", "the password is hunter2", false), Turn{Finished: true}, "the password is [redacted]", ""},
		"a turn that nobody followed":   {rehearsal.NewStream("s", "u", rehearsal.Epoch).Start(event.Intent_EDIT, 0, first), Turn{}, "", "-"},
		"a next request after settling": {after(21 * time.Minute), Turn{}, "", "-"},
		"a next request just before it": {after(20*time.Minute + 5*time.Second), Turn{}, "", skippedLate},
		"a command is no next request":  {command(), Turn{}, "", "-"},
		"an edit refused, an offer": {refusedAndOffered(near), Turn{
			DeliveredEdit: true, Rejected: 1, OfferedMore: true, Finished: true,
		}, near, ""},
		"stopped before any edit": {stopped(), Turn{Stopped: true}, second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asks, skipped := asksOf(c.stream)
			if c.skipped != "" {
				require.Empty(t, asks)
				if c.skipped != "-" {
					require.Equal(t, map[string]int{c.skipped: 1}, skipped)
				}
				return
			}
			require.Len(t, asks, 1)
			require.Empty(t, skipped)
			a := asks[0]
			require.Equal(t, Exchange{Request: first, Turn: c.turn, Next: c.next}, a.Exchange)
			require.Equal(t, []string{"s", "s-t1", c.stream.Unit}, []string{a.SessionID, a.TurnID, a.UnitID})
		})
	}
}

func after(d time.Duration) *rehearsal.Stream {
	s := rehearsal.NewStream("s", "u", rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, first).Step(50, time.Second).End(event.EndReason_COMPLETED, false)
	return s.Wait(d).Start(event.Intent_EDIT, 0, second)
}

func command() *rehearsal.Stream {
	s := spoke("s", "/clear", false)
	for _, e := range s.Events {
		if started := e.GetTurnStarted(); started.GetText() == "/clear" {
			started.IsCommand = true
		}
	}
	return s
}

func refusedAndOffered(next string) *rehearsal.Stream {
	s := rehearsal.NewStream("s", "u", rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, first).Step(50, time.Second)
	s.Decide(s.Edit(100), event.Decision_REJECTED).End(event.EndReason_COMPLETED, false)
	s.Events[len(s.Events)-1].GetTurnEnded().OffersMore = true
	return s.Wait(time.Minute).Start(event.Intent_EDIT, 0, next)
}

func stopped() *rehearsal.Stream {
	s := rehearsal.NewStream("s", "u", rehearsal.Epoch)
	s.Start(event.Intent_EDIT, 0, first).Step(50, time.Second).End(event.EndReason_ABORTED_BY_USER, false)
	return s.Wait(time.Minute).Start(event.Intent_EDIT, 0, second)
}

// The rules that keep a judge from being asked are the engine's own: what is put to a judge is what the engine would take
// its word on.
func TestAskedIsWhatTheEngineTakesAWordOn(t *testing.T) {
	t.Parallel()
	n := 0
	for i, s := range []*rehearsal.Stream{
		spoke("a", second, false), spoke("b", second, true), spoke("c", first, false), edited("d", 0, second),
		edited("e", event.Relation_RETRY, second), edited("f", 0, "make the parser fast, but keep the lexer as it is"), stopped(),
		refusedAndOffered(second),
	} {
		asks, _ := asksOf(s)
		events := s.Events
		for _, a := range asks {
			n++
			e, err := a.Evidence(Verdict{Class: event.FollowUpClass_CORRECTION, Polarity: -1, Confidence: .5}, "judge/m/1")
			require.NoError(t, err)
			events = append(events, e)
		}
		_, settled := rehearsal.Run(rehearsal.Log(events))
		row := settled[0].Row
		require.Equal(t, len(asks) == 1, row.ClassifierVersion == "judge/m/1", "stream %d", i)
	}
	require.Equal(t, 5, n)
}

// What is not FULL is neither kept nor sent, on whichever event of a turn it stands.
func TestPrivateTextsAreNotKept(t *testing.T) {
	t.Parallel()
	for _, privacy := range []event.Privacy{event.Privacy_NO_CONTENT, event.Privacy_METRICS_ONLY} {
		s := spoke("s", second, false)
		for i := range s.Events {
			other := spoke("s", second, false)
			other.Events[i].Privacy = privacy
			asks, _ := asksOf(other)
			if i == len(s.Events)-1 {
				continue // a step after the next request: that may have been sent by then
			}
			require.Empty(t, asks, "event %d", i)
		}
		tr := newTracker("v", windows, math.MaxInt)
		for i, e := range s.Events {
			e.Privacy = privacy
			tr.event(int64(i), e)
		}
		for _, x := range tr.order {
			require.Empty(t, x.Start().GetText())
		}
	}
}

// The request that counts is the next by the client's time, in whatever order the log has them.
func TestOrderOfTheLogDoesNotMatter(t *testing.T) {
	t.Parallel()
	s := spoke("s", second, false)
	s.End(event.EndReason_COMPLETED, false).Wait(time.Minute).Start(event.Intent_EDIT, 0, "and the tests, too, in a table please")
	want, _ := asksOf(s)
	require.Len(t, want, 2)
	var backwards []*event.SessionEvent
	for i := len(s.Events) - 1; i >= 0; i-- {
		backwards = append(backwards, s.Events[i])
	}
	tr := newTracker("v", windows, math.MaxInt)
	tr.advance(s.Now.UnixMicro())
	for i, e := range backwards {
		tr.event(int64(i), e)
	}
	got := tr.advance(s.Now.Add(windows.Lateness).UnixMicro())
	require.Len(t, got, 2)
	for _, a := range got {
		i := 0
		if a.TurnID != want[0].TurnID {
			i = 1
		}
		require.Equal(t, want[i].Exchange, a.Exchange)
		require.Equal(t, want[i].at, a.at)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	tr := newTracker("v", windows, 50_000)
	forgotten := 0
	tr.skipped = func(reason string) {
		require.Equal(t, skippedForgotten, reason)
		forgotten++
	}
	text := strings.Repeat("x", 4000)
	for i := range 100 {
		s := rehearsal.NewStream(fmt.Sprintf("s%d", i), "u", rehearsal.Epoch).Start(event.Intent_EDIT, 0, text)
		tr.advance(rehearsal.Epoch.UnixMicro())
		tr.event(int64(i), s.Events[0])
		require.LessOrEqual(t, tr.bytes, 50_000)
	}
	require.Len(t, tr.sessions, 100-forgotten)
	require.Greater(t, len(tr.sessions), 10)
	tr.event(100, rehearsal.NewStream("huge", "u", rehearsal.Epoch).Start(event.Intent_EDIT, 0, strings.Repeat("x", 60_000)).Events[0])
	require.LessOrEqual(t, tr.bytes, 50_000)

	// What has settled goes by itself, and nothing is counted as forgotten.
	n := forgotten
	tr.advance(rehearsal.Epoch.Add(3 * time.Hour).UnixMicro())
	require.Empty(t, tr.sessions)
	require.Empty(t, tr.order)
	require.Zero(t, tr.bytes)
	require.Equal(t, n, forgotten)
}

func TestAgreementWithTheUser(t *testing.T) {
	t.Parallel()
	tr := newTracker("judge/m/1", windows, math.MaxInt)
	var seen [][2]float64
	tr.agreed = func(rating, polarity float64) { seen = append(seen, [2]float64{rating, polarity}) }
	s := rehearsal.NewStream("s", "u", rehearsal.Epoch).Start(event.Intent_EDIT, 0, first)
	evidence := func(source, version string) *event.SessionEvent {
		return &event.SessionEvent{Source: source, SessionId: "s", TurnId: "s-t1", OccurredAt: s.Events[0].OccurredAt, Body: &event.SessionEvent_EvidenceAdded{
			EvidenceAdded: &event.EvidenceAdded{Polarity: proto.Float64(-1), ClassifierVersion: version},
		}}
	}
	rating := s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: 1}}})
	for i, e := range []*event.SessionEvent{
		s.Events[0], evidence("backend", "judge/m/1"), evidence(Source, "judge/other/1"), rating, evidence(Source, "judge/m/1"), evidence(Source, "judge/m/1"),
	} {
		tr.event(int64(i), e)
	}
	require.Equal(t, [][2]float64{{1, -1}}, seen, "of this judge's evidence alone, and once")
}

func TestEvidenceNeverConflicts(t *testing.T) {
	t.Parallel()
	asks, _ := asksOf(spoke("s", second, false))
	a := asks[0]
	ids := map[string]bool{}
	make1 := func(v Verdict, version string) *event.SessionEvent {
		e, err := a.Evidence(v, version)
		require.NoError(t, err)
		require.Nil(t, event.Validate(e))
		again, err := a.Evidence(v, version)
		require.NoError(t, err)
		require.True(t, proto.Equal(e, again), "the same whenever it is made")
		ids[e.GetEventId()] = true
		return e
	}
	no := Verdict{Class: event.FollowUpClass_CORRECTION, Polarity: -1, Confidence: .9}
	e := make1(no, "judge/m/1")
	require.Equal(t, Source, e.GetSource())
	require.Zero(t, e.GetSequence())
	require.Equal(t, rehearsal.Epoch.Add(time.Second+time.Minute), e.GetOccurredAt().AsTime())
	surer := no
	surer.Confidence = 1
	make1(surer, "judge/m/1")
	make1(no, "judge/m/2")
	require.Len(t, ids, 3, "what says something else is another event")
	e, err := a.Evidence(Verdict{Abstained: AbstainedTimeout}, "judge/m/1")
	require.NoError(t, err)
	require.Nil(t, e)
}

package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/distill/rehearsal"
	"millrace/distill/signal"
	"millrace/schemas/event"
)

const version = "judge/judge-7b/" + promptVersion

// Events in, evidence out, and the engine's row has the verdict.
func TestVerdictsReachTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(nil)
	w.send(spoke("a", second, false), edited("b", event.Relation_UNDO, second))
	w.pass(windows.Lateness)
	e := w.awaitEvidence(1)[0]
	require.Equal(t, []string{Source, "a", "a-t1", "unit-a"}, []string{e.GetSource(), e.GetSessionId(), e.GetTurnId(), e.GetUnitId()})

	// The user's own rating comes later, and is compared.
	rated := rehearsal.NewStream("a", "unit-a", w.clock())
	rated.Emit("ide-2", &event.SessionEvent{Body: &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: -1}}}).TurnId = "a-t1"
	w.send(rated)
	w.await("agreement", func() bool { return j.metric("feedback_total", "agree") == 1 })
	for name, want := range map[string]float64{
		"verdicts_total correction -1": 1, "not_asked_total decided": 1, "votes_total cast": 1, "votes_total timeout": 0,
		"seconds": 1, "mean_confidence": .9, "neutral_share": 0, "away": 0, "waiting": 0,
	} {
		of := strings.Fields(name)
		require.InDelta(t, want, j.metric(of[0], of[1:]...), 1e-12, name)
	}
	j.stop()

	rows := w.settled()
	judged, undone := rows["a-t1"].Row, rows["b-t1"].Row
	require.Equal(t, version, judged.ClassifierVersion)
	require.Equal(t, signal.FollowUpCorrection, judged.FollowUpClass)
	require.InDelta(t, -1, judged.Signal("follow_up.polarity").Number, 0)
	require.InDelta(t, .9, judged.Signal("follow_up.confidence").Number, 0)
	require.Equal(t, signal.ClassifierVersion, undone.ClassifierVersion, "what structure decides nobody is asked about")
	require.EqualValues(t, 1, w.endpoint.calls.Load())
}

// A restart skips nothing and asks nothing twice that the log has an answer to.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(nil)
	w.send(spoke("a", second, false))
	w.pass(windows.Lateness)
	w.awaitEvidence(1)
	j.stop()

	w.send(spoke("b", second, false)) // nobody is there
	w.pass(windows.Lateness)
	w.down.Store(true)
	j = w.start(nil)
	w.await("the question of b", func() bool { return w.endpoint.calls.Load() > 1 })
	j.stop() // while it waits for an answer
	w.down.Store(false)
	j = w.start(nil)
	w.awaitEvidence(2)
	j.stop()
	asked := map[string]int{}
	for _, e := range w.evidence() {
		asked[e.GetTurnId()]++
	}
	require.Equal(t, map[string]int{"a-t1": 1, "b-t1": 1}, asked)

	// What had settled by the workers' word is not read again.
	before := w.endpoint.calls.Load()
	_, next, err := w.reader.Bounds(t.Context(), w.partitionOf("a"))
	require.NoError(t, err)
	w.low.Store(next)
	w.start(nil)
	w.send(spoke("c", second, false))
	w.pass(windows.Lateness)
	w.await("an answer on c", func() bool { return w.endpoint.calls.Load() > before })
	rows := w.settled()
	require.Equal(t, version, rows["a-t1"].Row.ClassifierVersion)
	require.Equal(t, version, rows["b-t1"].Row.ClassifierVersion)
}

// Two that judge at the same time, and differ: two events, no conflict.
func TestTwoJudgings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(spoke("a", second, false))
	w.down.Store(true)
	one, other := w.start(nil), w.start(nil)
	w.pass(windows.Lateness)
	w.await("both to have found it", func() bool { return one.breaker.open() && other.breaker.open() })
	other.stop()
	w.down.Store(false)
	w.awaitEvidence(1)
	one.stop()

	// The other one had asked before it knew: what it writes now says something else.
	tr := newTracker(version, windows, 1<<20)
	var asks []*Ask
	for _, r := range w.read(w.partitionOf("a")) {
		asks = append(asks, tr.advance(r.Time)...)
		if r.Event != nil {
			tr.event(r.Offset, r.Event)
		}
	}
	require.Len(t, asks, 1)
	for _, v := range []Verdict{{Class: event.FollowUpClass_CORRECTION, Polarity: -1, Confidence: .9}, {Class: event.FollowUpClass_NEW_REQUEST, Confidence: .5}} {
		one.write(t.Context(), waiting{asks[0], nil}, v)
	}
	rows := w.settled()
	require.Equal(t, signal.FollowUpNewRequest, rows["a-t1"].Row.FollowUpClass, "the last counts")
	require.Len(t, w.evidence(), 3, "the first was written twice: a repeat")
}

// An endpoint that is down stops and delays nothing: turns settle by structure. What hasn't settled when it is back is
// asked, what has is not.
func TestEndpointDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.down.Store(true)
	j := w.start(func(c *Config) { c.Waiting = 1 }) // one waits, and the log keeps the rest
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		w.send(spoke(id, second, false))
	}
	w.pass(windows.Lateness)
	w.await("the breaker", j.breaker.open)
	w.pass(windows.SettleAfter + windows.Lateness)
	w.await("what has settled to be given up", func() bool { return j.notAsked(skippedLate) == 8 })
	w.now.Add(time.Minute.Microseconds())
	s := spoke("late", second, false)
	for _, e := range s.Events {
		e.OccurredAt.Seconds += int64(w.clock().Sub(rehearsal.Epoch).Seconds())
	}
	w.send(s)
	w.pass(windows.Lateness)
	w.await("the new one to wait", func() bool { return j.metric("waiting") == 1 })
	w.down.Store(false)
	e := w.awaitEvidence(1)[0]
	require.Equal(t, "late-t1", e.GetTurnId())
	require.InDelta(t, 8, j.notAsked(skippedLate), 0)
	require.False(t, j.breaker.open())
	rows := w.settled()
	require.Len(t, rows, 18)
	require.Equal(t, signal.ClassifierVersion, rows["a-t1"].Row.ClassifierVersion)
	require.Equal(t, version, rows["late-t1"].Row.ClassifierVersion)
}

// What is not FULL never leaves, nor what was erased or taken out while it waited.
func TestWhatMustNotBeSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	private := func(id string, privacy event.Privacy) *rehearsal.Stream {
		s := spoke(id, "private words of "+id, false)
		for _, e := range s.Events {
			e.Privacy = privacy // with its text: whoever writes to the log directly may have failed to strip it
		}
		return s
	}
	w.down.Store(true)
	j := w.start(nil)
	w.send(private("nc", event.Privacy_NO_CONTENT), private("mo", event.Privacy_METRICS_ONLY))
	mixed := private("mixed", event.Privacy_FULL)
	mixed.Events[len(mixed.Events)-2].Privacy = event.Privacy_NO_CONTENT // the next request
	w.send(mixed)
	later := spoke("later", "private words that later are", false)
	w.send(later)
	w.send(spoke("erased", "private words to be erased", false), spoke("quarantined", "private words in quarantine", false), spoke("open", second, false))
	w.pass(windows.Lateness)
	w.await("the others to wait", func() bool { return j.notAsked(skippedNoText) == 3 && j.breaker.open() })
	last := later.Step(50, 0).Events[len(later.Events)-1]
	last.Privacy, later.Events = event.Privacy_NO_CONTENT, []*event.SessionEvent{last}
	w.send(later)
	w.control(&event.ControlRecord{Id: "erase", Body: &event.ControlRecord_UnitErased{UnitErased: &event.UnitErased{UnitHash: pseudonym("unit-erased")}}})
	w.control(&event.ControlRecord{Id: "quarantine", Body: &event.ControlRecord_Quarantined{Quarantined: &event.Quarantined{SessionId: "quarantined", Reason: "x"}}})
	w.await("all three to be taken back", func() bool { return j.notAsked(skippedWithheld) == 2 && j.notAsked(skippedNoText) == 4 })
	w.await("a pause between two trials", func() bool {
		j.queue.mu.Lock()
		defer j.queue.mu.Unlock()
		return len(j.queue.asks) == 1 && len(j.queue.taken) == 0
	})
	w.endpoint.mu.Lock()
	w.endpoint.requests = nil // what was sent before it was taken out can't be taken back
	w.endpoint.mu.Unlock()
	w.down.Store(false)
	w.awaitEvidence(1)
	w.endpoint.mu.Lock()
	defer w.endpoint.mu.Unlock()
	for _, asked := range w.endpoint.requests {
		text := asked.Messages[1].Content
		require.NotContains(t, text, "private words")
		require.Contains(t, text, "lexer")
	}
}

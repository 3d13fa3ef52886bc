package judge

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"millrace/distill/signal"
	"millrace/distill/turn"
	"millrace/schemas/event"
)

// Windows are the configuration's times that say when a turn settles.
type Windows struct {
	SettleAfter time.Duration // after the turn's end
	MaxTurn     time.Duration // after its beginning, if it never ends
	Lateness    time.Duration // how far a turn settles behind the newest record
}

// Why an exchange is not put to a judge.
const (
	skippedDecided   = "decided"   // the structural rules say something
	skippedNoText    = "no_text"   // a text is missing: stripped for privacy, or not sent
	skippedLate      = "late"      // the turn has settled
	skippedForgotten = "forgotten" // its text was dropped for want of memory
	skippedWithheld  = "withheld"  // erased or in quarantine
)

const (
	eventBytes = 256              // what a kept event takes besides its text, roughly
	sweepEvery = 10 * time.Second // of log time

	mostCharacters = 16_000 // of one text that waits for a judge, whatever the judge takes
)

// tracker keeps of a partition's open turns what a judge would be shown, and says when there is something to ask. It
// reads no clock: its time is the log's.
type tracker struct {
	windows Windows
	version string // of the judge, whose own evidence tells what was asked already
	limit   int    // bytes

	now      int64 // log time: the greatest record time so far, µs
	swept    int64
	sessions map[string]map[turn.Key]*tracked
	order    []*tracked // by first record; those that are gone too, until the next sweep
	bytes    int
	due      []*tracked // have a next request, in the order in which it came

	redact  func(text string) string
	private func(*tracked) // an event of the turn is not FULL: what was given away of it is to be taken back
	skipped func(reason string)
	agreed  func(rating, polarity float64)
}

// tracked is an open turn: of its events, what a judge or the structural rules look at, without payloads.
type tracked struct {
	turn.Turn
	unit     string
	bytes    int
	private  bool     // some event of it is not FULL
	withheld bool     // a person took it out
	gone     bool     // no longer kept
	next     turn.Key // the request that was last put to the rules
	nextAt   int64    // log time at which it came
	judged   *float64 // the polarity that this judge's evidence gave it
	rating   *float64
}

func newTracker(version string, w Windows, limit int) *tracker {
	return &tracker{
		windows: w, version: version, limit: limit, sessions: map[string]map[turn.Key]*tracked{},
		redact: func(text string) string { return text }, private: func(*tracked) {}, skipped: func(string) {}, agreed: func(_, _ float64) {},
	}
}

// advance moves log time and gives what there is to ask: of turns whose next request is the allowed lateness old, so
// that what belongs to either turn has come.
func (t *tracker) advance(recordTime int64) []*Ask {
	t.now = max(t.now, recordTime)
	var asks []*Ask
	for len(t.due) > 0 && t.due[0].nextAt+t.windows.Lateness.Microseconds() <= t.now {
		x := t.due[0]
		t.due = t.due[1:]
		if a := t.ask(x); a != nil {
			asks = append(asks, a)
		}
	}
	if t.now-t.swept >= sweepEvery.Microseconds() {
		t.sweep()
	}
	return asks
}

// event takes one event of the log.
func (t *tracker) event(offset int64, e *event.SessionEvent) {
	if e.GetTurnId() == "" {
		return
	}
	key := turn.KeyOf(e.GetSessionId(), e.GetTurnId())
	x := t.sessions[e.GetSessionId()][key]
	if x == nil {
		if !turn.Opens(e) {
			return
		}
		x = t.open(offset, key, e)
	}
	if !full(e) && !x.private {
		x.private = true
		t.forgetText(x)
		t.private(x)
	}
	if x.unit == "" {
		x.unit = e.GetUnitId()
	}
	t.keep(x, offset, e)
	t.fit()
	if x.gone {
		return
	}
	switch body := e.GetBody().(type) {
	case *event.SessionEvent_TurnStarted:
		if !x.Started {
			t.started(x, offset, e)
		}
	case *event.SessionEvent_TurnEnded:
		if x.EndedAt == 0 {
			x.EndedAt = t.now
		}
	case *event.SessionEvent_FeedbackGiven:
		x.rating = &body.FeedbackGiven.Rating
		t.compare(x)
	case *event.SessionEvent_EvidenceAdded:
		if v := body.EvidenceAdded; e.GetSource() == Source && v.GetClassifierVersion() == t.version && v.Polarity != nil {
			x.judged = v.Polarity
			t.compare(x)
		}
	}
}

func full(e *event.SessionEvent) bool {
	return e.GetPrivacy() == event.Privacy_FULL || e.GetPrivacy() == event.Privacy_PRIVACY_UNSPECIFIED
}

func (t *tracker) open(offset int64, key turn.Key, e *event.SessionEvent) *tracked {
	x := &tracked{Turn: turn.Turn{
		Key: key, SessionID: e.GetSessionId(), TurnID: e.GetTurnId(), FirstOffset: offset, OpenedAt: t.now,
		StartedAt: turn.OccurredAt(e), StartedOffset: offset,
	}}
	if t.sessions[x.SessionID] == nil {
		t.sessions[x.SessionID] = map[turn.Key]*tracked{}
	}
	t.sessions[x.SessionID][key] = x
	t.order = append(t.order, x)
	return x
}

// keep keeps of an event what a judge or the rules look at.
func (t *tracker) keep(x *tracked, offset int64, e *event.SessionEvent) {
	small := &event.SessionEvent{OccurredAt: e.OccurredAt, SentAt: e.SentAt, ReceivedAt: e.ReceivedAt, Privacy: e.Privacy}
	text := 0
	switch body := e.GetBody().(type) {
	case *event.SessionEvent_TurnStarted:
		s := body.TurnStarted
		started := &event.TurnStarted{Intent: s.Intent, Relation: s.Relation, PastedStackTrace: s.PastedStackTrace, IsCommand: s.IsCommand}
		if !x.private {
			started.Text, text = s.Text, len(s.Text)
		}
		small.Body = &event.SessionEvent_TurnStarted{TurnStarted: started}
	case *event.SessionEvent_StepCompleted:
		small.Body = &event.SessionEvent_StepCompleted{StepCompleted: &event.StepCompleted{Step: body.StepCompleted.Step}}
	case *event.SessionEvent_ToolCalled:
		c := body.ToolCalled
		small.Body = &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{CallId: c.CallId, Step: c.Step, Kind: c.Kind}}
	case *event.SessionEvent_EditProposed, *event.SessionEvent_EditDecided, *event.SessionEvent_TurnEnded:
		small.Body = e.Body
	default:
		return
	}
	x.Entries = append(x.Entries, turn.Entry{Offset: offset, Event: small})
	x.bytes += eventBytes + text
	t.bytes += eventBytes + text
}

// fit drops the oldest turns until the rest fits into the memory that was granted.
func (t *tracker) fit() {
	for len(t.order) > 0 && t.bytes > t.limit {
		oldest := t.order[0]
		t.order = t.order[1:]
		if !oldest.gone {
			t.skipped(skippedForgotten)
			t.drop(oldest)
		}
	}
}

// started links the turn with the others of its session, as the engine does.
func (t *tracker) started(x *tracked, offset int64, e *event.SessionEvent) {
	s := e.GetTurnStarted()
	x.Started, x.StartedAt, x.StartedOffset = true, turn.OccurredAt(e), offset
	x.PastedStackTrace = s.GetPastedStackTrace() || signal.HasStackTrace(s.GetText())
	for _, other := range t.others(x) {
		follow(&other.Turn, &x.Turn)
		if other.Started { // it may have come before this one in the log, and behind it in time
			follow(&x.Turn, &other.Turn)
		}
		t.await(other)
	}
	t.await(x)
}

func (t *tracker) others(x *tracked) []*tracked {
	out := make([]*tracked, 0, len(t.sessions[x.SessionID]))
	for _, other := range t.sessions[x.SessionID] {
		if other != x {
			out = append(out, other)
		}
	}
	slices.SortFunc(out, func(a, b *tracked) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return out
}

func follow(before, x *turn.Turn) {
	s := x.Start()
	f := before.Follow(turn.FollowUp{
		Key: x.Key, Offset: x.StartedOffset, OpenedAt: x.OpenedAt, OccurredAt: x.StartedAt,
		Relation: s.GetRelation(), PastedStackTrace: x.PastedStackTrace, IsCommand: s.GetIsCommand(),
	})
	if f != nil {
		f.Similarity = signal.Similarity(before.Start().GetText(), s.GetText())
	}
}

// await puts a turn on the list of those that are due, if it has a next request that it hadn't.
func (t *tracker) await(x *tracked) {
	if first := x.First(); x.Started && first != nil && first.Key != x.next {
		x.next, x.nextAt = first.Key, t.now
		t.due = append(t.due, x)
	}
}

// ask is what there is to ask of a turn whose next request has come; nil: nothing, and why is counted.
func (t *tracker) ask(x *tracked) *Ask {
	first := x.First()
	if x.gone || first == nil || x.judged != nil {
		return nil
	}
	facts := x.Facts()
	asks := facts.AsksInsteadOfEditing()
	// Whether an edit was asked for, so that this is a question turn, only the baseline knows. Taken for one, more is
	// neutral by structure: nothing that the engine would take a judge's word on is left out.
	structural := signal.Classify(signal.Shown(facts, first, asks && first.Relation == event.Relation_RELATION_UNSPECIFIED))
	next := t.sessions[x.SessionID][first.Key]
	request, following := usable(x), usable(next)
	settles := t.settles(x)
	switch {
	case structural.Decides():
		t.skipped(skippedDecided)
	case t.now >= settles:
		t.skipped(skippedLate)
	case x.withheld || (next != nil && next.withheld):
		t.skipped(skippedWithheld)
	case request == "" || following == "":
		t.skipped(skippedNoText)
	default:
		return &Ask{
			SessionID: x.SessionID, TurnID: x.TurnID, UnitID: x.unit, at: first.OccurredAt, settles: settles,
			Exchange: Exchange{Request: t.presentable(request), Turn: shown(facts, asks), Next: t.presentable(following)},
			nextID:   next.TurnID, turn: x, next: next,
		}
	}
	return nil
}

// usable is the text of a turn's request that may be shown to a judge; "": none.
func usable(x *tracked) string {
	if x == nil || x.private {
		return ""
	}
	return strings.TrimSpace(x.Start().GetText())
}

// presentable is a text as it may wait for a judge: without secrets, and of bounded length.
func (t *tracker) presentable(text string) string { return shortened(t.redact(text), mostCharacters) }

// shown are the turn's facts as a judge sees them.
func shown(f *turn.Facts, asks bool) Turn {
	x := Turn{
		DeliveredEdit: f.Delivered(), AskedBack: asks || f.Ended.GetAsksUser(), OfferedMore: f.Ended.GetOffersMore(),
		Stopped: f.Ended.GetReason() == event.EndReason_ABORTED_BY_USER, Finished: f.Ended.GetReason() == event.EndReason_COMPLETED,
	}
	for i := range f.Edits {
		switch {
		case f.Edits[i].AcceptedByUser():
			x.Accepted++
		case f.Edits[i].RejectedByUser():
			x.Rejected++
		}
	}
	return x
}

// settles is the log time from which on the turn has settled, unless it waits for another one.
func (t *tracker) settles(x *tracked) int64 {
	if x.EndedAt != 0 {
		return x.EndedAt + (t.windows.SettleAfter + t.windows.Lateness).Microseconds()
	}
	return x.OpenedAt + (t.windows.MaxTurn + t.windows.Lateness).Microseconds()
}

// withhold takes turns out: of a unit that is to be erased, or what a person declared to be in quarantine.
func (t *tracker) withhold(hit func(*tracked) bool) {
	for _, x := range t.order {
		if !x.gone && hit(x) {
			x.withheld = true
			t.forgetText(x)
		}
	}
}

func (t *tracker) forgetText(x *tracked) {
	if s := x.Start(); s != nil {
		t.bytes -= len(s.Text)
		x.bytes -= len(s.Text)
		s.Text = ""
	}
}

// compare tells how the judge and the user's own rating agree, once both are known.
func (t *tracker) compare(x *tracked) {
	if x.judged != nil && x.rating != nil {
		t.agreed(*x.rating, *x.judged)
		x.rating = nil // counted once
	}
}

// sweep drops what has settled.
func (t *tracker) sweep() {
	t.swept = t.now
	kept := t.order[:0]
	for _, x := range t.order {
		if !x.gone && t.now >= t.settles(x) {
			t.drop(x)
		}
		if !x.gone {
			kept = append(kept, x)
		}
	}
	clear(t.order[len(kept):])
	t.order = kept
}

func (t *tracker) drop(x *tracked) {
	x.gone = true
	t.bytes -= x.bytes
	delete(t.sessions[x.SessionID], x.Key)
	if len(t.sessions[x.SessionID]) == 0 {
		delete(t.sessions, x.SessionID)
	}
}

// Asks are the exchanges of a whole log that a judge may be asked about, and how many others there are, by the reason for
// which nobody is. The events' own times are the log's, as in a score; redact takes secrets out of a text.
func Asks(events []*event.SessionEvent, w Windows, redact func(string) string) (asks []*Ask, skipped map[string]int) {
	t := newTracker("", w, math.MaxInt)
	skipped = map[string]int{}
	t.redact, t.skipped = redact, func(reason string) { skipped[reason]++ }
	for i, e := range events {
		asks = append(asks, t.advance(e.GetOccurredAt().AsTime().UnixMicro())...)
		t.event(int64(i), e)
	}
	return append(asks, t.advance(t.now+w.Lateness.Microseconds())...), skipped
}

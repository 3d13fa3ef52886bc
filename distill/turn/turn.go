package turn

import (
	"crypto/sha256"
	"encoding/binary"

	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// Key identifies a turn within a partition: a hash of its session and turn id.
type Key uint64

// KeyOf is the key of a turn.
func KeyOf(sessionID, turnID string) Key {
	h := sha256.New()
	h.Write([]byte(sessionID))
	h.Write([]byte{0})
	h.Write([]byte(turnID))
	return Key(binary.LittleEndian.Uint64(h.Sum(nil)))
}

// Turn is an open turn: the events that came for it, in log order, and what was derived while they came.
type Turn struct {
	Key       Key
	SessionID string
	TurnID    string

	Entries     []Entry
	FirstOffset int64
	LastOffset  int64

	Started          bool // its TurnStarted came
	PastedStackTrace bool // in its request

	StartedAt     int64 // client time (µs) of its TurnStarted, of its first event before that came; skew-corrected
	StartedOffset int64 // of that event

	OpenedAt int64 // log time (µs) of the first record
	EndedAt  int64 // log time of TurnEnded; 0: not ended
	AnswerBy int64 // log time until which a next turn answers this one's question; 0: not ended
	Deadline int64 // log time at which it settles, unless a chain makes it wait

	FirstStep     uint32       // the lowest step number seen; 0 before one
	PolicyVersion string       // of that step; "" before one
	FollowUps     []FollowUp   // turns of the session that began while this one was open: what First may choose from
	PEdit         ledger.Value // how likely an edit was asked for, where it answers a question that has settled before it
	PEditStratum  string       // with PEdit: the stratum whose frozen share that is; "" if the intent was stamped
	Withheld      string       // why the row may not be trained on; "" if nothing that came forbids it

	facts *Facts // of the first so many entries
	folds int
}

// Facts are the turn's events, joined. They are kept until another event comes.
func (t *Turn) Facts() *Facts {
	if t.facts == nil || t.folds != len(t.Entries) {
		t.facts, t.folds = Fold(t), len(t.Entries)
	}
	return t.facts
}

// Entry is one event of a turn and its place in the log.
type Entry struct {
	Offset int64
	Event  *event.SessionEvent
}

// FollowUp is what a later request in the session shows of this turn, taken when that request came.
type FollowUp struct {
	Key              Key
	Offset           int64
	OpenedAt         int64 // log time
	OccurredAt       int64 // client time (µs), skew-corrected
	Relation         event.Relation
	PastedStackTrace bool
	IsCommand        bool
	Similarity       ledger.Value // of the two requests' texts; null without texts
}

// Start is the request that began the turn, the first that arrived; nil before it.
func (t *Turn) Start() *event.TurnStarted {
	for _, entry := range t.Entries {
		if s := entry.Event.GetTurnStarted(); s != nil {
			return s
		}
	}
	return nil
}

// Follow notes a follow-up and gives its place, in which more may be written; nil if another one came before it. Once
// the turn's own start is known, only the first is kept.
func (t *Turn) Follow(f FollowUp) *FollowUp {
	for i := range t.FollowUps {
		if t.FollowUps[i].Key == f.Key {
			return nil
		}
	}
	t.FollowUps = append(t.FollowUps, f)
	if !t.Started {
		return &t.FollowUps[len(t.FollowUps)-1]
	}
	first := t.First()
	if first == nil {
		t.FollowUps = nil
		return nil
	}
	t.FollowUps = []FollowUp{*first}
	if first.Key != f.Key {
		return nil
	}
	return &t.FollowUps[0]
}

// First is the follow-up that came first after the turn began; nil if none came. Requests follow each other by the
// client's time, whatever the order in which they arrived: of two turns one is never before and after the other.
func (t *Turn) First() *FollowUp {
	var first *FollowUp
	for i := range t.FollowUps {
		f := &t.FollowUps[i]
		// A command of the client says nothing of the turn, unless it takes the turn back.
		if f.IsCommand && f.Relation == event.Relation_RELATION_UNSPECIFIED || !follows(f, t.StartedAt, t.StartedOffset) {
			continue
		}
		if first == nil || follows(first, f.OccurredAt, f.Offset) {
			first = f
		}
	}
	return first
}

func follows(f *FollowUp, occurredAt, offset int64) bool {
	return f.OccurredAt > occurredAt || (f.OccurredAt == occurredAt && f.Offset > offset)
}

// SawStep keeps the version of the turn's first step, in whatever order the steps arrive. A step that more than one
// version generated counts under the one that began it.
func (t *Turn) SawStep(s *event.StepCompleted) {
	if t.FirstStep == 0 || s.GetStep() < t.FirstStep {
		t.FirstStep, t.PolicyVersion = s.GetStep(), versionsOf(s)[0]
	}
}

// Version is the policy version that the turn is counted under: its first step's, "none" before one.
func (t *Turn) Version() string {
	if t.PolicyVersion == "" {
		return "none"
	}
	return t.PolicyVersion
}

// OccurredAt is the event's client time in µs since 1970, corrected by the skew that the gateway saw:
// received − (sent − occurred).
func OccurredAt(e *event.SessionEvent) int64 {
	occurred := e.GetOccurredAt().AsTime().UnixMicro()
	if e.GetSentAt() == nil || e.GetReceivedAt() == nil {
		return occurred
	}
	return e.GetReceivedAt().AsTime().UnixMicro() - (e.GetSentAt().AsTime().UnixMicro() - occurred)
}

package engine

import (
	"container/heap"
	"strings"
	"time"

	"millrace/distill/account"
	"millrace/distill/signal"
	"millrace/distill/turn"
	"millrace/internal/unithash"
	"millrace/schemas/event"
)

// event applies a session event: a repeat, evidence on a settled turn, or a fact of an open one.
func (e *Engine) event(r Record, x examined, eff *Effects) {
	ev := r.Event
	if known, same := e.seen.look(x.id, x.digest); known {
		if same {
			eff.Class = account.Duplicate
			return
		}
		eff.Class, eff.DeadLetter = account.DeadLetter, "conflict"
		return
	}
	s := e.sessions[ev.GetSessionId()]
	if ev.GetTurnId() == "" {
		s = e.session(ev.GetSessionId())
		s.note(ev, e.logTime)
		s.imported = s.imported || ev.GetSessionStarted().GetOrigin() == event.Origin_IMPORTED
		e.seen.add(x.id, x.digest, e.logTime)
		eff.Class = account.Applied
		return
	}
	t := e.turns[x.key]
	if t == nil && e.settled.has(uint64(x.key)) {
		e.seen.add(x.id, x.digest, e.logTime)
		eff.Class, eff.Amendment = account.Amended, e.amendment(r)
		e.batch.rows++
		if s != nil {
			s.note(ev, e.logTime)
		}
		return
	}
	if t == nil {
		if s != nil {
			s.note(ev, e.logTime) // whatever becomes of it, it was not lost in transport
		}
		if !turn.Opens(ev) {
			eff.Class = account.Orphan
			return
		}
		imported := ev.GetTurnStarted().GetContext().GetOrigin() == event.Origin_IMPORTED || (s != nil && s.imported)
		if !imported && turn.OccurredAt(ev) < e.logTime-e.limits.dedupe {
			eff.Class = account.Expired
			return
		}
		t = e.openTurn(r, x)
	} else if class, reason := e.repeated(t, ev, x); class != "" {
		eff.Class, eff.DeadLetter = class, reason
		return
	}
	s = e.session(ev.GetSessionId())
	s.note(ev, e.logTime)
	e.seen.add(x.id, x.digest, e.logTime)
	t.Entries = append(t.Entries, turn.Entry{Offset: r.Offset, Event: ev})
	t.LastOffset = r.Offset
	eff.Class = account.Applied
	e.derive(t, s, r, x, eff)
}

// repeated finds a repeat of an event that the dedupe window has forgotten, in a turn that is older than the window.
func (e *Engine) repeated(t *turn.Turn, ev *event.SessionEvent, x examined) (class account.Class, reason string) {
	if t.OpenedAt >= e.logTime-e.limits.dedupe {
		return "", ""
	}
	for _, entry := range t.Entries {
		if entry.Event.GetEventId() != ev.GetEventId() || entry.Event.GetSource() != ev.GetSource() {
			continue
		}
		if id, digest := e.identity(entry.Event); id == x.id {
			if digest == x.digest {
				return account.Duplicate, ""
			}
			return account.DeadLetter, "conflict"
		}
	}
	return "", ""
}

func (e *Engine) openTurn(r Record, x examined) *turn.Turn {
	t := &turn.Turn{
		Key: x.key, SessionID: r.Event.GetSessionId(), TurnID: r.Event.GetTurnId(),
		FirstOffset: r.Offset, LastOffset: r.Offset, OpenedAt: e.logTime, Deadline: e.logTime + e.limits.maxTurn,
		StartedAt: turn.OccurredAt(r.Event), StartedOffset: r.Offset,
	}
	e.turns[t.Key] = t
	e.session(t.SessionID).open[t.Key] = t
	heap.Push(&e.due, due{t.Deadline, t.FirstOffset, t.Key})
	e.balance.Opened++
	e.since.Opened++
	return t
}

// exposure is that of a turn which began inside the test that its backend names; nil without one.
func (e *Engine) exposure(t *turn.Turn, c *event.TurnContext, unitID string) *Exposure {
	if unitID == "" || (c.GetArm() != "control" && c.GetArm() != "candidate") {
		return nil
	}
	for _, x := range e.config.GetExperiments() {
		at := micros(t.StartedAt)
		if x.GetId() == c.GetExperiment() && !at.Before(x.GetStartsAt().AsTime()) && at.Before(x.GetEndsAt().AsTime()) {
			return &Exposure{Experiment: x.GetId(), UnitHash: e.pseudonym(unitID), Arm: c.GetArm()}
		}
	}
	return nil
}

// derive keeps with the turn what later records will ask of it.
func (e *Engine) derive(t *turn.Turn, s *session, r Record, x examined, eff *Effects) {
	switch body := r.Event.GetBody().(type) {
	case *event.SessionEvent_TurnStarted:
		if t.Started {
			return // the same start again, from another source
		}
		t.Started, t.StartedAt, t.StartedOffset, t.PastedStackTrace = true, turn.OccurredAt(r.Event), r.Offset, x.stack
		s.imported = s.imported || body.TurnStarted.GetContext().GetOrigin() == event.Origin_IMPORTED
		eff.Exposed = e.exposure(t, body.TurnStarted.GetContext(), r.Event.GetUnitId())
		for _, other := range s.others(t) {
			followedBy(other, t)
			if other.Started { // it may have come before this one in the log, and behind it in time
				followedBy(t, other)
			}
		}
	case *event.SessionEvent_StepCompleted:
		t.SawStep(body.StepCompleted)
	case *event.SessionEvent_TurnEnded:
		if t.EndedAt == 0 {
			t.EndedAt = e.logTime
			t.AnswerBy = e.logTime + e.reward.Spec().SettleAfter.Microseconds()
			t.Deadline = t.AnswerBy
			heap.Push(&e.due, due{t.Deadline, t.FirstOffset, t.Key})
		}
	}
}

// followedBy notes what the start of another turn shows of this one.
func followedBy(before, t *turn.Turn) {
	started := t.Start()
	f := before.Follow(turn.FollowUp{
		Key: t.Key, Offset: t.StartedOffset, OpenedAt: t.OpenedAt, OccurredAt: t.StartedAt,
		Relation: started.GetRelation(), PastedStackTrace: t.PastedStackTrace, IsCommand: started.GetIsCommand(),
	})
	if f != nil {
		f.Similarity = signal.Similarity(before.Start().GetText(), started.GetText())
	}
}

// quarantine says whether a person took the turn out, before it began or while it was open.
func (e *Engine) quarantine(t *turn.Turn, unitHash string) string {
	for _, q := range e.quarantined {
		hit := (q.GetTurnId() != "" && q.GetTurnId() == t.TurnID) ||
			(q.GetSessionId() != "" && q.GetSessionId() == t.SessionID) ||
			(q.GetUnitHash() != "" && q.GetUnitHash() == unitHash)
		if hit {
			return "quarantine: " + q.GetReason()
		}
	}
	return ""
}

func (e *Engine) unitOf(t *turn.Turn) string {
	for _, entry := range t.Entries {
		if u := entry.Event.GetUnitId(); u != "" {
			return e.pseudonym(u)
		}
	}
	return ""
}

func (e *Engine) pseudonym(unitID string) string {
	if unitID == "" {
		return ""
	}
	return unithash.Pseudonym(e.opts.UnitKey, unitID)
}

func micros(t int64) time.Time { return time.UnixMicro(t).UTC() }

// bodyName is the body's field name in JSON: "edit_observed".
func bodyName(ev *event.SessionEvent) string {
	m := ev.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); f != nil {
		return string(f.Name())
	}
	return ""
}

func followUpName(c event.FollowUpClass) string {
	if c == event.FollowUpClass_FOLLOW_UP_CLASS_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(c.String())
}

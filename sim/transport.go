package sim

import (
	"millrace/schemas/event"
)

// What the network does to an event, as shares of all events.
const (
	shareLost     = .0001 // never sent: a gap in the session's sequence
	shareRepeated = .004  // sent a second time
	shareLate     = .003  // minutes late: a laptop without a network
	shareVeryLate = .0001 // more than two hours late
)

// send numbers an event as it occurs and puts it on its way.
func (s *Sim) send(at int64, what occurrence) {
	ev, from := what.event, what.session
	from.numbered[what.source]++
	ev.Source = sourceNames[what.source]
	ev.SessionId = from.id
	ev.Sequence = from.numbered[what.source]
	ev.EventId = name(from.id, ev.Source[0], ev.Sequence)
	ev.Privacy = from.unit.privacy
	ev.UnitId = from.unit.id

	r := s.transport
	delay := int64(float64(second) * (.05 + 2.5*r.Float64()))
	skew := from.unit.skew
	if what.source == engine {
		delay, skew = delay/4, 0
	}
	repeated := false
	if !s.cfg.Calm {
		switch p := r.Float64(); {
		case p < shareLost:
			return
		case p < shareLost+shareVeryLate:
			delay = 2*hour + int64(float64(hour)*r.Float64())
		case p < shareLost+shareVeryLate+shareLate:
			delay = min(minute+int64(8*float64(minute)*r.ExpFloat64()), 100*minute)
		case p < shareLost+shareVeryLate+shareLate+shareRepeated:
			repeated = true
		}
	}
	ev.OccurredAt = stamp(at + skew)
	ev.SentAt = stamp(at + delay + skew)
	s.sending.put(at+delay, ev)
	if repeated {
		s.sending.put(at+delay+int64(90*float64(second)*r.Float64()), ev)
	}
}

// occur lets an event of a session happen at a time.
func (s *session) occur(at int64, from source, turn string, ev *event.SessionEvent) {
	ev.TurnId = turn
	s.sim.happening.put(at, occurrence{session: s, event: ev, source: from})
	if at > s.last {
		s.last = at
	}
}

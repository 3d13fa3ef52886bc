package schedule

import "time"

// Anchored has a slot at Anchor and at every whole Period after and before it. It implements cron.Schedule.
type Anchored struct {
	Anchor time.Time
	Period time.Duration // > 0
}

// Next is the first slot after t.
func (s Anchored) Next(t time.Time) time.Time {
	return s.slot(t).Add(s.Period)
}

// slot is the last slot at or before t.
func (s Anchored) slot(t time.Time) time.Time {
	anchor := s.Anchor.UTC()
	since := t.Sub(anchor)
	k := since / s.Period
	if since%s.Period < 0 {
		k--
	}
	return anchor.Add(k * s.Period)
}

// Slot is a due cut.
type Slot struct {
	Time   time.Time
	Missed int // earlier slots that no cut was made for; their rows are in this one
}

// Due is the slot that is due at now, none before the anchor or when the last cut already had it. However many slots
// were missed, one is due: the latest. last is the slot of the last cut, zero before the first.
func (s Anchored) Due(now, last time.Time) (Slot, bool) {
	slot := s.slot(now)
	if slot.Before(s.Anchor) || (!last.IsZero() && !slot.After(last)) {
		return Slot{}, false
	}
	from := s.Anchor.Add(-s.Period)
	if !last.IsZero() && last.After(from) {
		from = s.slot(last)
	}
	return Slot{Time: slot, Missed: int(slot.Sub(from)/s.Period) - 1}, true
}

package schedule

import "time"

// ByRows is the schedule of a team whose traffic is small: a cut as soon as so many rows wait, but not before Least has
// passed since the last one, and after Most in any case.
type ByRows struct {
	Rows  int64         // > 0
	Least time.Duration // between two cuts: a cycle has to fit into it
	Most  time.Duration // ≥ Least
}

// Due is the moment that a cut is due for, at now, with so many rows waiting: now once there are enough, or when the
// longest time was over. last is that of the last cut, begin that of the schedule, which counts before the first cut.
func (s ByRows) Due(now, begin, last time.Time, waiting int64) (time.Time, bool) {
	earliest, latest := s.Between(begin, last)
	switch {
	case !now.Before(latest):
		return latest, true
	case !now.Before(earliest) && waiting >= s.Rows:
		return now, true
	}
	return time.Time{}, false
}

// Between is from when on the next cut may be due, and when it is at the latest.
func (s ByRows) Between(begin, last time.Time) (earliest, latest time.Time) {
	if last.IsZero() {
		return begin, begin.Add(s.Most) // no cycle is on its way that it could overlap with
	}
	return last.Add(s.Least), last.Add(s.Most)
}

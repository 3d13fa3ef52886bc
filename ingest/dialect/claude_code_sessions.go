package dialect

import (
	"slices"
	"time"
)

// ccSessions says which session a line belongs to, of those in whose files it stands (see claudeCode).
type ccSessions struct {
	ownStart map[string]time.Time // of the lines that stand in this session only; zero: there are none
	names    map[string]string
}

func (c *claudeCode) sessions() *ccSessions {
	s := &ccSessions{ownStart: map[string]time.Time{}, names: map[string]string{}}
	last := map[string]time.Time{}
	for _, r := range c.records {
		for _, id := range r.sessions() {
			if r.at.After(last[id]) {
				last[id] = r.at
			}
		}
		if ids := r.sessions(); len(ids) == 1 {
			if start, ok := s.ownStart[ids[0]]; !ok || r.at.Before(start) {
				s.ownStart[ids[0]] = r.at
			}
		}
	}
	latestShared := map[string]*ccRecord{}
	for _, r := range c.records {
		ids := r.sessions()
		if len(ids) < 2 {
			continue
		}
		for _, id := range ids {
			if known := latestShared[id]; known == nil || r.at.After(known.at) {
				latestShared[id] = r
			}
		}
	}
	resumed := map[string]string{}
	for id, r := range latestShared {
		if from := s.original(r); from != id && !last[from].After(s.ownStart[id]) {
			resumed[id] = from
		}
	}
	for id := range last {
		name := id
		for range len(resumed) { // a ring ends here
			from, ok := resumed[name]
			if !ok {
				break
			}
			name = from
		}
		s.names[id] = name
	}
	return s
}

// original is the session that a shared line was written in first: the one whose own lines begin first.
func (s *ccSessions) original(r *ccRecord) string {
	best := ""
	for _, id := range r.sessions() {
		switch d := s.ownStart[id].Compare(s.ownStart[best]); {
		case best == "", d < 0, d == 0 && id < best:
			best = id
		}
	}
	return best
}

// of is the session under which a line's events go.
func (s *ccSessions) of(r *ccRecord) string { return safeID(s.names[s.original(r)]) }

// sessions are the files' session ids that a line stands under, each once.
func (r *ccRecord) sessions() []string {
	if len(r.places) == 1 {
		return []string{r.places[0].session}
	}
	var ids []string
	for _, p := range r.places {
		if !slices.Contains(ids, p.session) {
			ids = append(ids, p.session)
		}
	}
	return ids
}

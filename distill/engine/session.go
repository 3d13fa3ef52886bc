package engine

import (
	"cmp"
	"slices"

	"millrace/distill/turn"
	"millrace/schemas/event"
)

// session is what a session carries from turn to turn: the sequence numbers seen of each source, and its open
// turns.
type session struct {
	id       string
	sources  map[string]*numbers
	open     map[turn.Key]*turn.Turn
	imported bool
	lastSeen int64 // log time
}

func (e *Engine) session(id string) *session {
	s := e.sessions[id]
	if s == nil {
		s = &session{id: id, sources: map[string]*numbers{}, open: map[turn.Key]*turn.Turn{}}
		e.sessions[id] = s
	}
	return s
}

// others are the session's other open turns, in the order of the log.
func (s *session) others(t *turn.Turn) []*turn.Turn {
	out := make([]*turn.Turn, 0, len(s.open))
	for _, other := range s.open {
		if other != t {
			out = append(out, other)
		}
	}
	slices.SortFunc(out, func(a, b *turn.Turn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return out
}

func (s *session) note(ev *event.SessionEvent, logTime int64) {
	s.lastSeen = logTime
	if ev.GetSequence() == 0 {
		return
	}
	n := s.sources[ev.GetSource()]
	if n == nil {
		n = &numbers{}
		s.sources[ev.GetSource()] = n
	}
	n.add(ev.GetSequence())
}

// numbers is a set of sequence numbers as sorted runs [from, to].
type numbers struct{ Runs [][2]uint64 }

func (n *numbers) add(x uint64) {
	r := n.Runs
	// Almost always the next number of the last run.
	i := len(r)
	for i > 0 && r[i-1][0] > x {
		i--
	}
	if i > 0 && x <= r[i-1][1] {
		return
	}
	joinsLeft := i > 0 && r[i-1][1]+1 == x
	joinsRight := i < len(r) && r[i][0] == x+1
	switch {
	case joinsLeft && joinsRight:
		r[i-1][1] = r[i][1]
		n.Runs = append(r[:i], r[i+1:]...)
	case joinsLeft:
		r[i-1][1] = x
	case joinsRight:
		r[i][0] = x
	default:
		r = append(r, [2]uint64{})
		copy(r[i+1:], r[i:])
		r[i] = [2]uint64{x, x}
		n.Runs = r
	}
}

// last is the greatest number seen.
func (n *numbers) last() uint64 { return n.Runs[len(n.Runs)-1][1] }

// gap is the first missing run within [from, to].
func (n *numbers) gap(from, to uint64) (lo, hi uint64, missing bool) {
	next := from
	for _, r := range n.Runs {
		if r[1] < next {
			continue
		}
		if r[0] > next {
			return next, min(r[0]-1, to), next <= to
		}
		next = r[1] + 1
		if next > to {
			return 0, 0, false
		}
	}
	return next, to, next <= to
}

package dialect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"millrace/schemas/event"
)

// ccTurn is a request and the work on it.
type ccTurn struct {
	anchor  *ccRecord // the request; of a turn whose request isn't in the files, its first line
	implied bool      // the request isn't in the files
	session string    // as the events name it
	records []*ccRecord
	before  *ccTurn // the turn before it in its session
	after   bool    // another turn follows in its session
	// The user took the plan at its end, to have it carried out in a fresh context.
	planTaken bool
	restore   bool // the conversation was taken back to before the turn before it
	reason    event.EndReason
}

func (t *ccTurn) id() string { return safeID(t.anchor.uuid) }

// turns gives every record its turn, and the turns in the order of time. What has none (a subagent's file without its
// session, a result without its call) is given back.
func (c *claudeCode) turns() (turns []*ccTurn, homeless []*ccRecord) {
	records := slices.Clone(c.records)
	slices.SortStableFunc(records, byTime)
	local := c.localCommands(records)
	opened := map[string][]*ccTurn{} // by the files' session id, in order of time
	open := func(r *ccRecord, implied bool) {
		t := &ccTurn{anchor: r, implied: implied}
		r.turn = t
		opened[r.session] = append(opened[r.session], t)
	}
	calls := map[string]*ccRecord{}
	for _, r := range records {
		for _, b := range r.blocks {
			if b.kind == "tool_use" && calls[b.id] == nil {
				calls[b.id] = r
			}
		}
	}
	var rest []*ccRecord
	for _, r := range records {
		switch {
		case r.turn != nil:
		case r.kind == ccPrompt && !r.sidechain:
			open(r, false)
			continue
		case r.kind == ccAssistant && !r.sidechain:
			// An agent's answer to a command makes the command a request.
			if up := c.ancestor(r); up != nil && up.kind == ccCommand && !local[up] && up.turn == nil {
				open(up, false)
			}
		}
		rest = append(rest, r)
	}
	for _, list := range opened {
		slices.SortStableFunc(list, func(a, b *ccTurn) int { return byTime(a.anchor, b.anchor) })
	}
	for _, r := range rest {
		if r.turn != nil {
			continue
		}
		r.turn = c.turnOf(r, calls, opened)
		if r.turn == nil && !r.sidechain && (r.kind == ccAssistant || r.kind == ccError) {
			open(r, true)
		}
		if r.turn == nil {
			homeless = append(homeless, r)
		}
	}
	for _, r := range records {
		if r.turn != nil {
			r.turn.records = append(r.turn.records, r)
		}
	}
	for _, list := range opened {
		turns = append(turns, list...)
	}
	slices.SortStableFunc(turns, func(a, b *ccTurn) int { return byTime(a.anchor, b.anchor) })
	turns = c.mergeUnanswered(turns)
	c.nameNeighbours(turns)
	return turns, homeless
}

func byTime(a, b *ccRecord) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) }

// localCommands are the commands that the client ran by itself: their output follows them.
func (c *claudeCode) localCommands(records []*ccRecord) map[*ccRecord]bool {
	local := map[*ccRecord]bool{}
	last := map[string]*ccRecord{}
	for _, r := range records {
		switch r.kind {
		case ccCommand:
			last[r.session] = r
		case ccLocal:
			if up := c.ancestor(r); up != nil && up.kind == ccCommand {
				local[up] = true
			} else if before := last[r.session]; before != nil {
				local[before] = true
			}
		}
	}
	return local
}

// ancestor is the nearest record up the chain of parents that is a request, a command, or has a turn.
func (c *claudeCode) ancestor(r *ccRecord) *ccRecord {
	id := r.parent
	for range len(c.records) + len(c.links) + 1 { // a chain may be a ring
		if id == "" {
			return nil
		}
		up := c.byUUID[id]
		if up == nil {
			id = c.links[id]
			continue
		}
		if up.turn != nil || (!up.sidechain && (up.kind == ccPrompt || up.kind == ccCommand)) {
			return up
		}
		id = up.parent
	}
	return nil
}

// turnOf finds a record's turn: by the call that a result answers, by the chain of parents, and where that leads
// nowhere (a subagent's chain begins by itself; a file is cut) by time within the session.
func (c *claudeCode) turnOf(r *ccRecord, calls map[string]*ccRecord, opened map[string][]*ccTurn) *ccTurn {
	for _, result := range r.results {
		if call := calls[result.id]; call != nil && call.turn != nil {
			return call.turn
		}
	}
	up := c.ancestor(r)
	for up != nil && up.turn == nil {
		up = c.ancestor(up)
	}
	if up != nil {
		return up.turn
	}
	var found *ccTurn
	for _, t := range opened[r.session] {
		if t.anchor.at.After(r.at) {
			break
		}
		found = t
	}
	return found
}

// mergeUnanswered joins requests that the user wrote one after another before the agent began: they are one turn.
func (c *claudeCode) mergeUnanswered(turns []*ccTurn) []*ccTurn {
	kept := turns[:0]
	last := map[string]*ccTurn{} // by the files' session id
	for _, t := range turns {
		before := last[t.anchor.session]
		if up := c.ancestor(t.anchor); up != nil && up.turn != t {
			before = up.turn
		}
		if before == nil || before.implied || before.anchor.kind != ccPrompt || t.anchor.kind != ccPrompt || before.worked() {
			kept = append(kept, t)
			last[t.anchor.session] = t
			continue
		}
		before.anchor.text += "\n" + t.anchor.text
		for _, r := range t.records {
			r.turn = before
			before.records = append(before.records, r)
		}
		t.records = nil
	}
	return kept
}

// worked says whether anything but requests belongs to the turn.
func (t *ccTurn) worked() bool {
	return slices.ContainsFunc(t.records, func(r *ccRecord) bool { return r.kind != ccPrompt })
}

// nameNeighbours gives turns their session, and their neighbours in it.
func (c *claudeCode) nameNeighbours(turns []*ccTurn) {
	sessions := c.sessions()
	last := map[string]*ccTurn{}
	for _, t := range turns {
		t.session = sessions.of(t.anchor)
		before := last[t.session]
		last[t.session] = t
		if before == nil {
			continue
		}
		t.before, before.after = before, true
		up := c.ancestor(t.anchor)
		t.restore = up != nil && up.turn != nil && up.turn != t && up.turn != before &&
			before.anchor.session == t.anchor.session && up.turn.anchor.session == t.anchor.session
	}
}

// safeID is an id as events may carry it: short, and without control characters.
func safeID(id string) string {
	if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '�' }) {
		return "id-" + digestOf([]byte(id))
	}
	return id
}

// between is the time from one to the other, if it makes sense: neither negative nor longer than an hour.
func between(from, to time.Time) (time.Duration, bool) {
	d := to.Sub(from)
	return d, !from.IsZero() && d > 0 && d <= time.Hour
}

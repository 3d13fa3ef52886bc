package scorecard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millrace/distill/signal"
	"millrace/distill/turn"
	"millrace/ingest/dialect"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// scoredTurn is a settled turn with what the report says of it beyond its row.
type scoredTurn struct {
	row   *ledger.Row
	name  string // session…#number
	facts *turn.Facts
	tools *signal.ToolSchemas
	file  string // where it begins
	line  int
	// The last turn of the chain in which a question settled; nil if it is alone, or the last itself.
	answer *scoredTurn
}

// turns joins the rows with the events that they came from, in the order in which the turns began.
func (s *Scored) turns() ([]*scoredTurn, error) {
	byID := map[string]*turn.Turn{}
	begins := map[string]dialect.Located{}
	seen := map[string]bool{}
	for i, l := range s.Read.Events {
		e := l.Event
		id := e.GetSessionId() + "\x00" + e.GetTurnId()
		if e.GetTurnId() == "" || seen[e.GetEventId()] {
			continue
		}
		seen[e.GetEventId()] = true
		t := byID[id]
		if t == nil {
			t = &turn.Turn{SessionID: e.GetSessionId(), TurnID: e.GetTurnId()}
			byID[id] = t
		}
		if _, ok := begins[id]; !ok || e.GetTurnStarted() != nil {
			begins[id] = l
		}
		t.Entries = append(t.Entries, turn.Entry{Offset: int64(i), Event: e})
	}
	compiled := map[string]*signal.ToolSchemas{}
	for digest, document := range s.tools {
		tools, err := signal.CompileToolSchemas(document)
		if err != nil {
			return nil, fmt.Errorf("tool schemas: %w", err)
		}
		compiled[digest] = tools
	}
	var all []*scoredTurn
	for i := range s.Rows {
		row := &s.Rows[i]
		id := row.SessionID + "\x00" + row.TurnID
		t := &scoredTurn{row: row, facts: &turn.Facts{}, tools: compiled[row.ToolSchemaDigest], file: begins[id].File, line: begins[id].Line}
		if events := byID[id]; events != nil {
			t.facts = turn.Fold(events)
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b *scoredTurn) int {
		return cmp.Or(a.row.StartedAt.Compare(b.row.StartedAt), cmp.Compare(a.row.FirstOffset, b.row.FirstOffset))
	})
	nameTurns(all)
	linkAnswers(all)
	return all, nil
}

// linkAnswers finds what came of questions: the turns of a session that settled together are a chain.
func linkAnswers(turns []*scoredTurn) {
	for i, t := range turns {
		for _, next := range turns[i+1:] {
			if t.row.Chain > 1 && next.row.SessionID == t.row.SessionID && next.row.Chain == t.row.Chain && next.row.SettledAt.Equal(t.row.SettledAt) {
				t.answer = next
			}
		}
	}
}

// nameTurns calls a turn by the shortest beginning of its session's id that no other session shares, and its number in
// the session.
func nameTurns(turns []*scoredTurn) {
	sessions := map[string]int{}
	for _, t := range turns {
		sessions[t.row.SessionID] = 0
	}
	short := map[string]string{}
	for id := range sessions {
		n := min(4, len(id))
		for other := range sessions {
			for other != id && n < len(id) && strings.HasPrefix(other, id[:n]) {
				n++
			}
		}
		short[id] = id[:n]
	}
	for _, t := range turns {
		id := t.row.SessionID
		sessions[id]++
		ellipsis := "…"
		if short[id] == id {
			ellipsis = ""
		}
		t.name = short[id] + ellipsis + "#" + strconv.Itoa(sessions[id])
	}
}

// find is the turn that a user means: by the report's name, with or without the ellipsis, by more of the session's id, or
// by (the beginning of) the turn's own id.
func find(turns []*scoredTurn, want string) (*scoredTurn, error) {
	var found []*scoredTurn
	session, number, numbered := strings.Cut(strings.ReplaceAll(want, "…", ""), "#")
	for _, t := range turns {
		switch {
		case t.name == want || t.row.TurnID == want:
			return t, nil
		case numbered && strings.HasSuffix(t.name, "#"+number) && strings.HasPrefix(t.row.SessionID, session):
			found = append(found, t)
		case !numbered && want != "" && strings.HasPrefix(t.row.TurnID, want):
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("no turn %q; a turn is called as in the report (%s) or by its turn id", want, exampleName(turns))
	}
	names := make([]string, len(found))
	for i, t := range found {
		names[i] = t.name
	}
	return nil, fmt.Errorf("%q may be %s", want, strings.Join(names, " or "))
}

func exampleName(turns []*scoredTurn) string {
	if len(turns) == 0 {
		return "there are none"
	}
	return "for instance " + turns[0].name
}

// callClass is the class of a call of the turn.
func (t *scoredTurn) callClass(c *turn.Call) event.ToolOutcome {
	return signal.CallClass(t.facts, c, t.tools)
}

package dialect

import (
	"encoding/json"
	"regexp"
	"strings"

	"millrace/schemas/event"
)

// ended says how a turn ended, at its last line. A turn whose file stops in the middle of the work (it was cut, or the
// agent is still at it) had at least one step more than the file holds: it is told so, and settles as incomplete.
func (s *ccSession) ended(t *ccTurn, steps ccSteps) {
	lines := t.mainRecords()
	if len(lines) == 0 {
		return
	}
	last := lines[len(lines)-1]
	n, calls := uint32(len(steps.list)), uint32(0)
	for _, call := range s.list {
		if call.record.turn == t {
			calls++
		}
	}
	body := &event.TurnEnded{Steps: &n, ToolCalls: &calls, UnfinishedTodos: s.unfinishedTodos(t)}
	switch reason, known := s.endReason(lines, steps); {
	case t.planTaken:
		body.Reason = event.EndReason_COMPLETED
	case known:
		body.Reason = reason
	case !t.after:
		n++
	}
	t.reason = body.Reason
	if body.Reason == event.EndReason_COMPLETED {
		text := last.finalText()
		body.AsksUser, body.OffersMore = asksUser(text), offersMore.MatchString(lastParagraph(text))
	}
	s.emit(t, last, "end", &event.SessionEvent{Body: &event.SessionEvent_TurnEnded{TurnEnded: body}})
}

// endReason is why the agent stopped; not known if its last line asks for more work.
func (s *ccSession) endReason(lines []*ccRecord, steps ccSteps) (event.EndReason, bool) {
	last := lines[len(lines)-1]
	switch last.kind {
	case ccInterrupt:
		return event.EndReason_ABORTED_BY_USER, true
	case ccStopped:
		return event.EndReason_HARNESS_FAILED, true
	case ccError:
		if _, provider := providerFailure(last.text); provider {
			return event.EndReason_PROVIDER_FAILED, true
		}
		return event.EndReason_LENGTH, true
	case ccResults:
		for _, r := range last.results {
			if call := s.calls[r.id]; call != nil && call.outcome.stop {
				return event.EndReason_ABORTED_BY_USER, true
			}
		}
	case ccAssistant:
		step := steps.of[last]
		switch {
		case stopReasons[step.stop] == "length":
			return event.EndReason_LENGTH, true
		case step.calls() == 0 && (stopReasons[step.stop] == "stop" || last.finalText() != ""):
			return event.EndReason_COMPLETED, true
		}
	}
	return event.EndReason_END_REASON_UNSPECIFIED, false
}

// unfinishedTodos are the to-dos left open by the turn's last to-do list; null if it wrote none.
func (s *ccSession) unfinishedTodos(t *ccTurn) *uint32 {
	var open *uint32
	for _, call := range s.list {
		if call.record.turn != t || call.record.sidechain || call.block.tool != "TodoWrite" {
			continue
		}
		var list struct {
			Todos []struct {
				Status string `json:"status"`
			} `json:"todos"`
		}
		if json.Unmarshal(call.block.input, &list) != nil {
			continue
		}
		n := uint32(0)
		for _, todo := range list.Todos {
			if todo.Status != "completed" && todo.Status != "cancelled" {
				n++
			}
		}
		open = &n
	}
	return open
}

// asksUser says whether a text ends with a question mark, in any script, whatever markup closes it.
func asksUser(text string) bool {
	text = strings.TrimRight(text, " \t\r\n*_`\"'”’)]")
	for _, mark := range []string{"?", "？", "؟", "⁇", "‽"} {
		if strings.HasSuffix(text, mark) {
			return true
		}
	}
	return false
}

// offersMore finds the English phrases in which agents offer further work. An offer in another language, or in other
// words, is not seen.
var offersMore = regexp.MustCompile(`(?i)\b(would you like me to|do you want me to|want me to|shall i|should i|let me know if you(?:'d| would| want)|i can also|if you(?:'d| would) like,? i)\b`)

func lastParagraph(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n\n")+1:]
}

package dialect

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

// transcript writes a Claude Code session line by line, each a second after the one before it and its child.
type transcript struct {
	session string
	last    string
	at      time.Time
	n       int
	lines   []string
}

func newTranscript(session string) *transcript {
	return &transcript{session: session, at: time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)}
}

type object = map[string]any

// line appends a line; fields of more stand over the usual ones, and a nil takes one away.
func (s *transcript) line(kind string, message any, more object) *transcript {
	s.n++
	s.at = s.at.Add(time.Second)
	uuid := fmt.Sprintf("%s-%d", s.session, s.n)
	o := object{
		"type": kind, "uuid": uuid, "parentUuid": s.last, "sessionId": s.session, "timestamp": s.at.Format(time.RFC3339Nano),
		"version": "2.1.0", "cwd": "/home/ann/app", "message": message,
	}
	for k, v := range more {
		if v == nil {
			delete(o, k)
			continue
		}
		o[k] = v
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	s.lines = append(s.lines, string(raw))
	s.last = uuid
	return s
}

func (s *transcript) wait(d time.Duration) *transcript {
	s.at = s.at.Add(d)
	return s
}

func (s *transcript) prompt(text string) *transcript {
	return s.line("user", object{"role": "user", "content": text}, nil)
}

// says is a line of the generation msg with one block.
func (s *transcript) block(msg string, block object, more object) *transcript {
	message := object{
		"id": msg, "role": "assistant", "model": "model-1", "content": []any{block}, "stop_reason": nil,
		"usage": object{"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 40},
	}
	maps.Copy(message, more)
	return s.line("assistant", message, nil)
}

func (s *transcript) says(msg, text string) *transcript {
	return s.block(msg, object{"type": "text", "text": text}, nil)
}

func (s *transcript) calls(msg, id, tool string, input any) *transcript {
	return s.block(msg, object{"type": "tool_use", "id": id, "name": tool, "input": input}, nil)
}

func (s *transcript) result(id, text string, failed bool, details any) *transcript {
	return s.line("user", object{"role": "user", "content": []any{
		object{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed},
	}}, object{"toolUseResult": details})
}

func (s *transcript) text() string { return strings.Join(s.lines, "\n") + "\n" }

// readTexts reads files of the given names and contents, in that order, and checks what must hold of any input.
func readTexts(t testing.TB, files ...[2]string) *Result {
	t.Helper()
	reader, err := NewReader(Auto)
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, reader.Add(f[0], strings.NewReader(f[1])))
	}
	result := reader.Result()
	checkResult(t, result)
	return result
}

// checkResult checks the account, and that every event can be taken.
func checkResult(t testing.TB, r *Result) {
	t.Helper()
	require.NoError(t, r.Check())
	bodies := map[string]*event.SessionEvent{}
	for _, l := range r.Events {
		if bad := event.Validate(l.Event); bad != nil {
			t.Fatalf("%s:%d: %v", l.File, l.Line, bad)
		}
		id := l.Event.GetSource() + " " + l.Event.GetEventId()
		if known := bodies[id]; known != nil && known != l.Event {
			t.Fatalf("%s:%d: two events have the id %s", l.File, l.Line, id)
		}
		bodies[id] = l.Event
	}
}

// only are the bodies of one kind, repeats left out.
func only[T any](r *Result, body func(*event.SessionEvent) *T) []*T {
	var out []*T
	seen := map[*event.SessionEvent]bool{}
	for _, l := range r.Events {
		if x := body(l.Event); x != nil && !seen[l.Event] {
			seen[l.Event] = true
			out = append(out, x)
		}
	}
	return out
}

func starts(r *Result) []*event.TurnStarted { return only(r, (*event.SessionEvent).GetTurnStarted) }
func ends(r *Result) []*event.TurnEnded     { return only(r, (*event.SessionEvent).GetTurnEnded) }
func steps(r *Result) []*event.StepCompleted {
	return only(r, (*event.SessionEvent).GetStepCompleted)
}
func calls(r *Result) []*event.ToolCalled { return only(r, (*event.SessionEvent).GetToolCalled) }
func returns(r *Result) []*event.ToolReturned {
	return only(r, (*event.SessionEvent).GetToolReturned)
}

func proposals(r *Result) []*event.EditProposed {
	return only(r, (*event.SessionEvent).GetEditProposed)
}

func decisions(r *Result) []*event.EditDecided {
	return only(r, (*event.SessionEvent).GetEditDecided)
}

func observations(r *Result) []*event.EditObserved {
	return only(r, (*event.SessionEvent).GetEditObserved)
}

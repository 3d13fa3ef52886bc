package dialect

import (
	"slices"

	"millrace/schemas/event"
)

// steps are a turn's generations in the order in which they began.
func (t *ccTurn) steps() ccSteps {
	all := ccSteps{of: map[*ccRecord]*ccStep{}}
	byMessage := map[string]*ccStep{}
	asked := map[bool]*ccRecord{} // the last line that the model had to answer, in a sidechain or not
	for _, r := range t.records {
		switch r.kind {
		case ccPrompt, ccCommand, ccResults:
			asked[r.sidechain] = r
		case ccAssistant:
			id := r.message
			if id == "" {
				id = r.uuid
			}
			step := byMessage[id]
			if step == nil {
				step = &ccStep{number: uint32(len(all.list) + 1), asked: asked[r.sidechain]}
				byMessage[id] = step
				all.list = append(all.list, step)
			}
			step.add(r)
			all.of[r] = step
		}
	}
	for _, step := range all.list {
		if n := step.calls(); n > 1 {
			step.group = safeID(step.records[0].message)
		}
	}
	return all
}

type ccSteps struct {
	list []*ccStep
	of   map[*ccRecord]*ccStep
}

// ccStep is one generation: the lines with one message id, each of which repeats its usage.
type ccStep struct {
	number  uint32
	records []*ccRecord
	last    *ccRecord
	asked   *ccRecord
	group   string
	usage   ccUsage
	stop    string
}

func (s *ccStep) add(r *ccRecord) {
	s.records = append(s.records, r)
	s.last = r // records come in order of time
	if r.stop != "" {
		s.stop = r.stop
	}
	u := r.usage
	if u.hasPrompt && u.prompt >= s.usage.prompt {
		s.usage.prompt, s.usage.hasPrompt = u.prompt, true
	}
	if u.hasCached && u.cached >= s.usage.cached {
		s.usage.cached, s.usage.hasCached = u.cached, true
	}
	if u.hasOutput && u.output >= s.usage.output {
		s.usage.output, s.usage.hasOutput = u.output, true
	}
}

func (s *ccStep) calls() int {
	n := 0
	for _, r := range s.records {
		for _, b := range r.blocks {
			if b.kind == "tool_use" {
				n++
			}
		}
	}
	return n
}

var stopReasons = map[string]string{
	"end_turn": "stop", "stop_sequence": "stop", "refusal": "stop", "pause_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length",
	"model_context_window_exceeded": "length",
}

func (s *ccStep) event() *event.StepCompleted {
	body := &event.StepCompleted{Step: s.number, PolicyVersion: label(s.last.model), StopReason: stopReasons[s.stop], Tokens: s.tokens()}
	if body.StopReason == "" && s.calls() > 0 {
		body.StopReason = "tool_calls"
	}
	if s.asked != nil {
		if d, ok := between(s.asked.at, s.last.at); ok {
			ms := float64(d.Microseconds()) / 1000
			body.LatencyMs = &ms
		}
	}
	return body
}

// maxCharactersPerToken is more text than a token holds on average, in any language: a count of output tokens below it
// was written before the generation had ended (a stream's first message), and says nothing.
const maxCharactersPerToken = 8

// tokens are the provider's counts. It gives one for the output: it is divided among thinking, arguments and text by
// their length.
func (s *ccStep) tokens() *event.TokenCounts {
	t := &event.TokenCounts{}
	if s.usage.hasPrompt {
		t.Prompt = &s.usage.prompt
	}
	if s.usage.hasCached {
		t.Cached = &s.usage.cached
	}
	sizes := map[string]int{}
	total := 0
	for _, r := range s.records {
		for _, b := range r.blocks {
			sizes[b.kind] += b.size
			total += b.size
		}
	}
	if !s.usage.hasOutput || total == 0 || (s.stop == "" && total > maxCharactersPerToken*int(s.usage.output)) {
		return t
	}
	share := func(kind string) *uint32 {
		n := uint32(uint64(s.usage.output) * uint64(sizes[kind]) / uint64(total))
		return &n
	}
	t.Thinking, t.ToolArgument = share("thinking"), share("tool_use")
	final := s.usage.output - *t.Thinking - *t.ToolArgument
	if sizes["text"] == 0 {
		*t.ToolArgument += final // what rounding left
		final = 0
	}
	t.Final = &final
	return t
}

// mainRecords are the turn's lines outside of subagents, in order of time.
func (t *ccTurn) mainRecords() []*ccRecord {
	return slices.DeleteFunc(slices.Clone(t.records), func(r *ccRecord) bool { return r.sidechain })
}

package turn

import (
	"slices"
	"strconv"

	"millrace/schemas/event"
	"millrace/schemas/sample"
)

// Sequences cuts the turn's tokens into training sequences, one a branch: a step whose prefix is shorter than
// the sequence so far begins a new one. Only tokens of the first step's policy version, generated freely and
// with a known log-prob are trained, each once. Without a trainable token there are none, and why says so.
//
// Rows carry tokens, steps and spans; the caller adds what the turn's scoring gives.
func (f *Facts) Sequences(blamed map[uint32]bool) (rows []Sequence, why string) {
	if f.Privacy > event.Privacy_FULL {
		return nil, "privacy " + f.Privacy.String()
	}
	if len(f.Steps) == 0 {
		return nil, "no step arrived"
	}
	var all []Sequence
	cur := Sequence{}
	cur.reserve(f.Steps)
	why = "no token ids"
	next, lost := uint32(1), false
	for i, step := range f.Steps {
		prefix := int(step.GetPromptPrefixLen())
		lost = lost || step.GetStep() > next
		next = step.GetStep() + 1
		if len(step.GetOutputTokenIds()) == 0 && len(step.GetPromptTokenIds()) == 0 {
			lost = true
			continue
		}
		if lost && prefix > 0 || prefix > cur.length() {
			// What lies before was never seen (a step that became a stub): nothing can be placed until a step
			// carries its whole prompt again.
			lost = true
			why = "step " + strconv.Itoa(int(step.GetStep())) + " continues a sequence that did not arrive"
			continue
		}
		lost = false
		if prefix < cur.length() {
			all = append(all, cur)
			cur = cur.branchAt(prefix)
			cur.reserve(f.Steps[i:])
		}
		if !cur.append(step, f.Versions[0], blamed[step.GetStep()]) {
			why = "no log-probs were captured"
		}
	}
	all = append(all, cur)
	for _, s := range all {
		if s.Trained > 0 {
			rows = append(rows, s)
		}
	}
	if len(rows) > 0 {
		why = ""
	}
	return rows, why
}

// Sequence is one branch: the token part of a sample row.
type Sequence struct {
	InputIDs     []byte
	Mask         []uint8
	Logprobs     []byte
	PromptLength int32 // before the first token generated in this branch; -1 while there is none
	Steps        []sample.Step
	Spans        []sample.Span
	Blamed       []Range // spans of steps with a malformed call
	Sidecar      string
	Trained      int
}

// Range is a run of tokens [Start, End).
type Range struct{ Start, End int32 }

func (s *Sequence) length() int { return len(s.Mask) }

func (s *Sequence) branchAt(prefix int) Sequence {
	// The shared prefix was trained in the branch before: no token is trained twice.
	return Sequence{
		InputIDs: append([]byte(nil), s.InputIDs[:4*prefix]...),
		Mask:     make([]uint8, prefix),
		Logprobs: make([]byte, 4*prefix),
	}
}

// reserve makes room for the steps up to the next branch: long sequences are not copied each time they grow.
func (s *Sequence) reserve(steps []*event.StepCompleted) {
	tokens := s.length()
	for _, step := range steps {
		if int(step.GetPromptPrefixLen()) < tokens {
			break
		}
		tokens += (len(step.GetPromptTokenIds()) + len(step.GetOutputTokenIds())) / 4
	}
	more := tokens - s.length()
	s.InputIDs, s.Mask, s.Logprobs = slices.Grow(s.InputIDs, 4*more), slices.Grow(s.Mask, more), slices.Grow(s.Logprobs, 4*more)
}

// append adds a step's prompt and output; false if its output has no log-probs and so is not trained.
func (s *Sequence) append(step *event.StepCompleted, version string, blamed bool) bool {
	prompt, output := step.GetPromptTokenIds(), step.GetOutputTokenIds()
	s.InputIDs = append(append(s.InputIDs, prompt...), output...)
	n := len(prompt) / 4
	s.Mask = append(s.Mask, make([]uint8, n)...)
	s.Logprobs = append(s.Logprobs, make([]byte, 4*n)...)
	start := int32(len(s.Mask))
	if len(s.Steps) == 0 {
		s.PromptLength = start
	}
	m := len(output) / 4
	s.Mask = append(s.Mask, make([]uint8, m)...)
	s.Logprobs = append(s.Logprobs, make([]byte, 4*m)...)
	mask, logprobs := s.Mask[start:], s.Logprobs[4*start:]
	captured := len(step.GetOutputLogprobs()) == len(output)
	if captured {
		for i := range mask {
			mask[i] = 1
		}
		if own := step.GetOutputMask(); len(own) == m {
			copy(mask, own)
		}
		maskOthers(mask, step, version)
	}
	for i, trained := range mask {
		if trained == 1 {
			copy(logprobs[4*i:4*i+4], step.GetOutputLogprobs()[4*i:])
			s.Trained++
		}
	}
	end := int32(len(s.Mask))
	s.Steps = append(s.Steps, sample.Step{
		Start: start, End: end, StopReason: step.GetStopReason(), LatencyMs: float32(step.GetLatencyMs()),
		Temperature: step.GetSampling().GetTemperature(), TopP: step.GetSampling().GetTopP(),
		TopK: step.GetSampling().GetTopK(), LogprobsMode: step.GetSampling().GetLogprobsMode(),
	})
	s.addSpans(step, start, end)
	if blamed {
		s.Blamed = append(s.Blamed, Range{start, end})
	}
	if s.Sidecar == "" {
		s.Sidecar = step.GetSidecar()
	}
	return captured || m == 0
}

// maskOthers clears what another version generated, and with it what lies in no span: nobody says who generated that.
func maskOthers(mask []uint8, step *event.StepCompleted, version string) {
	if len(step.GetVersionSpans()) == 0 {
		if step.GetPolicyVersion() != version {
			clear(mask)
		}
		return
	}
	from := 0
	for _, span := range step.GetVersionSpans() {
		start, end := min(int(span.GetStart()), len(mask)), min(int(span.GetEnd()), len(mask))
		if span.GetVersion() == version {
			clear(mask[min(from, start):start])
			from = end
		}
	}
	clear(mask[from:])
}

func (s *Sequence) addSpans(step *event.StepCompleted, start, end int32) {
	add := func(version string, from, to int32) {
		if last := len(s.Spans) - 1; last >= 0 && s.Spans[last].Version == version && s.Spans[last].End == from {
			s.Spans[last].End = to
			return
		}
		s.Spans = append(s.Spans, sample.Span{Version: version, Start: from, End: to})
	}
	if len(step.GetVersionSpans()) == 0 {
		add(step.GetPolicyVersion(), start, end)
		return
	}
	tokens := uint32(end - start)
	for _, span := range step.GetVersionSpans() {
		if from, to := min(span.GetStart(), tokens), min(span.GetEnd(), tokens); from < to {
			add(span.GetVersion(), start+int32(from), start+int32(to))
		}
	}
}

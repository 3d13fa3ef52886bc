package sim

import (
	"math"

	"millrace/schemas/event"
)

// run is how far a turn's steps have come.
type run struct {
	at       int64 // the end of its last step or tool
	steps    int
	calls    int
	sequence int // tokens of the sequence so far
	tokens   int // generated ones
	good     int // of them, skilled
	file     string
	proposed [4]proposed
	edits    int
	checked  string // the call that ran the tests
	checkAt  int64
	decided  int64 // the user's last decision on an edit
}

type proposed struct {
	id string
	at int64
}

var sampling = &event.Sampling{Temperature: 1, TopP: 1, TopK: -1, LogprobsMode: "processed_logprobs"}

// run plays the steps of a turn: each is generated, then its calls run.
func (s *session) run(at int64, id, file string, steps []step) run {
	r := s.rng
	out := run{at: at, file: file}
	total := logNormal(r, latencyMedian*s.behaviour.Latency*math.Exp(s.unit.latency), latencySD)
	total = min(max(total, .3), 1500) // seconds
	var shares [mostSteps + 2]float64
	sum := 0.
	for i := range steps {
		shares[i] = .4 + r.Float64()
		sum += shares[i]
	}
	for i := range steps {
		seconds := total * shares[i] / sum
		out.at += int64(seconds * float64(second))
		s.generate(&out, id, &steps[i], seconds, i+1)
		s.callTools(&out, id, &steps[i])
	}
	return out
}

// generate is one step of the policy.
func (s *session) generate(out *run, id string, st *step, seconds float64, number int) {
	r := s.rng
	fresh, prefix := 5+r.IntN(36), out.sequence
	if number == 1 {
		fresh = 40 + r.IntN(81)
	} else if number >= 3 && r.Float64() < .02 {
		prefix = out.sequence / 3 // the history was rewritten: a new branch
		fresh += 20
	}
	n := whole(r, (10+45*r.Float64())*s.behaviour.Tokens)
	if st.stop == "aborted" || st.stop == "error" {
		n = 1 + n/3
	}
	ids, logprobs, good := s.policy.sample(r, prefix+fresh, n)
	out.sequence = prefix + fresh + n
	out.tokens += n
	out.good += good
	out.steps++
	thinking := n * 2 / 5
	counts := &event.TokenCounts{
		Prompt:   ptr(uint32(prefix + fresh)),
		Cached:   ptr(uint32(prefix)),
		Thinking: ptr(uint32(thinking)),
	}
	if st.n > 0 {
		counts.ToolArgument = ptr(uint32(n - thinking))
	} else {
		counts.Final = ptr(uint32(n - thinking))
	}
	ev := &event.StepCompleted{
		Step:               uint32(number),
		PolicyVersion:      s.version,
		PromptPrefixLen:    uint32(prefix),
		PromptTokenIds:     prompt(r, fresh),
		OutputTokenIds:     ids,
		OutputLogprobs:     logprobs,
		Sampling:           sampling,
		Tokens:             counts,
		TimeToFirstTokenMs: ptr(1000 * seconds * (.05 + .2*r.Float64())),
		LatencyMs:          ptr(1000 * seconds),
		StopReason:         st.stop,
	}
	if n > 4 && r.IntN(40) == 0 { // the harness forced the first tokens of a constrained call
		mask := make([]byte, n)
		for i := 2; i < n; i++ {
			mask[i] = 1
		}
		ev.OutputMask = mask
	}
	s.occur(out.at, engine, id, &event.SessionEvent{Body: &event.SessionEvent_StepCompleted{StepCompleted: ev}})
}

// callTools lets the calls of a step run beside one another.
func (s *session) callTools(out *run, id string, st *step) {
	r := s.rng
	begun, group := out.at, ""
	if st.n > 1 {
		group = name(id, 'g', uint64(out.steps))
	}
	for i := range st.n {
		c := &st.calls[i]
		out.calls++
		callID := name(id, 'c', uint64(out.calls))
		file := out.file
		if i > 0 || (c.tool == readFile && c.fault == 0 && r.IntN(2) == 0) {
			file = s.file()
		}
		called := s.called(*c, file)
		called.CallId, called.Step, called.ParallelGroup = callID, uint32(out.steps), group
		at := begun + int64(1000*(2+r.IntN(9)))
		s.occur(at, ide, id, &event.SessionEvent{Body: &event.SessionEvent_ToolCalled{ToolCalled: called}})
		if c.tool == askUser {
			continue // the answer is the next request
		}

		ms := 3 + 60*r.Float64()
		if c.tool == runTerminal {
			ms = 1000 * logNormal(r, 3, .8)
		}
		returned := &event.ToolReturned{
			CallId:       callID,
			Outcome:      c.outcome,
			DurationMs:   ptr(ms),
			OutputBytes:  ptr(uint64(20 + r.IntN(4000))),
			OutputTokens: ptr(uint32(5 + r.IntN(36))),
		}
		back := at + int64(1000*ms)
		if c.outcome == event.ToolOutcome_OK && (c.tool == readFile || c.tool == search) {
			returned.Output = s.sim.vocabulary[s.unit.script][r.IntN(wordsPerScript)]
		}
		if c.tool == runTerminal {
			returned.ExitCode = ptr(int32(0))
		}
		s.occur(back, ide, id, &event.SessionEvent{Body: &event.SessionEvent_ToolReturned{ToolReturned: returned}})
		if c.edit {
			s.propose(out, back+2000, id, callID, file)
		}
		if c.check {
			out.checked, out.checkAt = callID, back+1000
		}
		out.at = max(out.at, back+3000)
	}
}

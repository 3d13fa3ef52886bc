package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Record is a verdict with everything that it was made from: it is stored when a test ends, and anybody can
// make the verdict again from it.
type Record struct {
	Policy   Policy   `json:"policy"`
	Evidence Evidence `json:"evidence"`
	Verdict  Verdict  `json:"verdict"`
}

// Freeze evaluates and keeps the whole of it.
func Freeze(p Policy, e Evidence) Record {
	return Record{Policy: p, Evidence: e, Verdict: Evaluate(p, e)}
}

// Recompute evaluates the frozen evidence again. The error says that the verdict isn't the stored one: the
// evidence, the verdict or the gate has changed since.
func (r Record) Recompute() (Verdict, error) {
	again := Evaluate(r.Policy, r.Evidence)
	was, err := json.Marshal(r.Verdict)
	if err != nil {
		return again, fmt.Errorf("stored verdict of %s: %w", r.Verdict.Experiment, err)
	}
	is, err := json.Marshal(again)
	if err != nil {
		return again, fmt.Errorf("verdict of %s: %w", again.Experiment, err)
	}
	switch {
	case bytes.Equal(was, is):
		return again, nil
	case again.SumsDigest != r.Verdict.SumsDigest:
		return again, fmt.Errorf("the sums are not those of the verdict: digest %.12s, frozen with %.12s", again.SumsDigest, r.Verdict.SumsDigest)
	case again.Decision != r.Verdict.Decision:
		return again, fmt.Errorf("the evidence gives %s, the stored verdict says %s", again.Decision, r.Verdict.Decision)
	}
	return again, fmt.Errorf("the evidence gives %s as stored, but not the same numbers to the bit (another version of the gate, or another machine's arithmetic)", again.Decision)
}

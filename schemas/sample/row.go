package sample

import (
	"fmt"
	"math"
	"time"
)

// Row is one training sequence: a branch of a turn. All per-token arrays cover the whole sequence.
type Row struct {
	SampleID       string
	SessionID      string
	TurnID         string
	Branch         int32
	BranchesInTurn int32

	Origin     string // live, simulated, imported
	GroupID    string // "" (null) unless a simulated rollout of one prompt
	GroupIndex int32
	GroupSize  int32

	InputIDs         []byte  // int32 little-endian, L of them
	PromptLength     int32   // tokens before the first generated one
	LossMask         []uint8 // L: 1 where the policy's own tokens are trained
	BehaviorLogprobs []byte  // float32 little-endian, L of them; 0 where the mask is 0
	Steps            []Step

	PolicyVersion      string
	PolicyOrdinal      int64 // -1 (null): not in the registry
	UnitHash           string
	PolicyVersionSpans []Span

	Reward           float64
	Advantage        float64
	TokenAdvantages  []float32 // nil (null) unless a step has its own blame
	RewardComponents []Component

	Outcome            string
	HarnessVersion     string
	ToolSchemaDigest   string
	RewardSpec         string
	ClassifierVersion  string
	BaselineVersion    string
	TokenizerDigest    string
	ChatTemplateDigest string
	Sidecar            string // "": null
	SettledAt          time.Time
}

// Length is the number of tokens of the sequence.
func (r *Row) Length() int { return len(r.LossMask) }

// Check says which promise of the format the row breaks: arrays of one length, spans inside the sequence, finite
// numbers.
func (r *Row) Check() error {
	n := r.Length()
	switch {
	case len(r.InputIDs) != 4*n || len(r.BehaviorLogprobs) != 4*n:
		return fmt.Errorf("%d mask values, but %d bytes of token ids and %d of log-probs (4 a token)", n, len(r.InputIDs), len(r.BehaviorLogprobs))
	case r.TokenAdvantages != nil && len(r.TokenAdvantages) != n:
		return fmt.Errorf("%d tokens, but %d token advantages", n, len(r.TokenAdvantages))
	case r.PromptLength < 0 || int(r.PromptLength) > n:
		return fmt.Errorf("prompt_length %d of %d tokens", r.PromptLength, n)
	case !finite(r.Reward) || !finite(r.Advantage):
		return fmt.Errorf("reward %g, advantage %g: must be finite", r.Reward, r.Advantage)
	}
	for i, s := range r.Steps {
		if s.Start < 0 || s.Start > s.End || int(s.End) > n {
			return fmt.Errorf("step %d covers [%d, %d) of %d tokens", i, s.Start, s.End, n)
		}
	}
	for i, s := range r.PolicyVersionSpans {
		if s.Start < 0 || s.Start > s.End || int(s.End) > n {
			return fmt.Errorf("policy span %d covers [%d, %d) of %d tokens", i, s.Start, s.End, n)
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Step says where a generation stands in the sequence, and what defines its log-probs.
type Step struct {
	Start, End   int32
	StopReason   string
	LatencyMs    float32
	Temperature  float32
	TopP         float32
	TopK         int32
	LogprobsMode string
}

// Span is a run of tokens that one policy version generated.
type Span struct {
	Version    string
	Start, End int32
}

// Component is one part of the reward; Known false is null: not observed.
type Component struct {
	Name   string
	Value  float64
	Known  bool
	Weight float64
}

package rewardspec

import (
	_ "embed"
	"fmt"
	"slices"
	"time"
)

// What the documents of this package call themselves.
const (
	APIVersion   = "millrace/v1"
	SpecKind     = "RewardSpec"
	BaselineKind = "Baseline"
)

// Names of the fixed blocks, as they stand among a turn's components.
const (
	UndeliveredBlock     = "undelivered"
	UnaskedEditBlock     = "unasked_edit"
	DeferralBlock        = "deferral"
	InvalidToolCallBlock = "invalid_tool_call"
	EffortBlock          = "effort"
)

// Spec is a reward spec: the versioned rules that turn the signals of a turn into its reward.
// Components are free; the blocks below them can be tuned, but neither left out nor turned round.
type Spec struct {
	Name              string
	Version           int
	SettleAfter       time.Duration // from the end of a turn until its outcome is fixed; (0, 24h]
	MaxPolicyVersions int           // more of them inside one turn make it mixed_policy; at least 1, default 2
	Components        []Component
	Undelivered       Undelivered
	UnaskedEdit       UnaskedEdit
	Deferral          Deferral
	InvalidToolCall   InvalidToolCall
	Effort            Effort
	Clip              Clip

	// Missing are the fixed blocks that a draft leaves out: they do nothing. None in what Parse takes.
	Missing []string
	// Lines are where the fields of the document stand, by their names.
	Lines map[string]int
}

// Has says whether a fixed block is there.
func (s *Spec) Has(block string) bool { return !slices.Contains(s.Missing, block) }

// ID is the spec as rows and reports name it: "composer@1".
func (s *Spec) ID() string { return fmt.Sprintf("%s@%d", s.Name, s.Version) }

// Component is one term of the reward: an expression over signals. It is null as soon as one of its signals is.
type Component struct {
	Name  string
	Value *Expression
	Line  int // where it stands in the document
}

// Undelivered is what a turn gets that delivered no edit, times p_edit.
type Undelivered struct {
	Value float64 // < 0
}

// UnaskedEdit keeps edits from being made only for their retention.
type UnaskedEdit struct {
	TinyDisliked float64 // < 0, times p_edit: a tiny edit with a negative follow-up
}

// Deferral prices asking instead of editing.
type Deferral struct {
	PerQuestion float64 // < 0, for each question up to the answer
	Unanswered  float64 // < 0, times p_edit
}

// InvalidToolCall prices malformed calls: −(1 − Decayⁿ) for the turn, Span for the step that issued one.
type InvalidToolCall struct {
	Decay float64 // (0, 1)
	Span  float64 // < 0
}

// Effort is the price of work, concave in the weighted amount x.
type Effort struct {
	K       float64 // ≥ 0, per unit of x: how soon the price bends
	Q       float64 // [0, 1]: how much it bends; 0 is linear, 1 logarithmic
	Weights EffortWeights
	Weight  float64 // < 0: the component at the stratum's x_ref and beyond
}

// EffortWeights are what each kind of work counts, in tokens of text to the user.
type EffortWeights struct {
	ThinkingTokens     float64
	ToolArgumentTokens float64 // no less than ThinkingTokens, or reasoning moves into comments
	ToolOutputTokens   float64
	FinalTokens        float64
	ToolCalls          float64
	Steps              float64
}

// Clip bounds the reward. It lies beyond any sum that faults can reach, so that no fault is ever free.
type Clip struct {
	Low, High float64
}

//go:embed composer.yaml
var composer []byte

// Default is the shipped spec and the document that it was read from.
func Default() (*Spec, []byte) {
	s, err := Parse(composer)
	if err != nil {
		panic("the shipped reward spec is broken: " + err.Error()) // a test reads it
	}
	return s, append([]byte(nil), composer...)
}

//go:embed rewardspec.schema.json
var specSchema []byte

//go:embed baseline.schema.json
var baselineSchema []byte

// Schema is the JSON Schema (2020-12) of a reward spec, for editors.
func Schema() []byte { return append([]byte(nil), specSchema...) }

// BaselineSchema is the JSON Schema (2020-12) of a baseline.
func BaselineSchema() []byte { return append([]byte(nil), baselineSchema...) }

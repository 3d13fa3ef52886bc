package reward

import (
	"fmt"
	"strings"

	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// Reward is a compiled spec with the baseline that it is compared with. It is safe for concurrent use.
type Reward struct {
	spec       *rewardspec.Spec
	digest     string
	baseline   *rewardspec.Baseline
	components []component
}

// Input is what a turn's reward depends on.
type Input struct {
	Signals       []ledger.Value // aligned with ledger.Signals; null = not observed
	FollowUpClass string         // "none": silence, which says nothing
	Stratum       string         // key in the baseline
	Chain         *Chain         // nil unless the turn ended in a question although an edit was asked for
	// Calls of a question tool inside a turn that went on by itself (Chain is nil). They cost what questions cost,
	// times p_edit; a chain counts its own.
	QuestionCalls int
}

// Chain is how the question of a turn ended.
type Chain struct {
	Answered          bool
	QuestionsToAnswer int     // from this turn to the answer, its own question tool calls included; at least 1
	Final             float64 // reward of the turn that answered
	FinalKnown        bool
}

// Result is a turn's reward and what it is made of.
type Result struct {
	// The spec's components in its order, nulls included, then the fixed blocks that applied (effort always, null if
	// no count is known). Those that are not null add up to the reward before clipping.
	Components  []ledger.Component
	Reward      ledger.Value // null without evidence
	Advantage   ledger.Value // reward − the stratum's baseline; null without evidence
	Evidence    bool         // retention, follow-up, thumb, checks or a fixed block; effort and latency alone are none
	InvalidSpan float64      // what the step of a malformed call bears besides: its token advantage is min(A, 0) + InvalidSpan
}

// Compile makes a spec ready for scoring, or a draft of one for a rehearsal. The digest is the spec document's; a nil
// baseline is v0.
func Compile(spec *rewardspec.Spec, digest string, baseline *rewardspec.Baseline) (*Reward, error) {
	if spec == nil {
		return nil, fmt.Errorf("reward spec %s: there is none to compile", digest)
	}
	if baseline == nil {
		baseline = rewardspec.BaselineV0()
	}
	r := &Reward{spec: spec, digest: digest, baseline: baseline}
	for _, c := range spec.Components {
		if c.Value == nil {
			return nil, fmt.Errorf("reward spec line %d: component %q has no expression", c.Line, c.Name)
		}
		r.components = append(r.components, compile(c))
	}
	return r, nil
}

// Spec is the spec that was compiled.
func (r *Reward) Spec() *rewardspec.Spec { return r.spec }

// Digest is the spec document's.
func (r *Reward) Digest() string { return r.digest }

// Baseline is what rewards are compared with.
func (r *Reward) Baseline() *rewardspec.Baseline { return r.baseline }

// Stratum is the key under which a turn is compared: only what was known before its first step.
func (r *Reward) Stratum(intent event.Intent, language, sizeClass string, origin event.Origin) string {
	if origin == event.Origin_ORIGIN_UNSPECIFIED {
		origin = event.Origin_LIVE
	}
	intentName := "unknown"
	if intent != event.Intent_INTENT_UNSPECIFIED {
		intentName = strings.ToLower(intent.String())
	}
	return strings.Join([]string{intentName, part(language), part(sizeClass), strings.ToLower(origin.String())}, "/")
}

// part is one part of a stratum's key, as far as a backend's spelling can be trusted.
func part(s string) string {
	s = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), "/", "-")
	if s == "" {
		return "unknown"
	}
	return s
}

// PEdit is how likely a request of that intent asks for an edit: 1 for edit, 0 for ask and review, otherwise the
// stratum's frozen share.
func (r *Reward) PEdit(intent event.Intent, stratum string) float64 {
	switch intent {
	case event.Intent_EDIT:
		return 1
	case event.Intent_ASK, event.Intent_REVIEW:
		return 0
	default:
		return r.baseline.PEdit(stratum)
	}
}

// SpanAdvantage is the token advantage of a step that issued a malformed call, in a turn of that advantage. The span
// bears it once, however many of its calls were malformed, and never shares in a good outcome. A draft without the
// block blames nothing: the span learns what the turn learns.
func (r *Reward) SpanAdvantage(advantage float64) float64 {
	if !r.spec.Has(rewardspec.InvalidToolCallBlock) {
		return advantage
	}
	return min(advantage, 0) + r.spec.InvalidToolCall.Span
}

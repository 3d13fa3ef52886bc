package rewardspec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gopkg.in/yaml.v3"
)

// The longest settle_after: a turn that waits longer than its session's day is of no use to a trainer.
const maxSettleAfter = 24 * time.Hour

const defaultMaxPolicyVersions = 2

var fixedBlocks = []string{UndeliveredBlock, UnaskedEditBlock, DeferralBlock, InvalidToolCallBlock, EffortBlock}

// What a draft has where its document says nothing, or nothing that can be used.
const (
	draftName        = "draft"
	draftSettleAfter = 20 * time.Minute
	farOut           = 1e6 // a clip that never bites
)

// Parse reads a reward spec strictly: unknown, missing and doubled fields, values out of range and expressions that
// don't compile are errors, each with its line. It returns all that it finds, joined.
func Parse(data []byte) (*Spec, error) {
	s, problems := ParseDraft(data)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return s, nil
}

// ParseDraft reads a reward spec as far as it can be read, with all that Parse would refuse it for, each a *Problem. A
// fixed block that is missing does nothing, one that is turned round does what it says, a component that doesn't compile is
// left out. So a rehearsal can show where such a spec goes wrong; nothing may put one in force. The spec
// is nil only if the document is no mapping.
func ParseDraft(data []byte) (*Spec, []error) {
	d := &document{what: "reward spec"}
	f := d.open(data, SpecKind,
		append([]string{"name", "version", "settle_after", "components", "clip"}, fixedBlocks...), []string{"max_policy_versions"})
	if f == nil {
		return nil, d.errs
	}
	s := &Spec{
		Name:              cmp.Or(d.name(f["name"], "name"), draftName),
		Version:           d.whole(f["version"], "version", 1),
		SettleAfter:       d.duration(f["settle_after"], "settle_after", maxSettleAfter),
		MaxPolicyVersions: defaultMaxPolicyVersions,
		Components:        d.components(f["components"]),
		Clip:              d.clip(f["clip"]),
		Lines:             make(map[string]int, len(f)),
	}
	for name, n := range f {
		s.Lines[name] = n.Line
	}
	if s.SettleAfter <= 0 || s.SettleAfter > maxSettleAfter {
		s.SettleAfter = draftSettleAfter
	}
	if n := f["max_policy_versions"]; n != nil {
		s.MaxPolicyVersions = max(1, d.whole(n, "max_policy_versions", 1))
	}
	for _, block := range fixedBlocks {
		if n := f[block]; n == nil || n.Kind != yaml.MappingNode {
			s.Missing = append(s.Missing, block)
		}
	}
	d.blocks(s, f)
	return s, d.errs
}

// blocks reads the fixed blocks: every one is there, and none can be turned into a reward.
func (d *document) blocks(s *Spec, f map[string]*yaml.Node) {
	if n := f[UndeliveredBlock]; n != nil {
		b := d.fields(n, UndeliveredBlock, []string{"value"}, nil)
		s.Undelivered.Value = d.number(b["value"], "undelivered.value", "below 0", negative)
	}
	if n := f[UnaskedEditBlock]; n != nil {
		b := d.fields(n, UnaskedEditBlock, []string{"tiny_disliked"}, nil)
		s.UnaskedEdit.TinyDisliked = d.number(b["tiny_disliked"], "unasked_edit.tiny_disliked", "below 0", negative)
	}
	if n := f[DeferralBlock]; n != nil {
		b := d.fields(n, DeferralBlock, []string{"per_question", "unanswered"}, nil)
		s.Deferral.PerQuestion = d.number(b["per_question"], "deferral.per_question", "below 0", negative)
		s.Deferral.Unanswered = d.number(b["unanswered"], "deferral.unanswered", "below 0", negative)
	}
	if n := f[InvalidToolCallBlock]; n != nil {
		b := d.fields(n, InvalidToolCallBlock, []string{"decay", "span"}, nil)
		s.InvalidToolCall.Decay = d.number(b["decay"], "invalid_tool_call.decay", "between 0 and 1, or further broken calls cost nothing",
			func(v float64) bool { return v > 0 && v < 1 })
		s.InvalidToolCall.Span = d.number(b["span"], "invalid_tool_call.span", "below 0", negative)
	}
	if n := f[EffortBlock]; n != nil {
		s.Effort = d.effort(n)
	}
}

func (d *document) effort(n *yaml.Node) Effort {
	b := d.fields(n, EffortBlock, []string{"k", "q", "weights", "weight"}, nil)
	e := Effort{
		K:      d.number(b["k"], "effort.k", "0 or more", notNegative),
		Q:      d.number(b["q"], "effort.q", "from 0 to 1", share),
		Weight: d.number(b["weight"], "effort.weight", "below 0", negative),
	}
	w := b["weights"]
	if w == nil {
		return e
	}
	names := []string{"thinking_tokens", "tool_argument_tokens", "tool_output_tokens", "final_tokens", "tool_calls", "steps"}
	f := d.fields(w, "effort.weights", names, nil)
	for i, into := range []*float64{
		&e.Weights.ThinkingTokens, &e.Weights.ToolArgumentTokens, &e.Weights.ToolOutputTokens,
		&e.Weights.FinalTokens, &e.Weights.ToolCalls, &e.Weights.Steps,
	} {
		*into = d.number(f[names[i]], "effort.weights."+names[i], "0 or more", notNegative)
	}
	if f["tool_argument_tokens"] != nil && e.Weights.ToolArgumentTokens < e.Weights.ThinkingTokens {
		d.fail(f["tool_argument_tokens"], "effort.weights: tool_argument_tokens (%v) weigh less than thinking_tokens (%v); then reasoning moves into comments",
			e.Weights.ToolArgumentTokens, e.Weights.ThinkingTokens)
	}
	return e
}

// maxComponents bounds what every turn has to be scored by.
const maxComponents = 100

func (d *document) components(n *yaml.Node) []Component {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.fail(n, "components: expected a list of {name, value}")
		return nil
	}
	if len(n.Content) > maxComponents {
		d.fail(n, "components: there are %d; at most %d", len(n.Content), maxComponents)
		return nil
	}
	var list []Component
	for _, item := range n.Content {
		f := d.fields(item, "components", []string{"name", "value"}, nil)
		if f["name"] == nil || f["value"] == nil {
			continue
		}
		name := d.name(f["name"], "components.name")
		if slices.Contains(fixedBlocks, name) {
			d.fail(f["name"], "component %q has the name of a fixed block; choose another", name)
		}
		if slices.ContainsFunc(list, func(c Component) bool { return c.Name == name }) {
			d.fail(f["name"], "component %q stands there twice", name)
		}
		source := d.text(f["value"], fmt.Sprintf("component %q", name))
		if source == "" {
			continue
		}
		value, err := ParseExpression(source)
		if err != nil {
			d.fail(f["value"], "component %q: %v", name, err)
			continue
		}
		list = append(list, Component{Name: name, Value: value, Line: item.Line})
	}
	return list
}

func (d *document) clip(n *yaml.Node) Clip {
	if n == nil {
		return Clip{Low: -farOut, High: farOut}
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
		d.fail(n, "clip: expected [low, high]")
		return Clip{Low: -farOut, High: farOut}
	}
	return Clip{
		Low:  d.number(n.Content[0], "clip: low", "below 0", negative),
		High: d.number(n.Content[1], "clip: high", "above 0", positive),
	}
}

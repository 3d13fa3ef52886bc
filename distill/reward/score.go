package reward

import (
	"math"

	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// scoring is one turn on its way to a result.
type scoring struct {
	turn
	spec  *rewardspec.Spec
	pEdit float64
	parts []component    // with values, the spec's components
	value []ledger.Value // of each of them, as it counts in the end
	fixed []ledger.Component
	// A fixed block other than effort applied.
	applied bool
}

// Score computes a turn's reward. It reads nothing but its input, and the same input gives the same result.
func (r *Reward) Score(in Input) Result {
	s := &scoring{
		turn: turn{Input: in, stratum: r.baseline.At(in.Stratum)},
		spec: r.spec, parts: r.components, pEdit: r.baseline.PEdit(in.Stratum),
		value: make([]ledger.Value, len(r.components)),
	}
	if p := s.signal("intent.p_edit"); p.Known {
		s.pEdit = p.Number
	}
	for i, c := range s.parts {
		s.value[i] = c.of(s.turn)
		if c.followUp && in.FollowUpClass == "none" { // silence is null
			s.value[i] = ledger.Value{}
		}
	}
	s.outcome()
	s.invalidToolCalls()
	s.fixed = append(s.fixed, ledger.Component{Name: rewardspec.EffortBlock, Value: s.effort()})
	return s.result(r)
}

// outcome applies the one fixed block that goes with how the turn ended. A block that a draft leaves out does nothing:
// without deferral a question is words like others, for which nobody pays.
func (s *scoring) outcome() {
	delivered := s.signal("outcome.delivered")
	switch {
	case s.Chain != nil && !s.spec.Has(rewardspec.DeferralBlock):
		return
	case s.Chain != nil && s.Chain.Answered:
		s.answered()
	case s.Chain != nil:
		s.nothingDelivered(rewardspec.DeferralBlock, s.spec.Deferral.Unanswered)
	case delivered.Known && delivered.Number == 0 && s.spec.Has(rewardspec.UndeliveredBlock):
		s.nothingDelivered(rewardspec.UndeliveredBlock, s.spec.Undelivered.Value)
		s.questionCalls()
	default:
		s.unaskedEdit()
		s.questionCalls()
	}
}

// answered: a question is worth what came of it, less its price; of the turn's own, only what it cost counts.
func (s *scoring) answered() {
	s.drop(func(c component) bool { return !c.cost })
	if s.Chain.FinalKnown {
		s.apply(rewardspec.DeferralBlock, s.Chain.Final+s.spec.Deferral.PerQuestion*float64(max(1, s.Chain.QuestionsToAnswer)))
	}
}

// nothingDelivered replaces retention by the block's value × p_edit. A negative follow-up still adds; a positive one
// counts only as far as no edit was asked for, or thanks could be had for words.
func (s *scoring) nothingDelivered(block string, value float64) {
	s.drop(func(c component) bool { return c.retention })
	for i, c := range s.parts {
		if c.followUp && s.value[i].Number > 0 {
			s.value[i].Number *= 1 - s.pEdit
		}
	}
	if s.pEdit > 0 {
		s.apply(block, value*s.pEdit)
	}
}

// unaskedEdit takes back what an edit earned by its retention as far as none was asked for, and all of it where the
// edit is tiny. A tiny edit that was disliked gets the block's own value instead, if that is worse.
func (s *scoring) unaskedEdit() {
	if !s.spec.Has(rewardspec.UnaskedEditBlock) {
		return
	}
	polarity := s.signal("follow_up.polarity")
	if s.FollowUpClass == "none" {
		polarity = ledger.Value{}
	}
	characters := s.signal("edits.characters")
	tiny := characters.Known && characters.Number < s.stratum.CharsP10
	retention, gain := 0., 0.
	for i, c := range s.parts {
		if c.retention && s.value[i].Known {
			retention += s.value[i].Number
			gain += max(0, s.value[i].Number)
		}
	}
	disliked := s.spec.UnaskedEdit.TinyDisliked * s.pEdit
	switch {
	case tiny && polarity.Known && polarity.Number < 0 && disliked < retention:
		s.drop(func(c component) bool { return c.retention })
		s.apply(rewardspec.UnaskedEditBlock, disliked)
	case tiny && gain > 0:
		s.apply(rewardspec.UnaskedEditBlock, -gain)
	case gain > 0 && s.pEdit < 1 && polarity.Number <= 0:
		s.apply(rewardspec.UnaskedEditBlock, -gain*(1-s.pEdit))
	}
}

// questionCalls prices the questions of a turn that went on by itself.
func (s *scoring) questionCalls() {
	if s.QuestionCalls > 0 && s.pEdit > 0 && s.spec.Has(rewardspec.DeferralBlock) {
		s.apply(rewardspec.DeferralBlock, s.spec.Deferral.PerQuestion*float64(s.QuestionCalls)*s.pEdit)
	}
}

func (s *scoring) invalidToolCalls() {
	if n := s.signal("tools.invalid"); n.Known && n.Number > 0 && s.spec.Has(rewardspec.InvalidToolCallBlock) {
		s.apply(rewardspec.InvalidToolCallBlock, math.Pow(s.spec.InvalidToolCall.Decay, n.Number)-1)
	}
}

func (s *scoring) apply(block string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) { // of a draft with a decay that is none
		return
	}
	s.applied = true
	s.fixed = append(s.fixed, ledger.Component{Name: block, Value: ledger.Of(value)})
}

// drop makes components null that another block stands in for.
func (s *scoring) drop(which func(component) bool) {
	for i, c := range s.parts {
		if which(c) {
			s.value[i] = ledger.Value{}
		}
	}
}

func (s *scoring) result(r *Reward) Result {
	out := Result{Evidence: s.applied, InvalidSpan: s.spec.InvalidToolCall.Span}
	for i, c := range s.parts {
		out.Components = append(out.Components, ledger.Component{Name: c.name, Value: s.value[i]})
		out.Evidence = out.Evidence || c.evidence(s.value[i])
	}
	out.Components = append(out.Components, s.fixed...)
	if out.Evidence {
		reward := r.Total(out.Components)
		out.Reward, out.Advantage = ledger.Of(reward), ledger.Of(reward-s.stratum.Value)
	}
	return out
}

// Total adds up components, nulls skipped, and clips the sum. Components named in without are left out: a baseline is
// made of totals without the invalid term.
func (r *Reward) Total(components []ledger.Component, without ...string) float64 {
	sum := 0.
next:
	for _, c := range components {
		for _, name := range without {
			if c.Name == name {
				continue next
			}
		}
		if c.Value.Known {
			sum += c.Value.Number
		}
	}
	return min(max(sum, r.spec.Clip.Low), r.spec.Clip.High)
}

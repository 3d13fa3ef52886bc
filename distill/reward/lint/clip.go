package lint

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

const (
	climbs      = 6 // from so many turns the worst and the best are looked for
	climbRounds = 6
)

// clip compares the worst and the best sums that turns can reach with the clip.
func (l *linter) clip() {
	for _, end := range []struct {
		sign float64
		clip float64
		name string
		free string
	}{
		{-1, l.spec.Clip.Low, "worst", "one more fault is free there"},
		{1, l.spec.Clip.High, "best", "what a turn wastes, and one broken call, are free there"},
	} {
		result := l.extreme(end.sign)
		if sum := total(result.Components); end.sign*(sum-end.clip) > tolerance {
			l.add(Finding{
				Error, ClipWithinReach, l.line("clip"),
				fmt.Sprintf("the %s turn found sums to %s, beyond the clip at %s: %s (%s)", end.name, number(sum), number(end.clip), end.free, madeOf(result.Components)),
				fmt.Sprintf("set this end of the clip to %.0f or beyond, or bound what adds up without end by min()", end.sign*math.Ceil(end.sign*sum)),
			})
		}
	}
}

// extreme looks for the turn with the lowest (sign −1) or highest (+1) sum, first among turns by themselves, then also
// among questions that such a turn answers.
func (l *linter) extreme(sign float64) reward.Result {
	var best reward.Result
	most := math.Inf(-1)
	for _, chained := range []bool{false, true} {
		var chain *reward.Chain
		if chained && l.spec.Has(rewardspec.DeferralBlock) {
			chain = &reward.Chain{Answered: true, QuestionsToAnswer: mostQuestions, Final: sign * most, FinalKnown: true}
		}
		if chained && chain == nil {
			break
		}
		for range climbs {
			in := l.turn(false)
			in.Chain = chain
			if got, v := l.climb(in, sign); v > most {
				best, most = got, v
			}
		}
	}
	return best
}

// climb changes one thing of a turn after the other as long as the sum gets more extreme.
func (l *linter) climb(in reward.Input, sign float64) (reward.Result, float64) {
	judge := func(in reward.Input) (reward.Result, float64) {
		r := l.open.Score(in)
		if !r.Evidence {
			return r, math.Inf(-1)
		}
		return r, sign * r.Reward.Number
	}
	best, most := judge(in)
	for range climbRounds {
		before := most
		for _, change := range l.changes() {
			next := copied(in)
			change(&next)
			coherent(next)
			if got, v := judge(next); v > most {
				in, best, most = next, got, v
			}
		}
		if most <= before {
			break
		}
	}
	return best, most
}

// changes are all single things that can be different in a turn, but whether it was a question that was answered.
func (l *linter) changes() []func(*reward.Input) {
	var all []func(*reward.Input)
	for _, name := range l.signals {
		for _, v := range l.values[name] {
			all = append(all, func(in *reward.Input) { set(*in, name, v) })
		}
		if nullable(name) {
			all = append(all, func(in *reward.Input) { in.Signals[ledger.SignalIndex[name]] = ledger.Value{} })
		}
	}
	for _, s := range l.strata {
		all = append(all, func(in *reward.Input) { in.Stratum = s })
	}
	for _, n := range []int{0, mostQuestions} {
		all = append(all, func(in *reward.Input) { in.QuestionCalls = n })
	}
	return append(all, func(in *reward.Input) {
		if in.Chain == nil {
			in.Chain = &reward.Chain{}
		}
	}, func(in *reward.Input) {
		if in.Chain != nil && !in.Chain.Answered {
			in.Chain = nil
		}
	})
}

// madeOf are components in words, the largest first.
func madeOf(components []ledger.Component) string {
	var parts []ledger.Component
	for _, c := range components {
		if c.Value.Known && math.Abs(c.Value.Number) >= .005 {
			parts = append(parts, c)
		}
	}
	slices.SortStableFunc(parts, func(a, b ledger.Component) int {
		return int(math.Copysign(1, math.Abs(b.Value.Number)-math.Abs(a.Value.Number)))
	})
	words := make([]string, 0, len(parts))
	for _, c := range parts {
		words = append(words, fmt.Sprintf("%s %+.2f", c.Name, c.Value.Number))
	}
	return strings.Join(words, ", ")
}

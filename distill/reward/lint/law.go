package lint

import (
	"fmt"
	"slices"

	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

const lawTurns = 5000

// law looks for a turn to which one more malformed call is worth something. The law stands on advantages, because they
// are what is learned: the call's own span must learn strictly less than it would have, the turn no more.
func (l *linter) law() {
	for try := range lawTurns {
		t := trial{l.turn(true), classes[try%len(classes)]}
		t.in.FollowUpClass = pick(l.random, []string{"", "none", "complaint"})
		t.in.QuestionCalls = l.random.IntN(mostQuestions + 1)
		if l.random.IntN(3) == 0 {
			t.in.Chain = &reward.Chain{
				Answered: l.random.IntN(2) == 0, QuestionsToAnswer: l.random.IntN(mostQuestions + 1),
				Final: l.random.Float64()*3 - 2, FinalKnown: l.random.IntN(4) > 0,
			}
		}
		if l.breaks(t) {
			l.pays(l.shrunk(t))
			return
		}
	}
}

// trial is a turn and the class of the malformed call that is added to it.
type trial struct {
	in    reward.Input
	class string
}

// worse is the turn with one more malformed call. That nothing was known of its calls is no excuse: of the new one it is.
func (t trial) worse() reward.Input {
	out := copied(t.in)
	for _, name := range []string{"tools.invalid", "tools.calls", t.class} {
		if v := get(t.in, name); v.Known || name == "tools.invalid" {
			set(out, name, v.Number+1)
		}
	}
	return out
}

// breaks says whether the law is broken there.
func (l *linter) breaks(t trial) bool {
	before := l.reward.Score(t.in)
	if !before.Evidence {
		return false // not trained on before, and blamed after
	}
	after := l.reward.Score(t.worse())
	return !after.Evidence || after.Advantage.Number > before.Advantage.Number+tolerance ||
		l.reward.SpanAdvantage(after.Advantage.Number) >= before.Advantage.Number
}

// shrunk is the plainest turn that still breaks the law: what is not needed is left out, the rest gets small numbers.
func (l *linter) shrunk(t trial) trial {
	try := func(change func(*reward.Input)) bool {
		next := trial{copied(t.in), t.class}
		change(&next.in)
		coherent(next.in)
		if !l.breaks(next) {
			return false
		}
		t = next
		return true
	}
	try(func(in *reward.Input) { in.Stratum = "" })
	try(func(in *reward.Input) { in.FollowUpClass = "" })
	try(func(in *reward.Input) { in.QuestionCalls = 0 })
	try(func(in *reward.Input) { in.Chain = nil })
	for range 2 {
		for _, name := range l.signals {
			if !get(t.in, name).Known || try(func(in *reward.Input) { in.Signals[ledger.SignalIndex[name]] = ledger.Value{} }) {
				continue
			}
			for _, v := range slices.Concat([]float64{0, 1}, l.values[name]) {
				if v == get(t.in, name).Number || try(func(in *reward.Input) { set(*in, name, v) }) {
					break
				}
			}
		}
	}
	return t
}

func (l *linter) pays(t trial) {
	before, after := l.reward.Score(t.in), l.reward.Score(t.worse())
	from := get(t.in, "tools.invalid").Number
	var what string
	switch span := l.reward.SpanAdvantage(after.Advantage.Number); {
	case !after.Evidence:
		what = fmt.Sprintf("the turn's advantage of %.4f is gone: the turn is no longer trained on", before.Advantage.Number)
	case after.Advantage.Number > before.Advantage.Number+tolerance:
		what = fmt.Sprintf("the turn's advantage rises from %.4f to %.4f", before.Advantage.Number, after.Advantage.Number)
	default:
		what = fmt.Sprintf("the span of the call learns %.4f, no less than the %.4f without it", span, before.Advantage.Number)
	}
	name, line := l.culprit(before.Components, after.Components, rewardspec.InvalidToolCallBlock)
	do := "keep what a malformed call changes (tools.invalid, its class, tools.calls) out of " + name + ", or make it fall by them"
	if name == rewardspec.InvalidToolCallBlock {
		do = "invalid_tool_call must be there, with a decay between 0 and 1 and a span below 0"
	} else {
		what += " by " + name
	}
	names := slices.DeleteFunc(slices.Clone(l.signals), func(n string) bool { return n == "tools.invalid" })
	at := " of any kind"
	if known := told(t.in, names); known != "" {
		at = " with " + known
	}
	if s := t.in.Stratum; s != "" {
		n := l.baseline.At(s)
		at += fmt.Sprintf(" in a stratum of wall_s_p95 %s, x_ref %s, chars_p10 %s", number(n.WallSP95), number(n.XRef), number(n.CharsP10))
	}
	l.add(Finding{Error, InvalidCallPays, line, fmt.Sprintf("one more malformed call pays: from %.0f to %.0f in a turn%s, %s", from, from+1, at, what), do})
}

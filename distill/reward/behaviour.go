package reward

import (
	"fmt"
	"maps"
	"strings"

	"millrace/schemas/ledger"
)

// Behaviour is one typical turn, as the signals show it.
type Behaviour struct {
	Name  string
	Input Input
}

// Facts are a turn's signals by name; what isn't named was not observed.
type Facts map[string]float64

// Signals are the facts aligned with ledger.Signals. A name that is no signal is a programmer's mistake and panics.
func (f Facts) Signals() []ledger.Value {
	values := make([]ledger.Value, len(ledger.Signals))
	for name, v := range f {
		i, ok := ledger.SignalIndex[name]
		if !ok {
			panic("no such signal: " + name)
		}
		values[i] = ledger.Of(v)
	}
	return values
}

// with is a copy of the facts with others laid over them.
func (f Facts) with(more Facts) Facts {
	out := make(Facts, len(f)+len(more))
	for _, m := range []Facts{f, more} {
		maps.Copy(out, m)
	}
	return out
}

// Behaviours are the main behaviours, best first under the shipped spec and baseline v0. Their order is the contract of
// the reward: a spec under which it changes pays for something else. The turns asked for an edit unless said; work is
// 2,000 (short turns 500), wall time .4 of the stratum's p95 (short .15), the classifier's confidence .9.
func Behaviours(r *Reward) []Behaviour {
	wall := r.baseline.At("").WallSP95
	long := Facts{"intent.p_edit": 1, "effort.final_tokens": 2000, "effort.wall_s": .4 * wall}
	short := Facts{"intent.p_edit": 1, "effort.final_tokens": 500, "effort.wall_s": .15 * wall}
	edited := long.with(Facts{"outcome.delivered": 1, "edits.characters": 400})
	kept := edited.with(Facts{"edits.retention": 1})
	gone := edited.with(Facts{"edits.retention": 0})
	nothing := short.with(Facts{"outcome.delivered": 0})
	said := func(polarity float64) Facts {
		return Facts{"follow_up.polarity": polarity, "follow_up.confidence": .9}
	}
	turn := func(f Facts) Input { return Input{Signals: f.Signals(), FollowUpClass: class(f)} }
	asked := func(chain Chain, final Facts) Input {
		in := turn(nothing)
		if chain.FinalKnown {
			chain.Final = r.Score(turn(final)).Reward.Number
		}
		in.Chain = &chain
		return in
	}
	answered := Chain{Answered: true, QuestionsToAnswer: 1, FinalKnown: true}
	return []Behaviour{
		{"good edit kept, positive follow-up", turn(kept.with(said(1)))},
		{"the same at five times the effort", turn(kept.with(said(1)).with(Facts{"effort.final_tokens": 10_000}))},
		{"good edit kept, then silence", turn(kept)},
		{"useful question, then a good edit", asked(answered, kept)},
		{"broken call, recovered, good edit", turn(kept.with(Facts{"tools.invalid": 1}))},
		{"a request to explain, answered by text, neutral follow-up", turn(nothing.with(said(0)).with(Facts{"intent.p_edit": 0}))},
		{"edit rejected or reverted", turn(gone)},
		{"useless question, then an edit that was rejected", asked(answered, gone)},
		{"edit reverted, with a complaint", turn(gone.with(said(-1)))},
		{"gave up, refused, or aborted before any edit", turn(nothing)},
		{"question that was never answered", asked(Chain{}, nil)},
		{"tiny edit, request restated", turn(kept.with(said(-1)).with(Facts{"edits.characters": 10}))},
		{"broken call and nothing", turn(nothing.with(Facts{"tools.invalid": 1}))},
		{"edit reverted, with a complaint, and checks broken", turn(gone.with(said(-1)).with(Facts{"care.checks_broken": 1}))},
	}
}

func class(f Facts) string {
	p, ok := f["follow_up.polarity"]
	switch {
	case !ok:
		return "none"
	case p > 0:
		return "new_request"
	case p < 0:
		return "complaint"
	}
	return "direction_change"
}

// BehaviourTable is a Markdown table of what each behaviour earns and from what.
func BehaviourTable(r *Reward) string {
	var b strings.Builder
	b.WriteString("| behaviour | reward | made of |\n| --- | ---: | --- |\n")
	for _, x := range Behaviours(r) {
		result := r.Score(x.Input)
		var parts []string
		for _, c := range result.Components {
			if c.Value.Known && c.Value.Number != 0 {
				parts = append(parts, fmt.Sprintf("%s %+.3f", c.Name, c.Value.Number))
			}
		}
		reward := "none"
		if result.Reward.Known {
			reward = fmt.Sprintf("%+.2f", result.Reward.Number)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", x.Name, reward, strings.Join(parts, ", "))
	}
	return b.String()
}

package stress

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"millrace/distill/baseline"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// Options say how long the policy climbs; the zero value takes the defaults.
type Options struct {
	Seed    uint64
	Rounds  int      // gradient steps; 0: DefaultRounds
	LeftOut []string // names of Filters: what the trainer's data loader drops
}

const (
	// DefaultRounds are enough for a policy to end on one action of each task.
	DefaultRounds = 1500
	// Turns are sampled in each round.
	Turns = 2048
	// RoundsOfACut go by under one baseline; the next is made of what the policy did in the last of them.
	RoundsOfACut = 50

	rate         = .1       // of the gradient
	least        = 1. / 400 // of the most frequent action's share: a policy is never so sure that what begins to pay isn't found
	honest       = .5       // share of the honest action at the start; all others share the rest
	baselineOver = 400      // turns
)

// Run lets a policy climb the advantage that a spec, or a draft of one, gives, and says where it ends. The policy is a
// softmax over the actions of each task, which it can tell apart; the baseline can't. It follows the natural policy gradient, for
// which an action's logit moves by the sum of its sampled advantages over its share, so that what is rare and pays is found.
// What isn't trained on adds nothing: where everything else is punished, that is a gain. The same seed gives the same report.
func Run(spec *rewardspec.Spec, document []byte, o Options) (*Report, error) {
	o.Rounds = cmp.Or(o.Rounds, DefaultRounds)
	var leftOut []Filter
	for _, name := range o.LeftOut {
		i := slices.IndexFunc(Filters, func(f Filter) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("stress: there is no filter %q", name)
		}
		leftOut = append(leftOut, Filters[i])
	}
	s, err := act(spec, document, leftOut)
	if err != nil {
		return nil, err
	}
	p := &policy{stage: s, rng: rand.New(rand.NewPCG(o.Seed, 0x737472657373))}
	for _, task := range s.tasks {
		logits := make([]float64, len(task.Actions))
		logits[task.honest()] = math.Log(honest / (1 - honest) * float64(len(logits)-1))
		p.logits = append(p.logits, logits)
	}
	report := &Report{Spec: spec.ID(), Seed: o.Seed, Rounds: o.Rounds, LeftOut: o.LeftOut}
	for round := range o.Rounds {
		if round%RoundsOfACut == 0 {
			report.Path = append(report.Path, p.point(round))
		}
		seen := p.round()
		if round%RoundsOfACut == RoundsOfACut-1 {
			if err := p.cut(fmt.Sprintf("stress-%d", round+1), seen); err != nil {
				return nil, err
			}
		}
	}
	report.Path = append(report.Path, p.point(o.Rounds))
	p.tell(report)
	return report, nil
}

func (t Task) honest() int {
	return slices.IndexFunc(t.Actions, func(a Action) bool { return a.Name == t.Honest })
}

// policy is a softmax over the actions of each task.
type policy struct {
	stage  *stage
	rng    *rand.Rand
	logits [][]float64
}

// round samples turns, follows their gradient, and gives the turns.
func (p *policy) round() []span {
	seen := make([]span, 0, Turns)
	shares, gained := make([][]float64, len(p.logits)), make([][]float64, len(p.logits))
	for t, logits := range p.logits {
		shares[t], gained[t] = softmax(logits), make([]float64, len(logits))
	}
	for range Turns {
		t := draw(p.rng, len(p.stage.tasks), func(i int) float64 { return p.stage.tasks[i].Share })
		a := draw(p.rng, len(shares[t]), func(i int) float64 { return shares[t][i] })
		follow := p.stage.chances[t][a]
		c := follow[draw(p.rng, len(follow), func(i int) float64 { return follow[i].probability })]
		seen = append(seen, c.at)
		gained[t][a] += c.advantage
	}
	for t := range p.logits {
		for a := range p.logits[t] {
			p.logits[t][a] += rate * gained[t][a] / (Turns * p.stage.tasks[t].Share * shares[t][a])
		}
		lowest := slices.Max(p.logits[t]) + math.Log(least)
		for a := range p.logits[t] {
			p.logits[t][a] = max(p.logits[t][a], lowest)
		}
	}
	return seen
}

// cut makes the baseline of the turns, as the house does for each cut, and puts it in force.
func (p *policy) cut(version string, seen []span) error {
	var rows []ledger.Row
	for i, at := range seen[:baselineOver] {
		for _, row := range p.stage.rows[at.from:at.to] {
			row.UnitHash = fmt.Sprintf("unit-%d", i)
			rows = append(rows, row)
		}
	}
	b, err := baseline.Compute(p.stage.spec, rows, baseline.Options{Version: version})
	if errors.Is(err, baseline.ErrNoRewards) {
		return nil // the one in force stays
	}
	if err != nil {
		return err
	}
	return p.stage.under(b)
}

func softmax(logits []float64) []float64 {
	highest, sum := slices.Max(logits), 0.
	out := make([]float64, len(logits))
	for i, l := range logits {
		out[i] = math.Exp(l - highest)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// draw picks one of n by their probabilities, which add up to 1.
func draw(rng *rand.Rand, n int, probability func(int) float64) int {
	x := rng.Float64()
	for i := range n - 1 {
		if x -= probability(i); x < 0 {
			return i
		}
	}
	return n - 1
}

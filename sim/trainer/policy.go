package trainer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"millrace/schemas/sample"
)

// classes of tokens: a token's class is its id mod 64.
const classes = 64

// statistics are all that a tabular policy needs to know of its rows: sums per class. The importance ratio of a token
// depends on its class and its behaviour's log-prob only.
type statistics struct {
	tokens    [classes]float64 // trained ones, weighted so that a turn counts once however many branches it has
	advantage [classes]float64 // sums of weight · advantage
	logprob   [classes]float64 // sums of weight · behaviour log-prob
	squares   [classes]float64 // of the log-probs
	seen      int64            // trained tokens, unweighted
}

// why a row is dropped; "" if it is trained on.
func (s *statistics) add(r *sample.Row, context int) (why string) {
	if r.Length() > context {
		return fmt.Sprintf("longer than the context of %d tokens", context)
	}
	trained := false
	for _, m := range r.LossMask {
		trained = trained || m == 1
	}
	if !trained {
		return "no token to train on"
	}
	weight := 1 / float64(max(r.BranchesInTurn, 1))
	for i, m := range r.LossMask {
		if m != 1 {
			continue
		}
		class := binary.LittleEndian.Uint32(r.InputIDs[4*i:]) % classes
		logprob := float64(math.Float32frombits(binary.LittleEndian.Uint32(r.BehaviorLogprobs[4*i:])))
		advantage := r.Advantage
		if r.TokenAdvantages != nil {
			advantage = float64(r.TokenAdvantages[i])
		}
		s.tokens[class] += weight
		s.advantage[class] += weight * advantage
		s.logprob[class] += weight * logprob
		s.squares[class] += weight * logprob * logprob
		s.seen++
	}
	return ""
}

// learned is the outcome of training.
type learned struct {
	logits [classes]float32
	loss   float64 // −(surrogate − KL penalty) at the end
	gain   float64 // mean of ratio · advantage at the end minus at the start
	kl     float64 // of the base from the new policy, nats per token
}

var errNothing = errors.New("no row of the cut can be trained on")

// most is how far the log-probs of one class may spread before the rows are no tabular policy's.
const most = 1e-3

// train takes gradient steps on E[min(ratio · advantage, clipped ratio · advantage)] − kl · KL(base ‖ policy), from the
// policy that produced the rows (PPO's objective, Schulman et al. 2017).
func (s *statistics) train(steps int, rate, kl float64) (learned, error) {
	total := 0.
	for _, n := range s.tokens {
		total += n
	}
	if total == 0 {
		return learned{}, errNothing
	}
	var behaviour, logits [classes]float64
	mass, unseen := 0., 0.
	for c, n := range s.tokens {
		if n == 0 {
			unseen++
			continue
		}
		behaviour[c] = s.logprob[c] / n
		mass += math.Exp(behaviour[c])
		if spread := math.Sqrt(max(0, s.squares[c]/n-behaviour[c]*behaviour[c])); spread > most {
			return learned{}, fmt.Errorf("the log-probs of token class %d spread by %.3g: these rows are not of one tabular policy, so its importance ratios would mean nothing", c, spread)
		}
	}
	for c, n := range s.tokens {
		logits[c] = behaviour[c]
		if n == 0 { // what the classes that were seen leave over
			logits[c] = math.Log(max((1-mass)/unseen, 1e-6))
		}
	}
	base := softmax(logits)
	for range steps {
		p := softmax(logits)
		_, pull := s.surrogate(p, behaviour, total)
		sum := 0.
		for _, x := range pull {
			sum += x
		}
		for c := range logits {
			// d/dθc of Σ_k pull_k is pull_c − p_c · Σ pull, and of −KL(base ‖ p) it is base_c − p_c.
			logits[c] += rate * (pull[c] - p[c]*sum + kl*(base[c]-p[c])) / max(base[c], 1./1024)
		}
	}
	p := softmax(logits)
	out := learned{kl: divergence(base, p)}
	surrogate, _ := s.surrogate(p, behaviour, total)
	before, _ := s.surrogate(base, behaviour, total)
	out.gain = surrogate - before
	out.loss = -surrogate + kl*out.kl
	for c, x := range logits {
		out.logits[c] = float32(x)
	}
	return out, nil
}

// clip is how far an importance ratio may move from 1 before it earns nothing more.
const clip = .2

// surrogate is E[ratio · advantage] with ratios clipped, and its derivative by the log-prob of each class.
func (s *statistics) surrogate(p, behaviour [classes]float64, total float64) (value float64, pull [classes]float64) {
	for c, n := range s.tokens {
		if n == 0 {
			continue
		}
		advantage, ratio := s.advantage[c]/total, p[c]/math.Exp(behaviour[c])
		switch {
		case advantage > 0 && ratio > 1+clip:
			value += advantage * (1 + clip)
		case advantage < 0 && ratio < 1-clip:
			value += advantage * (1 - clip)
		default:
			pull[c] = advantage * ratio
			value += pull[c]
		}
	}
	return value, pull
}

func softmax(logits [classes]float64) (p [classes]float64) {
	highest, sum := math.Inf(-1), 0.
	for _, x := range logits {
		highest = max(highest, x)
	}
	for c, x := range logits {
		p[c] = math.Exp(x - highest)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

func divergence(p, q [classes]float64) (kl float64) {
	for c := range p {
		kl += p[c] * math.Log(p[c]/q[c])
	}
	return kl
}

package sim

import "fmt"

// Behaviour is what a policy does, in rates over turns as the A/B metrics count them.
type Behaviour struct {
	// Delivery is the share of edit-request turns in which an edit is proposed.
	Delivery float64
	// Kept is the mean retention of a delivered edit, rejected and undecided ones counted as 0.
	Kept float64
	// Latency multiplies the base's median of a turn's summed step latencies.
	Latency float64
	// Questions is the share of edit-request turns that end with a question and no edit.
	Questions float64
	// Aborts is the share of turns that the user stops; in edit-request turns a sixth of them after an edit.
	Aborts float64
	// Malformed is the mean number of malformed tool calls per turn.
	Malformed float64
	// Tokens multiplies the base's generated tokens per step.
	Tokens float64
	// Skill multiplies the weight of the token classes that make an edit last, before normalisation.
	Skill float64
}

// Base is the behaviour of the policy that is live when the simulation starts.
func Base() Behaviour {
	return Behaviour{Delivery: .82, Kept: .72, Latency: 1, Questions: .10, Aborts: .06, Malformed: .02, Tokens: 1, Skill: 1}
}

// Candidate is the behaviour of a candidate of that kind.
func Candidate(kind Kind) (Behaviour, error) {
	base := Base()
	better := Behaviour{Delivery: .85, Kept: .76, Latency: .90, Questions: .075, Aborts: .045, Malformed: .01, Tokens: .95, Skill: 1.1}
	switch kind {
	case Better:
		return better, nil
	case Null:
		return base, nil
	case Worse:
		return base.minus(better), nil
	}
	return Behaviour{}, fmt.Errorf("sim: candidate kind %q is unknown; kinds are better, null and worse", kind)
}

// minus mirrors other's effects at b.
func (b Behaviour) minus(other Behaviour) Behaviour {
	mirror := func(mine, theirs float64) float64 { return 2*mine - theirs }
	return Behaviour{
		Delivery:  mirror(b.Delivery, other.Delivery),
		Kept:      mirror(b.Kept, other.Kept),
		Latency:   mirror(b.Latency, other.Latency),
		Questions: mirror(b.Questions, other.Questions),
		Aborts:    mirror(b.Aborts, other.Aborts),
		Malformed: mirror(b.Malformed, other.Malformed),
		Tokens:    mirror(b.Tokens, other.Tokens),
		Skill:     mirror(b.Skill, other.Skill),
	}
}

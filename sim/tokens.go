package sim

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// The simulated policies are softmax tables over 64 classes of tokens; a token's class is its id mod 64 and the
// rest of the id follows from its position. So the log-prob of a token is exactly that of its class, and a trainer
// can check that the behaviour it reads is the policy that it knows.
const (
	classes     = 64
	resolution  = 1024 // probabilities are whole numbers of 1/1024, so that ten random bits draw a class
	idsPerClass = 512
)

// skilled says of a class that its tokens make an edit last: a truth that a trainer can find.
func skilled(class int) bool { return class*7%classes < classes/4 }

// tokenPolicy draws tokens.
type tokenPolicy struct {
	class   [resolution]uint8
	logprob [classes]uint32 // float32 bits
	skill   float64         // the probability of a skilled class
}

// policy is the token policy of a behaviour.
func (s *Sim) policy(b Behaviour) *tokenPolicy {
	p, ok := s.policies[b]
	if !ok {
		p = newTokenPolicy(b.Skill)
		s.policies[b] = p
	}
	return p
}

func newTokenPolicy(skill float64) *tokenPolicy {
	weights, sum := [classes]float64{}, 0.
	for i := range weights {
		rank := float64(i * 37 % classes) // frequent and rare classes lie mixed
		weights[i] = math.Pow(rank+2, -1.1)
		if skilled(i) {
			weights[i] *= skill
		}
		sum += weights[i]
	}
	p := &tokenPolicy{}
	at, before := 0, 0.
	for i, w := range weights {
		before += w
		upTo := max(at+1, int(math.Round(before/sum*resolution)))
		upTo = min(upTo, resolution-(classes-1-i))
		if i == classes-1 {
			upTo = resolution
		}
		share := float64(upTo-at) / resolution
		p.logprob[i] = math.Float32bits(float32(math.Log(share)))
		if skilled(i) {
			p.skill += share
		}
		for ; at < upTo; at++ {
			p.class[at] = uint8(i)
		}
	}
	return p
}

// sample draws n tokens whose first stands at a position, and says how many are skilled.
func (p *tokenPolicy) sample(r *rand.Rand, position, n int) (ids, logprobs []byte, good int) {
	packed := make([]byte, 8*n)
	ids, logprobs = packed[:4*n:4*n], packed[4*n:]
	var bits uint64
	for i := range n {
		if i%6 == 0 {
			bits = r.Uint64()
		}
		class := p.class[bits%resolution]
		bits >>= 10
		binary.LittleEndian.PutUint32(ids[4*i:], tokenID(class, position+i))
		binary.LittleEndian.PutUint32(logprobs[4*i:], p.logprob[class])
		if skilled(int(class)) {
			good++
		}
	}
	return ids, logprobs, good
}

func tokenID(class uint8, position int) uint32 {
	rest := uint32(position) * 2654435761 >> 23 // nine bits: below idsPerClass
	return uint32(class) + classes*(rest%idsPerClass)
}

// prompt draws n tokens that no policy generated.
func prompt(r *rand.Rand, n int) []byte {
	ids := make([]byte, 4*n)
	var bits uint64
	for i := range n {
		if i%4 == 0 {
			bits = r.Uint64()
		}
		binary.LittleEndian.PutUint32(ids[4*i:], uint32(bits%(classes*idsPerClass)))
		bits >>= 16
	}
	return ids
}

// skillScore is how far the skilled tokens of a turn lie above what the policy draws on average, in standard
// deviations: 0 on average for every policy.
func (p *tokenPolicy) skillScore(good, n int) float64 {
	if n == 0 {
		return 0
	}
	return (float64(good) - float64(n)*p.skill) / math.Sqrt(float64(n)*p.skill*(1-p.skill))
}

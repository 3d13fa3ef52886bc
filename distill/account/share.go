package account

import (
	"cmp"
	"math"
	"slices"

	"millrace/schemas/ledger"
)

// Share is what part of the settled turns of one policy version and arm ended in one disposition.
type Share struct {
	PolicyVersion string             `json:"policy_version"`
	Arm           string             `json:"arm"` // "" outside of tests
	Disposition   ledger.Disposition `json:"disposition"`
	Turns         int64              `json:"turns"`
	Of            int64              `json:"of"`    // the settled turns of this version and arm
	Share         float64            `json:"share"` // 0…1
}

// Shares are those of every version, arm and disposition that has a turn, by version, arm and the order of
// ledger.Dispositions.
func (b Balance) Shares() []Share {
	type group struct{ version, arm string }
	of := map[group]int64{}
	for k, n := range b.Settled {
		of[group{k.PolicyVersion, k.Arm}] += n
	}
	out := make([]Share, 0, len(b.Settled))
	for k, n := range b.Settled {
		if n > 0 {
			total := of[group{k.PolicyVersion, k.Arm}]
			out = append(out, Share{k.PolicyVersion, k.Arm, k.Disposition, n, total, float64(n) / float64(total)})
		}
	}
	slices.SortFunc(out, func(x, y Share) int {
		return cmp.Or(cmp.Compare(x.PolicyVersion, y.PolicyVersion), cmp.Compare(x.Arm, y.Arm),
			cmp.Compare(slices.Index(ledger.Dispositions, x.Disposition), slices.Index(ledger.Dispositions, y.Disposition)))
	})
	return out
}

// Comparison is one disposition's share in the two arms of a test.
type Comparison struct {
	Disposition ledger.Disposition `json:"disposition"`
	Control     Share              `json:"control"`
	Candidate   Share              `json:"candidate"`
	Difference  float64            `json:"difference"` // candidate − control
	// Chance is the difference that equal arms would stay within 95 % of the time if turns were independent of one
	// another. Turns of one user aren't, so it is rather more.
	Chance float64 `json:"chance"`
}

// Compare sets one disposition's shares in the arms against each other; false while one of them has no settled turn.
func (b Balance) Compare(control, candidate string, d ledger.Disposition) (Comparison, bool) {
	c := Comparison{Disposition: d, Control: b.share(control, "control", d), Candidate: b.share(candidate, "candidate", d)}
	if c.Control.Of == 0 || c.Candidate.Of == 0 {
		return c, false
	}
	c.Difference = c.Candidate.Share - c.Control.Share
	// Agresti and Caffo: one success and one failure more in each arm keep the variance of rare things off zero.
	variance := func(s Share) float64 {
		n := float64(s.Of) + 2
		p := (float64(s.Turns) + 1) / n
		return p * (1 - p) / n
	}
	c.Chance = 1.96 * math.Sqrt(variance(c.Control)+variance(c.Candidate))
	return c, true
}

func (b Balance) share(version, arm string, d ledger.Disposition) Share {
	s := Share{PolicyVersion: version, Arm: arm, Disposition: d, Turns: b.Settled[Settled{version, arm, d}]}
	for k, n := range b.Settled {
		if k.PolicyVersion == version && k.Arm == arm {
			s.Of += n
		}
	}
	if s.Of > 0 {
		s.Share = float64(s.Turns) / float64(s.Of)
	}
	return s
}

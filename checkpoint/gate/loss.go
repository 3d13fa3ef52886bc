package gate

import (
	"math"

	"millrace/checkpoint/stats"
)

// splitPrior is the k of the sequential SRM test: a larger one looks for smaller mismatches, and needs more units.
func splitPrior(units int64) float64 {
	if units >= manyUnits {
		return 1000
	}
	return 100
}

func splitP(control, candidate float64) float64 {
	return stats.SequentialSRM([]float64{control, candidate}, []float64{.5, .5}, splitPrior(int64(control+candidate)))
}

// unitLoss is the smallest share of one arm's units whose loss the split shows at the end with the policy's power: with
// the split that is as lucky for the loss as the power allows, the alarm just goes off.
func unitLoss(p Policy, units int) float64 {
	n := float64(units)
	control := n/2 - stats.UpperPoint(1-p.Power)*math.Sqrt(n)/2
	low, high := 0., 1.
	for range 60 {
		loss := (low + high) / 2
		if splitP(control, (n-control)*(1-loss)) < p.Alphas.Split {
			high = loss
		} else {
			low = loss
		}
	}
	return high
}

// turnLoss is the smallest share of one arm's turns that has to lose records for the share of incomplete turns to lie
// surely beyond its tolerance, with the policy's power.
func turnLoss(p Policy, t Traffic) float64 {
	for _, s := range p.Shares {
		if s.Metric != "incomplete" {
			continue
		}
		base, _ := t.Base(s.Metric)
		perArm := t.turns(s.Metric) / 2
		factor := shareSequence(p).BothFactor(float64(t.Units)) + stats.UpperPoint(1-p.Power)
		loss := s.Tolerance
		for range 100 { // the standard error depends on the loss; the map contracts
			other := math.Min(1, base.Value+loss)
			variance := t.designEffect(s.Metric) * (base.Value*(1-base.Value) + other*(1-other)) / perArm
			loss = math.Min(1, s.Tolerance+factor*math.Sqrt(variance))
		}
		return loss
	}
	return 1
}

func shareSequence(p Policy) stats.Sequence {
	return stats.TwoSided(p.Alphas.Shares/float64(len(p.Shares)), float64(p.PlannedUnits))
}

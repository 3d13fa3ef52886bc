package gate

import (
	"math"

	"millrace/checkpoint/stats"
	"millrace/schemas/metric"
)

// A reading is a lift on the scale of its tests, benefit-signed, with the way back to what people read.
type reading struct {
	lift, se float64
	// benefit turns a value of the test's scale into a benefit-signed change; scale is its inverse.
	benefit, scale func(float64) float64
}

func (r reading) sound() bool {
	return !math.IsNaN(r.lift) && !math.IsInf(r.lift, 0) && !math.IsNaN(r.se) && !math.IsInf(r.se, 0)
}

func identity(x float64) float64 { return x }

// relative reads the candidate's relative change on the metric's scale.
func relative(d metric.Def, control, candidate stats.Ratio) reading {
	var l stats.Lift
	switch d.Scale {
	case metric.Log:
		l = stats.LogMeanLift(control, candidate)
	case metric.LogRatio:
		l = stats.LogRatioLift(stats.WithRareEvents(control, candidate))
	default:
		l = stats.RelativeLift(control, candidate)
	}
	r := reading{lift: sign(d) * l.Estimate, se: l.SE, benefit: identity, scale: identity}
	if d.Scale == metric.LogRatio {
		// exp(±x) − 1 is the change of the rate; its sign is turned where a lower rate is the benefit.
		// Beyond e⁵⁰ nothing is known anyway, and infinity has no JSON.
		r.benefit = func(x float64) float64 { return sign(d) * math.Expm1(sign(d)*min(max(x, -50), 50)) }
		r.scale = func(b float64) float64 { return sign(d) * math.Log1p(sign(d)*b) }
	}
	return r
}

// absolute reads the difference in the metric's own unit.
func absolute(d metric.Def, control, candidate stats.Ratio) reading {
	l := stats.AbsoluteLift(stats.WithRareEvents(control, candidate))
	return reading{lift: sign(d) * l.Estimate, se: l.SE, benefit: identity, scale: identity}
}

func sign(d metric.Def) float64 {
	if d.HigherIsBetter {
		return 1
	}
	return -1
}

func ratioOf(sums []BucketSum) (stats.Ratio, bool) {
	clusters := make([]stats.Cluster, len(sums))
	for i, b := range sums {
		clusters[i] = stats.Cluster{Num: float64(b.Num) / metric.Millionth, Den: float64(b.Den) / metric.Millionth}
	}
	return stats.RatioOf(clusters)
}

// events counts what the metric counts: numerator events, or values where the numerator is a sum of logarithms.
func events(d metric.Def, control, candidate stats.Ratio) float64 {
	if d.Scale == metric.Log {
		return control.Den + candidate.Den
	}
	return control.Num + candidate.Num
}

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
		l = stats.AbsoluteLift(control, candidate)
	case metric.LogRatio:
		l = stats.LogRatioLift(stats.WithRareEvents(control, candidate))
	default:
		l = stats.RelativeLift(control, candidate)
	}
	return reading{
		lift: sign(d) * l.Estimate, se: l.SE,
		benefit: func(x float64) float64 { return fromScale(d, x) },
		scale:   func(b float64) float64 { return onScale(d, b) },
	}
}

// absolute reads the difference in the metric's own unit.
func absolute(d metric.Def, control, candidate stats.Ratio) reading {
	l := stats.AbsoluteLift(stats.WithRareEvents(control, candidate))
	return reading{lift: sign(d) * l.Estimate, se: l.SE, benefit: identity, scale: identity}
}

// logarithmic metrics are tested as logarithms: exp of a bound is a bound, while the delta method's normal law of
// exp(difference) − 1 lets 5.3 % of candidates at a margin of 2 % pass instead of 5 %.
func logarithmic(d metric.Def) bool { return d.Scale != metric.Relative }

// onScale turns a benefit-signed relative change into the scale of the tests: that of a logarithm for most.
func onScale(d metric.Def, benefit float64) float64 {
	if logarithmic(d) {
		return sign(d) * math.Log1p(sign(d)*benefit)
	}
	return benefit
}

// fromScale is its inverse.
func fromScale(d metric.Def, x float64) float64 {
	if logarithmic(d) {
		// Beyond e⁵⁰ nothing is known anyway, and infinity has no JSON.
		return sign(d) * math.Expm1(sign(d)*min(max(x, -50), 50))
	}
	return x
}

func sign(d metric.Def) float64 {
	if d.HigherIsBetter {
		return 1
	}
	return -1
}

// events counts what the metric counts: numerator events, or values where the numerator is a sum of logarithms.
func events(d metric.Def, control, candidate stats.Ratio) float64 {
	if d.Scale == metric.Log {
		return control.Den + candidate.Den
	}
	return control.Num + candidate.Num
}

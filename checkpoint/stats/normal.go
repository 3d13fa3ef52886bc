package stats

import "math"

// UpperTail is P(Z > x). It comes from Erfc, not from 1 − CDF, which is 0 from x = 8.3 on.
func UpperTail(x float64) float64 { return .5 * math.Erfc(x/math.Sqrt2) }

// TwoSidedP is P(|Z| > |z|).
func TwoSidedP(z float64) float64 { return math.Erfc(math.Abs(z) / math.Sqrt2) }

// UpperPoint is z_q, the x with P(Z > x) = q; +Inf at 0, −Inf at 1. A rational start (Abramowitz and Stegun
// 26.2.23, error below 4.5e-4) and three Halley steps on the tail itself hold full precision down to 1e-300.
func UpperPoint(q float64) float64 {
	switch {
	case math.IsNaN(q) || q < 0 || q > 1:
		return math.NaN()
	case q == 0:
		return math.Inf(1)
	case q == 1:
		return math.Inf(-1)
	case q > .5:
		return -UpperPoint(1 - q)
	}
	t := math.Sqrt(-2 * math.Log(q))
	x := t - (2.515517+t*(.802853+t*.010328))/(1+t*(1.432788+t*(.189269+t*.001308)))
	for range 3 {
		step := (UpperTail(x) - q) / density(x)
		x += step / (1 - x*step/2)
	}
	return x
}

func density(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// ChiSquareSRM is Pearson's p value of a sample ratio mismatch: counts against weights. Arms without weight are
// left out; 1 when nothing can be compared. It may be read once.
func ChiSquareSRM(counts, weights []float64) float64 {
	var total, weight float64
	arms := 0
	for i, w := range weights {
		if w > 0 && i < len(counts) {
			total += counts[i]
			weight += w
			arms++
		}
	}
	if arms < 2 || total == 0 {
		return 1
	}
	var chi2 float64
	for i, w := range weights {
		if w > 0 && i < len(counts) {
			want := total * w / weight
			chi2 += (counts[i] - want) * (counts[i] - want) / want
		}
	}
	return distuv.ChiSquared{K: float64(arms - 1)}.Survival(chi2)
}

// SequentialSRM is the p value of a sample ratio mismatch that may be read at every moment:
// min(1, Π θ₀^c · B(a₀)/B(a₀ + c)) with a₀ = k·θ₀, the multinomial's Dirichlet mixture (Lindon and Malek, arXiv
// 2011.03567). The shares theta add up to 1; a larger k looks for smaller mismatches.
func SequentialSRM(counts, theta []float64, k float64) float64 {
	var n, logP float64
	for i, c := range counts {
		a := k * theta[i]
		logP += c*math.Log(theta[i]) + logGamma(a) - logGamma(a+c)
		n += c
	}
	return math.Min(1, math.Exp(logP-logGamma(k)+logGamma(k+n)))
}

func logGamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

package stats

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Welch is a t test of two arms of independent units that is read once.
type Welch struct {
	Lift
	law distuv.StudentsT
}

// NewWelch gives the lift the degrees of freedom of Welch and Satterthwaite, from the arms' own variances.
func NewWelch(l Lift, control, candidate Ratio) Welch {
	sum := control.Var + candidate.Var
	df := sum * sum / (control.Var*control.Var/float64(control.Clusters-1) + candidate.Var*candidate.Var/float64(candidate.Clusters-1))
	return Welch{Lift: l, law: distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}}
}

// P is the two-sided p value of "no lift".
func (w Welch) P() float64 { return 2 * w.law.CDF(-math.Abs(w.Estimate/w.SE)) }

// UpperP is the one-sided p value of "not above 0".
func (w Welch) UpperP() float64 { return w.law.CDF(-w.Estimate / w.SE) }

// HalfWidth is how far the interval with alpha in each tail reaches.
func (w Welch) HalfWidth(alpha float64) float64 { return -w.law.Quantile(alpha) * w.SE }

// TwoProportionZ is the pooled z of x1/n1 − x2/n2.
func TwoProportionZ(x1, n1, x2, n2 float64) float64 {
	pooled := (x1 + x2) / (n1 + n2)
	return (x1/n1 - x2/n2) / math.Sqrt(pooled*(1-pooled)*(1/n1+1/n2))
}

// AgrestiCaffo adds a success and a failure to each arm before the difference is taken: an interval for small
// counts (Agresti and Caffo, The American Statistician 2000).
func AgrestiCaffo(x1, n1, x2, n2 float64) Lift {
	return AbsoluteLift(Proportion(n2+2, x2+1), Proportion(n1+2, x1+1))
}

// NonInferiorityZ is by how many standard errors the benefit lies above −margin.
func NonInferiorityZ(benefit Lift, margin float64) float64 {
	return (benefit.Estimate + margin) / benefit.SE
}

// Holm adjusts p values for their number, step down (Holm, Scandinavian Journal of Statistics 1979).
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return p[order[i]] < p[order[j]] })
	adjusted := make([]float64, len(p))
	var highest float64
	for rank, i := range order {
		highest = math.Max(highest, math.Min(1, p[i]*float64(len(p)-rank)))
		adjusted[i] = highest
	}
	return adjusted
}

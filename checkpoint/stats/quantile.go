package stats

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// Percentile is the p-th percentile, 0 … 100, with linear interpolation between order statistics (type 7 of Hyndman and
// Fan, The American Statistician 1996).
func Percentile(x []float64, p float64) float64 {
	x = slices.Clone(x)
	sort.Float64s(x)
	at := p / 100 * float64(len(x)-1)
	low := int(at)
	if low+1 >= len(x) {
		return x[len(x)-1]
	}
	return x[low] + (at-float64(low))*(x[low+1]-x[low])
}

// Woodruff is the nu-quantile of clustered values and its interval with alpha in each tail: the share of values up to
// the quantile is a ratio over clusters, and its interval is read back through the values (Woodruff, JASA 1952; over
// clusters: Deng, Knoblich, Lu, KDD 2018).
func Woodruff(clusters [][]float64, nu, alpha float64) (q, low, high float64) {
	all := slices.Concat(clusters...)
	sort.Float64s(all)
	n := float64(len(all))
	at := func(share float64) float64 {
		return all[min(max(int(math.Ceil(n*share-1e-9)), 1), len(all))-1]
	}
	q = at(nu)
	below := make([]Cluster, len(clusters))
	for i, values := range clusters {
		for _, v := range values {
			below[i].Den++
			if v <= q {
				below[i].Num++
			}
		}
	}
	r, _ := RatioOf(below)
	half := UpperPoint(alpha) * math.Sqrt(r.Var)
	return q, at(nu - half), at(nu + half)
}

// QuantileRatio is an arm's quantile of n values with the variance that its 95 % interval implies. The interval was
// read from the first of these values, so its square goes with their share (GrowthBook's clustered quantile statistic).
func QuantileRatio(q, low, high, n, first float64) Ratio {
	sd := (high - low) / (2 * UpperPoint(.025))
	return Ratio{Value: q, Var: first / n * (n - 1) * sd * sd / n, Clusters: int(n)}
}

// EmpiricalProcess bounds an empirical distribution function against the true one uniformly over values and times from
// tMin on: A·√((ln(1 + ln(t/tMin)) + C)/t), C the least that keeps the error alpha (Howard and Ramdas, Bernoulli 2022,
// theorem 2).
func EmpiricalProcess(t, alpha, tMin, a float64) float64 {
	low, high := 1e-9, 1.
	for lilError(high, a) > alpha {
		high *= 2
	}
	for range 100 {
		if mid := (low + high) / 2; lilError(mid, a) > alpha {
			low = mid
		} else {
			high = mid
		}
	}
	return a * math.Sqrt((math.Log1p(math.Log(t/tMin))+high)/t)
}

// lilError is the theorem's error for the best spacing of epochs.
func lilError(c, a float64) float64 {
	bound := func(eta float64) float64 {
		root := a - math.Sqrt(2*(eta-1)/c)
		gamma := 2 / eta * root * root
		if root <= 0 || gamma <= 1 {
			return math.Inf(1)
		}
		return 4 * math.Exp(-gamma*c) * (1 + 1/((gamma-1)*math.Log(eta)))
	}
	best, at := math.Inf(1), 1.
	// From a grid to the valley, then by thirds: the error is infinite around it.
	const steps = 2000
	width := (2*a*a - 1) / steps
	for i := 1; i < steps; i++ {
		if eta := 1 + float64(i)*width; bound(eta) < best {
			best, at = bound(eta), eta
		}
	}
	low, high := math.Max(1+1e-12, at-width), at+width
	for range 100 {
		left, right := low+(high-low)/3, high-(high-low)/3
		if bound(left) < bound(right) {
			high = right
		} else {
			low = left
		}
	}
	return math.Min(best, bound((low+high)/2))
}

// DoubleStitching is how many values around the p-quantile's place the sequence uniform over quantiles and times spans
// at time t, tuned to tOpt (theorem 3 of the same).
func DoubleStitching(p, t, alpha, tOpt float64) float64 {
	const delta = .5 // the fineness of the grid of quantiles
	t = math.Max(t, tOpt)
	logit := math.Log(p / (1 - p))
	r := p
	if p < .5 {
		r = math.Min(.5, 1/(1+math.Exp(-logit-2*delta*math.Sqrt(tOpt*stitchEta/t))))
	}
	variance := r * (1 - r)
	j := math.Sqrt(t/tOpt)*math.Abs(logit)/(2*delta) + 1
	zeta := mathext.Zeta(stitchS, 1)
	ell := stitchS*math.Log(math.Log(stitchEta*t/tOpt)) + stitchS*math.Log(j) +
		math.Log(2*zeta*(2*zeta+1)/(alpha*math.Pow(math.Ln2, stitchS)))
	scale := stitchK2 * (1 - 2*p) / 3 * ell
	return delta*math.Sqrt(stitchEta*t*variance/tOpt) + math.Sqrt(stitchK1*stitchK1*variance*t*ell+scale*scale) + scale
}

// QuantileP is the always-valid p value of "both samples have the same p-quantile": the least over all values of it of
// both samples' beta-binomial mixtures (theorem 5 of the same). Both samples are sorted.
func QuantileP(a, b []float64, p, tOpt, alphaOpt float64) float64 {
	m := TwoSidedBetaBinomial(tOpt*p*(1-p), alphaOpt, p, 1-p)
	ofA, ofB := m.against(a, p), m.against(b, p)
	least := math.Inf(1)
	for _, x := range slices.Concat(a, b) {
		least = math.Min(least, ofA(x)+ofB(x))
	}
	return math.Min(1, math.Exp(-least))
}

// against is how much a sample speaks against x as its p-quantile: the mixture at the share below x that it grants most,
// from the values below x to those up to x. The mixture is convex in the share.
func (m BetaBinomial) against(sample []float64, p float64) func(x float64) float64 {
	n := float64(len(sample))
	log := func(share float64) float64 { return m.Log((share-p)*n, p*(1-p)*n) }
	low, high := 0., 1.
	for range 100 {
		left, right := low+(high-low)/3, high-(high-low)/3
		if log(left) < log(right) {
			high = right
		} else {
			low = left
		}
	}
	best := (low + high) / 2
	return func(x float64) float64 {
		below := float64(sort.SearchFloat64s(sample, x)) / n
		upTo := float64(sort.Search(len(sample), func(i int) bool { return sample[i] > x })) / n
		return log(min(max(best, below), upTo))
	}
}

package stats

// Cluster is what one cluster of whole units adds to a metric: a unit, or a bucket of units.
type Cluster struct{ Num, Den float64 }

// Ratio is an arm's estimate of a metric: Σ Num / Σ Den, with the variance of that estimate.
type Ratio struct {
	Value, Var float64
	Num, Den   float64 // the sums
	Clusters   int     // with a denominator
}

// RatioOf estimates Σ Num / Σ Den over the clusters that have a denominator. Its variance is
// Σ (num − r·den)² / ((K−1)·K·mean(den)²): the delta method of Deng, Knoblich and Lu (KDD 2018), which is the
// cluster-robust variance (Deng, Lu, Qin, arXiv 2105.14705). It is false below two clusters: there is no
// variance to state then.
func RatioOf(clusters []Cluster) (Ratio, bool) {
	var r Ratio
	for _, c := range clusters {
		if c.Den > 0 {
			r.Num += c.Num
			r.Den += c.Den
			r.Clusters++
		}
	}
	if r.Clusters < 2 {
		return r, false
	}
	r.Value = r.Num / r.Den
	var squares float64
	for _, c := range clusters {
		if c.Den > 0 {
			// The conversion keeps the product from being fused with the difference, so that every
			// machine rounds alike.
			d := c.Num - float64(r.Value*c.Den)
			squares += float64(d * d)
		}
	}
	k := float64(r.Clusters)
	r.Var = squares * k / ((k - 1) * r.Den * r.Den)
	return r, true
}

// heavy is the share of an arm's denominator from which on a cluster drags the ratio after itself.
const heavy = .05

// Guarded widens the variance of RatioOf where single clusters are heavy: such a one pulls the ratio towards itself, so
// that its distance from it says too little. It is measured from the ratio of all others instead, which divides it by
// 1 − its share (the jackknife's residual: HC3 of MacKinnon and White, Journal of Econometrics 1985). Without a heavy
// cluster nothing changes.
func (r Ratio) Guarded(clusters []Cluster) Ratio {
	var more float64
	for _, c := range clusters {
		share := c.Den / r.Den
		if share <= heavy || share >= 1 {
			continue
		}
		d := (c.Num - float64(r.Value*c.Den)) / (1 - share)
		more += float64(d*d) * (1 - (1-share)*(1-share))
	}
	k := float64(r.Clusters)
	if more > 0 && k > 1 {
		r.Var += more * k / ((k - 1) * r.Den * r.Den)
	}
	return r
}

// Moments are the sums of a sample of units: of numerators S, denominators M, their squares and products.
type Moments struct{ N, S, SS, M, MM, SM float64 }

// Ratio is the estimate and variance of RatioOf from moments (K−1 in the moments; GrowthBook's
// variance_of_ratios). It is false where the variance isn't a positive number: such sums belong to no sample.
func (m Moments) Ratio() (Ratio, bool) {
	r := Ratio{Value: m.S / m.M, Num: m.S, Den: m.M, Clusters: int(m.N)}
	vs := (m.SS - m.S*m.S/m.N) / (m.N - 1)
	vm := (m.MM - m.M*m.M/m.N) / (m.N - 1)
	cov := (m.SM - m.S*m.M/m.N) / (m.N - 1)
	mean := m.M / m.N
	r.Var = (vs - 2*r.Value*cov + r.Value*r.Value*vm) / (m.N * mean * mean)
	return r, vm >= 0 && vs >= 0 && r.Var > 0
}

// Mean is the sample mean and its variance (n−1).
func Mean(n, sum, sumSquares float64) Ratio {
	return Ratio{Value: sum / n, Var: (sumSquares - sum*sum/n) / (n - 1) / n, Num: sum, Den: n, Clusters: int(n)}
}

// Proportion is x of n and its variance p(1−p)/n.
func Proportion(n, x float64) Ratio {
	p := x / n
	return Ratio{Value: p, Var: p * (1 - p) / n, Num: x, Den: n, Clusters: int(n)}
}

package stats

import "math"

// Paired are the sums of a sample of units that each have a value now and one from before the test.
type Paired struct{ N, Post, PostSquares, Pre, PreSquares, Cross float64 }

// Plus pools two samples.
func (p Paired) Plus(q Paired) Paired {
	return Paired{p.N + q.N, p.Post + q.Post, p.PostSquares + q.PostSquares, p.Pre + q.Pre, p.PreSquares + q.PreSquares, p.Cross + q.Cross}
}

// Covariances are the sample's variances and covariance (n−1).
func (p Paired) Covariances() (post, pre, cross float64) {
	return (p.PostSquares - p.Post*p.Post/p.N) / (p.N - 1),
		(p.PreSquares - p.Pre*p.Pre/p.N) / (p.N - 1),
		(p.Cross - p.Post*p.Pre/p.N) / (p.N - 1)
}

// Theta is how much of the value before is taken off the value now: cov(post, pre)/var(pre) over both arms (CUPED:
// Deng, Xu, Kohavi, Walker, WSDM 2013).
func Theta(pooled Paired) float64 {
	_, pre, cross := pooled.Covariances()
	return cross / pre
}

// AdjustedLift is the relative lift of means adjusted by theta, relative to the control's mean as it is, with the
// adjusted arms for a Welch test. The gradient in the control's mean leaves out theta times the arms' difference
// before, which vanishes with the sample (GrowthBook's form).
func AdjustedLift(control, candidate Paired, theta float64) (l Lift, c, t Ratio) {
	mc, mt := control.Post/control.N, candidate.Post/candidate.N
	difference := mt - mc - theta*(candidate.Pre/candidate.N-control.Pre/control.N)
	vc, pc, cc := control.Covariances()
	vt, pt, ct := candidate.Covariances()
	adjusted := func(v, p, c, n float64) float64 { return (v + theta*theta*p - 2*theta*c) / n }
	ofControl := (mt*mt*vc/(mc*mc) + theta*theta*pc - 2*theta*mt/mc*cc) / (mc * mc * control.N)
	l = Lift{Estimate: difference / math.Abs(mc), SE: math.Sqrt(ofControl + adjusted(vt, pt, ct, candidate.N)/(mc*mc))}
	return l, Ratio{Value: mc, Var: adjusted(vc, pc, cc, control.N), Clusters: int(control.N)}, Ratio{Value: mt, Var: adjusted(vt, pt, ct, candidate.N), Clusters: int(candidate.N)}
}

// PairedCluster is a cluster's sums in the test and before it.
type PairedCluster struct{ Post, Pre Cluster }

// AdjustedRatioLift is the relative lift of ratios, each less theta times the same ratio before, relative to the
// control's ratio as it is; the whole gradient is taken through the arms' sums (delta method).
func AdjustedRatioLift(control, candidate []PairedCluster, theta float64) Lift {
	c, t := sumPairs(control), sumPairs(candidate)
	rc, rt, bc, bt := c.Post.Num/c.Post.Den, t.Post.Num/t.Post.Den, c.Pre.Num/c.Pre.Den, t.Pre.Num/t.Pre.Den
	estimate := (rt - rc - theta*(bt-bc)) / math.Abs(rc)
	// The derivatives by the four ratios; a ratio's own error is Σ(num − r·den)/Σden.
	byControl := -(rt - theta*(bt-bc)) / (rc * math.Abs(rc))
	variance := linear(control, c, rc, bc, byControl, theta/math.Abs(rc)) + linear(candidate, t, rt, bt, 1/math.Abs(rc), -theta/math.Abs(rc))
	return Lift{Estimate: estimate, SE: math.Sqrt(variance)}
}

func sumPairs(clusters []PairedCluster) (sum PairedCluster) {
	for _, c := range clusters {
		sum.Post.Num += c.Post.Num
		sum.Post.Den += c.Post.Den
		sum.Pre.Num += c.Pre.Num
		sum.Pre.Den += c.Pre.Den
	}
	return sum
}

// linear is the variance of a sum of independent clusters' influences (n−1).
func linear(clusters []PairedCluster, sum PairedCluster, post, pre, byPost, byPre float64) float64 {
	var squares float64
	for _, c := range clusters {
		influence := byPost*(c.Post.Num-post*c.Post.Den)/sum.Post.Den + byPre*(c.Pre.Num-pre*c.Pre.Den)/sum.Pre.Den
		squares += influence * influence
	}
	n := float64(len(clusters))
	return squares * n / (n - 1)
}

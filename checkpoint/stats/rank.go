package stats

import (
	"math"
	"slices"
	"sort"
)

// RankSum compares two samples by their ranks (Mann and Whitney, Annals of Mathematical Statistics 1947). Its points are
// taken for independent and it may be read once, so nothing of the gate rests on it.
type RankSum struct {
	U     float64 // pairs in which x is the larger one, a tie counting half
	Pairs float64
	sigma float64 // of U, corrected for ties; 0 when everything is tied
}

// NewRankSum ranks x among x and y together, the ties at their average.
func NewRankSum(x, y []float64) RankSum {
	type value struct {
		v   float64
		ofX bool
	}
	all := make([]value, 0, len(x)+len(y))
	for _, v := range x {
		all = append(all, value{v, true})
	}
	for _, v := range y {
		all = append(all, value{v, false})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].v < all[j].v })
	n, m := float64(len(x)), float64(len(y))
	var ranks, ties float64
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		rank := float64(i+1+j) / 2
		for _, v := range all[i:j] {
			if v.ofX {
				ranks += rank
			}
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	r := RankSum{U: ranks - n*(n+1)/2, Pairs: n * m}
	r.sigma = math.Sqrt(n * m / 12 * (n + m + 1 - ties/((n+m)*(n+m-1))))
	return r
}

// Z is by how many standard deviations U lies off its mean, half a pair nearer for continuity.
func (r RankSum) Z() float64 {
	d := r.U - r.Pairs/2
	switch {
	case d > 0:
		d -= .5
	case d < 0:
		d += .5
	}
	return d / r.sigma
}

// LessP is the one-sided p value of "x isn't smaller", by the normal law with half a pair for continuity.
func (r RankSum) LessP() float64 { return UpperTail(-(r.U - r.Pairs/2 + .5) / r.sigma) }

// ExactLessP is P(U ≤ u) for samples of n and m values without ties, by counting the orders.
func ExactLessP(u float64, n, m int) float64 {
	ways := rankWays(n, m)
	var all, below float64
	for i, w := range ways {
		all += w
		if float64(i) <= u {
			below += w
		}
	}
	return below / all
}

// rankWays counts by U the orders of n and m values: the largest is of the first sample, and stands above all of the
// other that are there, or of the second.
func rankWays(n, m int) []float64 {
	rows := make([][]float64, n+1) // by the size of the first sample, for the second's size so far
	for j := range m + 1 {
		for i := range n + 1 {
			if i == 0 || j == 0 {
				rows[i] = []float64{1}
				continue
			}
			ways := make([]float64, i*j+1)
			for u, w := range rows[i-1] {
				ways[u+j] += w
			}
			for u, w := range rows[i] {
				ways[u] += w
			}
			rows[i] = ways
		}
	}
	return rows[n]
}

// Shift is the shift of x against y with its interval, alpha in each tail: where Z of the shifted samples crosses 0 and
// the normal points (as wilcox.test of R does without exact p values).
func Shift(x, y []float64, alpha float64) (estimate, low, high float64) {
	low, high = ShiftRange(x, y)
	root := func(z float64) float64 {
		a, b := low, high
		if ShiftedZ(x, y, a)-z <= 0 {
			return a
		}
		if ShiftedZ(x, y, b)-z >= 0 {
			return b
		}
		for range 100 {
			if mid := (a + b) / 2; ShiftedZ(x, y, mid)-z > 0 {
				a = mid
			} else {
				b = mid
			}
		}
		return (a + b) / 2
	}
	// Where Z is 0 over a stretch of shifts, the estimate is its middle.
	estimate = (root(math.SmallestNonzeroFloat64) + root(-math.SmallestNonzeroFloat64)) / 2
	return estimate, root(UpperPoint(alpha)), root(-UpperPoint(alpha))
}

// ShiftRange is from which to which shift the samples overlap at all.
func ShiftRange(x, y []float64) (low, high float64) {
	return slices.Min(x) - slices.Max(y), slices.Max(x) - slices.Min(y)
}

// ShiftedZ is Z of x less the shift against y.
func ShiftedZ(x, y []float64, shift float64) float64 {
	moved := make([]float64, len(x))
	for i, v := range x {
		moved[i] = v - shift
	}
	return NewRankSum(moved, y).Z()
}

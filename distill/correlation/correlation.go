package correlation

import (
	"cmp"
	"math"
	"slices"
)

// leastPairs is the number below which a correlation is no statement: of two pairs it is always −1 or 1.
const leastPairs = 3

// Pearson is the linear correlation of two equally long series; nil if there are too few, or one of them doesn't vary.
func Pearson(x, y []float64) *float64 {
	if len(x) < leastPairs {
		return nil
	}
	mx, my := mean(x), mean(y)
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	if xx == 0 || yy == 0 {
		return nil
	}
	r := max(-1, min(1, xy/math.Sqrt(xx*yy)))
	return &r
}

// Spearman is the correlation of the values' places in their order; equal values share the mean of their places.
func Spearman(x, y []float64) *float64 { return Pearson(ranks(x), ranks(y)) }

// ranks are the places of the values in their order, from 1; equal ones share the mean of their places.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	out := make([]float64, len(x))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && x[order[to]] == x[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+to+1) / 2
		}
		from = to
	}
	return out
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

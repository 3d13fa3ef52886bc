package gate

import (
	"millrace/checkpoint/stats"
	"millrace/schemas/metric"
)

// Estimates are each metric's ratio in both arms: all that the tests read of the sums.
type Estimates map[string]ArmRatios

// ArmRatios are a metric's estimate in each arm. One with fewer than two clusters has no variance and tests nothing.
type ArmRatios struct{ Control, Candidate stats.Ratio }

// measured reports whether both arms have a variance.
func (r ArmRatios) measured() bool { return r.Control.Clusters >= 2 && r.Candidate.Clusters >= 2 }

// Estimate reads the sums once.
func (e Evidence) Estimate() Estimates {
	out := make(Estimates, len(e.Metrics))
	for name, sums := range e.Metrics {
		out[name] = ArmRatios{Control: ratioOf(byBucket(sums.Control)), Candidate: ratioOf(byBucket(sums.Candidate))}
	}
	return out
}

func ratioOf(sums []BucketSum) stats.Ratio {
	clusters := make([]stats.Cluster, len(sums))
	for i, b := range sums {
		clusters[i] = stats.Cluster{Num: float64(b.Num) / metric.Millionth, Den: float64(b.Den) / metric.Millionth}
	}
	r, _ := stats.RatioOf(clusters)
	return r.Guarded(clusters)
}

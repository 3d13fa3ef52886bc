package simulation

import (
	"millrace/checkpoint/gate"
	"millrace/checkpoint/stats"
	"millrace/internal/unithash"
	"millrace/schemas/metric"
)

// sums collect an experiment's contributions as distill does, in whole millionths by metric, arm and bucket. Beside
// them stand their moments, so that a look every minute needs no pass over the buckets.
type sums [][2]armSums

type armSums struct {
	buckets [unithash.SumBuckets]gate.BucketSum
	moments stats.Moments
}

func newSums() sums { return make(sums, len(metric.All)) }

func (s sums) clear() {
	clear(s)
}

// add takes one unit's part: of a metric by its place in the registry.
func (s sums) add(m, arm, bucket int, num, den float64) {
	a := &s[m][arm]
	b := &a.buckets[bucket]
	before := stats.Cluster{Num: float64(b.Num) / metric.Millionth, Den: float64(b.Den) / metric.Millionth}
	b.Num += int64(num * metric.Millionth)
	b.Den += int64(den * metric.Millionth)
	after := stats.Cluster{Num: float64(b.Num) / metric.Millionth, Den: float64(b.Den) / metric.Millionth}
	if before.Den == 0 {
		a.moments.N++
	}
	a.moments.S += after.Num - before.Num
	a.moments.M += after.Den - before.Den
	a.moments.SS += after.Num*after.Num - before.Num*before.Num
	a.moments.MM += after.Den*after.Den - before.Den*before.Den
	a.moments.SM += after.Num*after.Den - before.Num*before.Den
}

// estimates are what Evidence.Estimate would read of the buckets, but for the rounding.
func (s sums) estimates(into gate.Estimates) {
	for m, d := range metric.All {
		into[d.Name] = gate.ArmRatios{Control: s[m][0].ratio(), Candidate: s[m][1].ratio()}
	}
}

func (a *armSums) ratio() stats.Ratio {
	if a.moments.N < 2 {
		return stats.Ratio{Num: a.moments.S, Den: a.moments.M, Clusters: int(a.moments.N)}
	}
	r, _ := a.moments.Ratio()
	r.Var = max(r.Var, 0) // without a variance the rounding may leave less than none
	return r
}

// metrics are the sums as evidence carries them.
func (s sums) metrics() map[string]gate.ArmSums {
	out := make(map[string]gate.ArmSums, len(metric.All))
	for m, d := range metric.All {
		out[d.Name] = gate.ArmSums{Control: s[m][0].filled(), Candidate: s[m][1].filled()}
	}
	return out
}

func (a *armSums) filled() []gate.BucketSum {
	out := make([]gate.BucketSum, 0, int(a.moments.N))
	for bucket, b := range a.buckets {
		if b.Den > 0 {
			b.Bucket = bucket
			out = append(out, b)
		}
	}
	return out
}

package gate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// filled is a test at its end with so many turns behind it, in all 4,096 buckets of every metric and arm.
func filled(turns int64) Evidence {
	r := rand.New(rand.NewPCG(1, uint64(turns)))
	e := clean()
	const buckets = 4096
	e.Metrics = map[string]ArmSums{}
	for _, d := range metric.All {
		var arms [2][]BucketSum
		for arm := range arms {
			sums := make([]BucketSum, buckets)
			for i := range sums {
				den := (turns/2/buckets + 1) * metric.Millionth
				sums[i] = BucketSum{Bucket: i, Num: int64(float64(den) * (.1 + .02*r.Float64())), Den: den}
			}
			arms[arm] = sums
		}
		e.Metrics[d.Name] = ArmSums{Control: arms[0], Candidate: arms[1]}
	}
	units := turns / 8
	e.ExposedUnits, e.UnitsWithTelemetry = Arms{units, units}, &Arms{units, units}
	return e
}

// What a verdict costs doesn't grow with the turns behind it: docs/gate.md has the figures.
func BenchmarkEvaluate(b *testing.B) {
	for _, turns := range []int64{100_000, 10_000_000, 100_000_000, 10_000_000_000} {
		b.Run(fmt.Sprintf("turns=%.0e", float64(turns)), func(b *testing.B) {
			p, e := gatepolicy.Default(), filled(turns)
			for b.Loop() {
				Evaluate(p, e)
			}
		})
	}
}

// Glance is what a simulation pays for a look.
func BenchmarkGlance(b *testing.B) {
	p, e := gatepolicy.Default(), filled(100_000)
	estimates := e.Estimate()
	for b.Loop() {
		Glance(p, e, estimates)
	}
}

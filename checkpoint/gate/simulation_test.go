package gate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// behaviour is what a checkpoint does to a turn; the numbers are those of the demo.
type behaviour struct {
	delivered, kept, latency, questions, aborts, malformed, tokens float64
}

var (
	control = behaviour{delivered: .82, kept: .72, latency: 1, questions: .10, aborts: .06, malformed: .02, tokens: 1}
	better  = behaviour{delivered: .85, kept: .76, latency: .90, questions: .075, aborts: .045, malformed: .01, tokens: .95}
	worse   = behaviour{delivered: .78, kept: .66, latency: 1.10, questions: .13, aborts: .08, malformed: .05, tokens: 1.05}
)

const (
	demoUnits        = 4000
	demoTurnsPerUnit = 4
	latencySD        = .9
	demoLooks        = 4 // of the continuous watch, the last one at the end
)

var start = time.Date(2026, 1, 5, 1, 15, 0, 0, time.UTC)

// sums collects in whole numbers, as distill does: by metric in the registry's order, arm and bucket.
type sums [][2][4096]BucketSum

func newSums() sums { return make(sums, len(metric.All)) }

// tally is one unit's part between two looks, by metric.
type tally [16]struct{ num, den float64 }

func (s sums) add(arm, bucket int, t *tally) {
	for m := range s {
		b := &s[m][arm][bucket]
		b.Num += int64(t[m].num * metric.Millionth)
		b.Den += int64(t[m].den * metric.Millionth)
	}
}

func (s sums) metrics() map[string]ArmSums {
	out := map[string]ArmSums{}
	for m, d := range metric.All {
		var filled [2][]BucketSum
		for arm := range filled {
			filled[arm] = make([]BucketSum, 0, 4096)
			for bucket, b := range s[m][arm] {
				if b.Den > 0 {
					b.Bucket = bucket
					filled[arm] = append(filled[arm], b)
				}
			}
		}
		out[d.Name] = ArmSums{Control: filled[0], Candidate: filled[1]}
	}
	return out
}

// play runs a test of the demo's size and looks at it several times, the last time at the declared end; it
// returns the first final verdict.
func play(r *rand.Rand, p Policy, units, looks int, candidate behaviour) (Verdict, Evidence) {
	countsUntil, end := p.Window(start)
	e := Evidence{Experiment: "exp", Control: "base", Candidate: "cand", StartsAt: start, CountsUntil: countsUntil, EndsAt: end}
	type unit struct {
		arm, bucket int
		quiet       float64 // the probability of no turn between two looks
		seen        bool
	}
	all := make([]unit, units)
	for i := range all {
		activity := (r.ExpFloat64() + r.ExpFloat64()) / 2 // gamma of shape 2, mean 1
		all[i] = unit{arm: i % 2, bucket: r.IntN(4096), quiet: math.Exp(-demoTurnsPerUnit * activity / float64(looks))}
	}
	s := newSums()
	var exposed, settled Arms
	for look := 1; look <= looks; look++ {
		for i := range all {
			u := &all[i]
			turns := poisson(r, u.quiet)
			if turns == 0 {
				continue
			}
			if !u.seen {
				u.seen = true
				if u.arm == 0 {
					exposed.Control++
				} else {
					exposed.Candidate++
				}
			}
			b := control
			if u.arm == 1 {
				b = candidate
			}
			var unit tally
			for range turns {
				turn(r, &unit, b)
			}
			s.add(u.arm, u.bucket, &unit)
		}
		settled = exposed
		e.CommittedThrough = start.Add(end.Sub(start) * time.Duration(look) / time.Duration(looks))
		e.Now = e.CommittedThrough.Add(time.Second)
		e.Metrics = s.metrics()
		e.ExposedUnits, e.UnitsWithTelemetry = exposed, &settled
		if look == looks {
			e.StillOpen = &Arms{Control: 12, Candidate: 11}
		}
		if v := Evaluate(p, e); v.Decision.Final() {
			return v, e
		}
	}
	panic("the end is final")
}

// turn draws one turn, in the registry's order of metrics.
func turn(r *rand.Rand, t *tally, b behaviour) {
	hit := func(p float64) float64 {
		if r.Float64() < p {
			return 1
		}
		return 0
	}
	delivered := hit(b.delivered)
	for m, num := range [...]float64{
		delivered * hit(b.kept),
		hit(.12), // dissatisfied
		math.Log(20*b.latency) + latencySD*r.NormFloat64(),
		hit(.05 * b.latency), // slow
		hit(b.malformed),
		hit(b.questions),
		hit(b.aborts),
		delivered,
		800 * b.tokens * r.ExpFloat64(),
		hit(.004), // incomplete
		hit(.01),  // faulted
		hit(.05),  // censored
	} {
		t[m].num += num
		t[m].den++
	}
}

// poisson draws the number of events whose probability of none is zero.
func poisson(r *rand.Rand, zero float64) int {
	n := 0
	for x := r.Float64(); x > zero; x *= r.Float64() {
		n++
	}
	return n
}

func TestDemoThroughTheGate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		candidate behaviour
		runs      int
		check     func(share func(Decision) float64)
	}{
		{"better", better, 60, func(share func(Decision) float64) {
			require.GreaterOrEqual(t, share(Ship), .99)
			require.Zero(t, share(Invalid))
		}},
		{"null", control, 120, func(share func(Decision) float64) {
			require.LessOrEqual(t, share(Ship), .02)
			require.LessOrEqual(t, share(Rollback), .02)
			require.LessOrEqual(t, share(Invalid), .02)
			require.GreaterOrEqual(t, share(Hold), .95)
		}},
		{"worse", worse, 20, func(share func(Decision) float64) {
			require.Zero(t, share(Ship))
			require.GreaterOrEqual(t, share(Rollback), .95)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(20260105, uint64(c.runs)))
			decisions := map[Decision]int{}
			early := 0
			runs := c.runs / runsDivisor
			for range runs {
				v, _ := play(r, gatepolicy.Default(), demoUnits, demoLooks, c.candidate)
				decisions[v.Decision]++
				if v.Early {
					early++
				}
			}
			t.Logf("%v, %d early", decisions, early)
			c.check(func(d Decision) float64 { return float64(decisions[d]) / float64(runs) })
		})
	}
}

// A heavy user in one bucket must not pass for many independent events.
func TestVarianceIsOverUnitsNotTurns(t *testing.T) {
	t.Parallel()
	kept := slices.IndexFunc(metric.All, func(d metric.Def) bool { return d.Name == "kept_edits" })
	spread, heavy := newSums(), newSums()
	for i := range 2000 {
		for arm := range 2 {
			var unit tally
			unit[kept].num, unit[kept].den = float64((i/100+arm*(i%3))%2), 1 // turns of a hundred alike
			spread.add(arm, i, &unit)
			heavy.add(arm, i/100, &unit)
		}
	}
	find := func(s sums) Finding {
		e := Evidence{Metrics: s.metrics(), ExposedUnits: Arms{2000, 2000}}
		return Evaluate(gatepolicy.Default(), e).Metrics[kept]
	}
	require.InDelta(t, find(spread).Lift, find(heavy).Lift, 1e-12)
	require.Greater(t, find(heavy).SE, 3*find(spread).SE)
}

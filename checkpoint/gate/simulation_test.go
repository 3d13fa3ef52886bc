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

// sums collects in whole numbers, as distill does.
type sums map[string]*[2][4096]BucketSum

func newSums() sums {
	s := sums{}
	for _, d := range metric.All {
		s[d.Name] = &[2][4096]BucketSum{}
	}
	return s
}

func (s sums) add(name string, arm, bucket int, num, den float64) {
	b := &s[name][arm][bucket]
	b.Num += int64(math.Round(num * metric.Millionth))
	b.Den += int64(math.Round(den * metric.Millionth))
}

func (s sums) metrics() map[string]ArmSums {
	out := map[string]ArmSums{}
	for name, arms := range s {
		var filled [2][]BucketSum
		for arm := range arms {
			for bucket, b := range arms[arm] {
				if b.Den > 0 {
					b.Bucket = bucket
					filled[arm] = append(filled[arm], b)
				}
			}
		}
		out[name] = ArmSums{Control: filled[0], Candidate: filled[1]}
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
			for range poisson(r, u.quiet) {
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
				turn(r, s, u.arm, u.bucket, b)
			}
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

func turn(r *rand.Rand, s sums, arm, bucket int, b behaviour) {
	hit := func(p float64) float64 {
		if r.Float64() < p {
			return 1
		}
		return 0
	}
	delivered := hit(b.delivered)
	s.add("edit_rate", arm, bucket, delivered, 1)
	s.add("kept_edits", arm, bucket, delivered*hit(b.kept), 1)
	s.add("latency", arm, bucket, math.Log(20*b.latency)+latencySD*r.NormFloat64(), 1)
	s.add("slow_turns", arm, bucket, hit(.05*b.latency), 1)
	s.add("malformed_calls", arm, bucket, hit(b.malformed), 1)
	s.add("questions", arm, bucket, hit(b.questions), 1)
	s.add("aborts", arm, bucket, hit(b.aborts), 1)
	s.add("dissatisfied", arm, bucket, hit(.12), 1)
	s.add("tokens", arm, bucket, 800*b.tokens*r.ExpFloat64(), 1)
	s.add("incomplete", arm, bucket, hit(.004), 1)
	s.add("faulted", arm, bucket, hit(.01), 1)
	s.add("censored", arm, bucket, hit(.05), 1)
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
		{"better", better, 100, func(share func(Decision) float64) {
			require.GreaterOrEqual(t, share(Ship), .99)
			require.Zero(t, share(Invalid))
		}},
		{"null", control, 200, func(share func(Decision) float64) {
			require.LessOrEqual(t, share(Ship), .02)
			require.LessOrEqual(t, share(Rollback), .02)
			require.LessOrEqual(t, share(Invalid), .02)
			require.GreaterOrEqual(t, share(Hold), .95)
		}},
		{"worse", worse, 30, func(share func(Decision) float64) {
			require.Zero(t, share(Ship))
			require.GreaterOrEqual(t, share(Rollback), .95)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(20260105, uint64(c.runs)))
			decisions := map[Decision]int{}
			early := 0
			for range c.runs {
				v, _ := play(r, gatepolicy.Default(), demoUnits, demoLooks, c.candidate)
				decisions[v.Decision]++
				if v.Early {
					early++
				}
			}
			t.Logf("%v, %d early", decisions, early)
			c.check(func(d Decision) float64 { return float64(decisions[d]) / float64(c.runs) })
		})
	}
}

// A heavy user in one bucket must not pass for many independent events.
func TestVarianceIsOverUnitsNotTurns(t *testing.T) {
	t.Parallel()
	spread, heavy := newSums(), newSums()
	for i := range 2000 {
		for arm := range 2 {
			kept := float64((i + arm*(i%3)) % 2)
			spread.add("kept_edits", arm, i, kept, 1)
			heavy.add("kept_edits", arm, i%20, kept, 1)
		}
	}
	find := func(s sums) Finding {
		e := Evidence{Metrics: s.metrics(), ExposedUnits: Arms{2000, 2000}}
		v := Evaluate(gatepolicy.Default(), e)
		return v.Metrics[slices.IndexFunc(v.Metrics, func(f Finding) bool { return f.Metric == "kept_edits" })]
	}
	require.InDelta(t, find(spread).Lift, find(heavy).Lift, 1e-12)
	require.NotEqual(t, find(spread).SE, find(heavy).SE)
}

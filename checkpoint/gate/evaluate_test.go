package gate

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

var start = time.Date(2026, 1, 5, 1, 15, 0, 0, time.UTC)

// evenly makes an arm's sums of one metric: so many buckets with ten turns each, the rate spread over them.
func evenly(buckets int, rate float64) []BucketSum {
	out := make([]BucketSum, buckets)
	var carried float64
	for i := range out {
		// Neighbouring buckets differ, so that there is a variance.
		carried += rate * 10 * (1 + .2*float64(i%2*2-1))
		n := int64(carried)
		carried -= float64(n)
		out[i] = BucketSum{Bucket: i, Num: n * metric.Millionth, Den: 10 * metric.Millionth}
	}
	return out
}

func logs(buckets int, mean float64) []BucketSum {
	out := make([]BucketSum, buckets)
	for i := range out {
		out[i] = BucketSum{Bucket: i, Num: int64(10 * (mean + .3*float64(i%2*2-1)) * metric.Millionth), Den: 10 * metric.Millionth}
	}
	return out
}

// clean is a test at its declared end, its candidate a clear win.
func clean() Evidence {
	const buckets = 2000
	countsUntil, end := gatepolicy.Default().Window(start)
	same := func(rate float64) ArmSums {
		return ArmSums{Control: evenly(buckets, rate), Candidate: evenly(buckets, rate)}
	}
	return Evidence{
		Experiment: "exp-7", Control: "ckpt-41", Candidate: "ckpt-42",
		Now: end.Add(time.Minute), StartsAt: start, CountsUntil: countsUntil, EndsAt: end, CommittedThrough: end,
		Metrics: map[string]ArmSums{
			"kept_edits":      {Control: evenly(buckets, .59), Candidate: evenly(buckets, .64)},
			"edit_rate":       {Control: evenly(buckets, .80), Candidate: evenly(buckets, .81)},
			"latency":         {Control: logs(buckets, 3), Candidate: logs(buckets, 2.95)},
			"slow_turns":      same(.05),
			"malformed_calls": same(.02),
			"questions":       same(.10),
			"aborts":          same(.06),
			"dissatisfied":    same(.12),
			"tokens":          same(.9),
			"incomplete":      same(.004),
			"faulted":         same(.01),
			"censored":        same(.05),
		},
		ExposedUnits: Arms{2010, 1990}, UnitsWithTelemetry: &Arms{2005, 1984},
		MultiExposed: 3, StillOpen: &Arms{40, 44},
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	before := func(minutes int) func(*Policy, *Evidence) {
		return func(_ *Policy, e *Evidence) {
			e.CommittedThrough = e.StartsAt.Add(time.Duration(minutes) * time.Minute)
		}
	}
	candidate := func(name string, rate float64) func(*Policy, *Evidence) {
		return func(_ *Policy, e *Evidence) {
			m := e.Metrics[name]
			m.Candidate = evenly(2000, rate)
			e.Metrics[name] = m
		}
	}
	for _, c := range []struct {
		name    string
		change  []func(*Policy, *Evidence)
		want    Decision
		early   bool
		because string // in the reasons
		would   string // in what would change it
	}{
		{name: "a win at the end", want: Ship, because: "kept edits improved by 8.5%", would: "no success metric surely above no change would have held it; now there is kept edits"},
		{name: "a win long before", change: []func(*Policy, *Evidence){before(120)}, want: Ship, early: true, would: "would not have let it ship yet: the test would have gone on, to 2026-01-05 04:40 at the latest"},
		{name: "not before the minimum time", change: []func(*Policy, *Evidence){before(60)}, want: Running, would: "60 minutes of log time are complete, 90 are needed"},
		{name: "log time decides, not the clock", change: []func(*Policy, *Evidence){before(60), func(_ *Policy, e *Evidence) { e.Now = e.EndsAt.Add(24 * time.Hour) }}, want: Running},
		{name: "the last partition is a second short", change: []func(*Policy, *Evidence){candidate("kept_edits", .59), func(_ *Policy, e *Evidence) { e.CommittedThrough = e.EndsAt.Add(-time.Second) }}, want: Running, would: "the end: 2026-01-05 04:40 of log time in every partition"},
		{name: "no win", change: []func(*Policy, *Evidence){candidate("kept_edits", .59)}, want: Hold, because: "no success metric is shown to have improved: kept edits +0.0%", would: "more traffic alone won't change it"},
		{name: "a win too small to see", change: []func(*Policy, *Evidence){candidate("kept_edits", .594)}, want: Hold, would: "units would show it (4,000 now)"},
		{name: "a guardrail not kept", change: []func(*Policy, *Evidence){candidate("edit_rate", .785)}, want: Hold, because: "edit rate isn't shown to have kept its margin", would: "edit rate: its worst bound is"},
		{name: "a guardrail's metric without data", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { delete(e.Metrics, "latency") }}, want: Hold, because: "latency: no comparison, since neither arm"},
		{name: "a guardrail's metric without control data", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) {
			e.Metrics["latency"] = ArmSums{Candidate: e.Metrics["latency"].Candidate}
		}}, want: Hold, because: "the control arm has no two buckets"},
		{name: "harm at the end", change: []func(*Policy, *Evidence){candidate("malformed_calls", .05)}, want: Rollback, because: "malformed calls: surely worse than the harm margin", would: "later sums don't take it back"},
		{name: "harm early", change: []func(*Policy, *Evidence){candidate("malformed_calls", .05), before(10)}, want: Rollback},
		{name: "harm within its margin", change: []func(*Policy, *Evidence){candidate("malformed_calls", .0215)}, want: Ship},
		{name: "harm with too few units to judge", change: []func(*Policy, *Evidence){candidate("malformed_calls", .05), before(10), func(_ *Policy, e *Evidence) {
			e.ExposedUnits, e.UnitsWithTelemetry = Arms{150, 140}, nil
		}}, want: Running},
		{name: "an uneven split", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { e.ExposedUnits = Arms{2200, 1800} }}, want: Invalid, because: "an even split doesn't make that", would: "nothing in this experiment"},
		{name: "an uneven split early", change: []func(*Policy, *Evidence){before(10), func(_ *Policy, e *Evidence) { e.ExposedUnits = Arms{2200, 1800} }}, want: Invalid},
		{name: "the candidate's units lose their telemetry", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { e.UnitsWithTelemetry = &Arms{2005, 1700} }}, want: Invalid, because: "units with a settled turn"},
		{name: "the control's units settle later, as they ask more", change: []func(*Policy, *Evidence){before(10), func(_ *Policy, e *Evidence) { e.UnitsWithTelemetry = &Arms{1700, 2005} }}, want: Running},
		{name: "no early win while one arm's units are missing", change: []func(*Policy, *Evidence){before(120), func(_ *Policy, e *Evidence) { e.UnitsWithTelemetry = &Arms{2005, 1700} }}, want: Running},
		{name: "units in both arms", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { e.MultiExposed = 45 }}, want: Invalid, because: "units seen in both arms: 45 of 3,955"},
		{name: "events of one arm get lost", change: []func(*Policy, *Evidence){candidate("incomplete", .03)}, want: Invalid, because: "incomplete turns"},
		{name: "invalid beats rollback", change: []func(*Policy, *Evidence){candidate("incomplete", .03), candidate("malformed_calls", .05)}, want: Invalid},
		{name: "shares that nobody counted aren't alike", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { delete(e.Metrics, "faulted") }}, want: Hold, because: "faulted turns: no settled turns"},
		{name: "turns of one arm hang", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { e.StillOpen = &Arms{40, 1500} }}, want: Invalid, because: "turns still open"},
		{name: "what wasn't counted is said, and doesn't block", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { e.StillOpen, e.UnitsWithTelemetry = nil, nil }}, want: Ship},
		{name: "too few units", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { e.ExposedUnits, e.UnitsWithTelemetry = Arms{150, 140}, nil }}, want: Hold, because: "the smaller arm has 140 units, 200 are needed"},
		{name: "an alarm", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) {
			e.Monitors = []Alarm{{ID: "a1", Monitor: "repeated n-grams", Since: start, Text: "closings repeat themselves"}}
		}}, want: Hold, because: "repeated n-grams since 2026-01-05 01:15: closings repeat themselves", would: "acknowledge it by name"},
		{name: "an acknowledged alarm", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) {
			e.Monitors = []Alarm{{ID: "a1", Monitor: "repeated n-grams", Since: start, AcknowledgedBy: "Ada"}}
		}}, want: Ship},
		{name: "do no harm ships without a win", change: []func(*Policy, *Evidence){candidate("kept_edits", .59), func(p *Policy, _ *Evidence) {
			p.Mode, p.Success = gatepolicy.DoNoHarm, nil
		}}, want: Ship, because: "nothing was shown to have improved"},
		{name: "do no harm isn't early", change: []func(*Policy, *Evidence){before(120), func(p *Policy, _ *Evidence) {
			p.Mode, p.Success = gatepolicy.DoNoHarm, nil
		}}, want: Running},
		{name: "an absolute margin kept", change: []func(*Policy, *Evidence){func(p *Policy, _ *Evidence) {
			p.Guardrails = append(slices.Clone(p.Guardrails), gatepolicy.Margin{Metric: "malformed_calls", Absolute: .004})
		}}, want: Ship, because: "margin +0.40 pp"},
		{name: "an absolute margin not kept", change: []func(*Policy, *Evidence){candidate("malformed_calls", .022), func(p *Policy, _ *Evidence) {
			p.Guardrails = append(slices.Clone(p.Guardrails), gatepolicy.Margin{Metric: "malformed_calls", Absolute: .002})
		}}, want: Hold, because: "margin +0.20 pp"},
		{name: "nothing at all", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) {
			*e = Evidence{StartsAt: e.StartsAt, EndsAt: e.EndsAt, CommittedThrough: e.EndsAt}
		}}, want: Hold},
		{name: "not begun", change: []func(*Policy, *Evidence){func(_ *Policy, e *Evidence) { *e = Evidence{StartsAt: e.StartsAt, EndsAt: e.EndsAt} }}, want: Running},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, e := gatepolicy.Default(), clean()
			for _, change := range c.change {
				change(&p, &e)
			}
			v := Evaluate(p, e)
			require.Equal(t, c.want, v.Decision, strings.Join(Explain(v), "\n"))
			require.Equal(t, c.early, v.Early)
			require.Contains(t, strings.Join(v.Reasons, "\n"), c.because)
			require.Contains(t, strings.Join(v.WouldChange, "\n"), c.would)
			require.NotEmpty(t, v.Reasons)
			require.NotEmpty(t, v.WouldChange)
			requireRoundTrip(t, p, e)
		})
	}
}

func TestApprovalStandsBetweenShipAndPromotion(t *testing.T) {
	t.Parallel()
	p := gatepolicy.Default()
	p.RequireApproval = true
	v := Evaluate(p, clean())
	require.True(t, v.NeedsApproval)
	require.Contains(t, Explain(v)[0], "waits for a person's approval")
}

func requireRoundTrip(t *testing.T, p Policy, e Evidence) {
	t.Helper()
	frozen := Freeze(p, e)
	text, err := json.Marshal(frozen)
	require.NoError(t, err)
	var thawed Record
	require.NoError(t, json.Unmarshal(text, &thawed))
	again, err := thawed.Recompute()
	require.NoError(t, err)
	require.Equal(t, frozen.Verdict, again)
}

func TestVerdictOfThawedEvidenceIsTheSameToTheBit(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	for range 3 {
		e := clean()
		for name, sums := range e.Metrics {
			for _, arm := range [][]BucketSum{sums.Control, sums.Candidate} {
				for i := range arm {
					arm[i].Num += r.Int64N(metric.Millionth)
				}
			}
			e.Metrics[name] = sums
		}
		e.Now = time.Now() // with a monotonic clock and a place on earth
		e.CommittedThrough = e.CommittedThrough.In(time.FixedZone("CET", 3600))
		requireRoundTrip(t, gatepolicy.Default(), e)

		shuffled := e
		shuffled.Metrics = map[string]ArmSums{}
		for name, sums := range e.Metrics {
			c, d := slices.Clone(sums.Control), slices.Clone(sums.Candidate)
			r.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
			r.Shuffle(len(d), func(i, j int) { d[i], d[j] = d[j], d[i] })
			shuffled.Metrics[name] = ArmSums{Control: c, Candidate: d}
		}
		require.Equal(t, Evaluate(gatepolicy.Default(), e), Evaluate(gatepolicy.Default(), shuffled))
	}
}

// A heavy user in one bucket must not pass for many independent events.
func TestVarianceIsOverUnitsNotTurns(t *testing.T) {
	t.Parallel()
	find := func(perBucket int) Finding {
		var arms [2][]BucketSum
		for arm := range arms {
			sums := make([]BucketSum, 2000/perBucket)
			for i := range 2000 {
				b := &sums[i/perBucket]
				b.Bucket = i / perBucket
				b.Num += int64((i/100+arm*(i%3))%2) * metric.Millionth // turns of a hundred alike
				b.Den += metric.Millionth
			}
			arms[arm] = sums
		}
		e := Evidence{Metrics: map[string]ArmSums{"kept_edits": {Control: arms[0], Candidate: arms[1]}}, ExposedUnits: Arms{2000, 2000}}
		return Evaluate(gatepolicy.Default(), e).Metrics[0]
	}
	spread, heavy := find(1), find(100)
	require.InDelta(t, spread.Lift, heavy.Lift, 1e-12)
	require.Greater(t, heavy.SE, 3*spread.SE)
}

// While a test is young, many units are exposed of which few have settled: these few have no law yet. Watched by the
// number of those exposed, 1.5 % of simulated tests of an unchanged candidate were rolled back.
func TestFewBucketsAreNoEvidence(t *testing.T) {
	t.Parallel()
	e := clean()
	e.CommittedThrough = start.Add(30 * time.Minute)
	e.Metrics["edit_rate"] = ArmSums{Control: evenly(40, .97), Candidate: evenly(40, .5)}
	v := Evaluate(gatepolicy.Default(), e)
	i := slices.IndexFunc(v.Metrics, func(f Finding) bool { return f.Metric == "edit_rate" })
	h, _ := v.Metrics[i].Test(Harm)
	require.True(t, h.Met)
	require.False(t, h.Active)
	require.Equal(t, Running, v.Decision)

	e = clean()
	e.UnitsWithTelemetry = &Arms{150, 150}
	e.Metrics["edit_rate"] = ArmSums{Control: evenly(2000, .97), Candidate: evenly(2000, .5)}
	e.CommittedThrough = start.Add(30 * time.Minute)
	require.Equal(t, Running, Evaluate(gatepolicy.Default(), e).Decision)
}

func TestGlanceDecidesAsEvaluateDoes(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Evidence){
		func(*Evidence) {},
		func(e *Evidence) { e.CommittedThrough = start.Add(time.Hour) },
		func(e *Evidence) { e.CommittedThrough = start.Add(2 * time.Hour) },
		func(e *Evidence) { e.MultiExposed = 400 },
		func(e *Evidence) { delete(e.Metrics, "latency") },
	} {
		e := clean()
		change(&e)
		v := Evaluate(gatepolicy.Default(), e)
		decision, early := Glance(gatepolicy.Default(), e, e.Estimate())
		require.Equal(t, v.Decision, decision)
		require.Equal(t, v.Early, early)
	}
}

func TestRecomputeNoticesWhatChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want   string
		change func(*Record)
	}{
		{"the sums are not those", func(r *Record) { r.Evidence.Metrics["kept_edits"].Control[7].Num++ }},
		{"the evidence gives INVALID, the stored verdict says SHIP", func(r *Record) { r.Evidence.MultiExposed = 400 }},
		{"not the same numbers to the bit", func(r *Record) { r.Verdict.Metrics[0].SE += 1e-9 }},
	} {
		r := Freeze(gatepolicy.Default(), clean())
		c.change(&r)
		_, err := r.Recompute()
		require.ErrorContains(t, err, c.want)
	}
}

// The stated splits: harm over nine metrics, win and early win over the success metrics, guardrails whole.
func TestThresholdsAreFrozenWithTheVerdict(t *testing.T) {
	t.Parallel()
	v := Evaluate(gatepolicy.Default(), clean())
	alphas := map[TestName]float64{}
	for _, f := range v.Metrics {
		for _, test := range f.Tests {
			alphas[test.Name] = test.Alpha
			require.Positive(t, test.Factor)
		}
	}
	require.InDeltaMapValues(t, map[TestName]float64{Win: .02, EarlyWin: .005, Guardrail: .05, EarlyGuardrail: .005, Harm: .01 / 9}, alphas, 1e-12)
	require.Len(t, v.Metrics, 9)
	require.Len(t, v.SumsDigest, 64)
	g, ok := v.Metrics[slices.IndexFunc(v.Metrics, func(f Finding) bool { return f.Metric == "latency" })].Test(Guardrail)
	require.True(t, ok)
	require.InDelta(t, 1.645, g.Factor, .001)
	require.Equal(t, -.02, g.Threshold)
}

// A latency that falls and an error rate that falls are benefits; a kept share that falls is a loss.
func TestSigns(t *testing.T) {
	t.Parallel()
	e := clean()
	e.Metrics["malformed_calls"] = ArmSums{Control: evenly(2000, .02), Candidate: evenly(2000, .01)}
	e.Metrics["kept_edits"] = ArmSums{Control: evenly(2000, .6), Candidate: evenly(2000, .54)}
	for _, f := range Evaluate(gatepolicy.Default(), e).Metrics {
		switch f.Metric {
		case "latency":
			require.Positive(t, f.Lift)
			require.InDelta(t, -.0488, f.Change, .001)
		case "malformed_calls":
			require.Positive(t, f.Lift)
			require.InDelta(t, -.5, f.Change, .001)
		case "kept_edits":
			require.Negative(t, f.Lift)
			require.InDelta(t, -.1, f.Change, .001)
		}
		require.LessOrEqual(t, f.ChangeLow, f.Change)
		require.GreaterOrEqual(t, f.ChangeHigh, f.Change)
	}
}

// Errors that no longer happen are neither a division by zero nor certainty.
func TestNoEventsInAnArm(t *testing.T) {
	t.Parallel()
	p, e := gatepolicy.Default(), clean()
	e.Metrics["malformed_calls"] = ArmSums{Control: evenly(2000, .02), Candidate: evenly(2000, 0)}
	p.Guardrails = append(slices.Clone(p.Guardrails), gatepolicy.Margin{Metric: "malformed_calls", Margin: .15})
	require.Equal(t, Ship, Evaluate(p, e).Decision)
	e.Metrics["malformed_calls"] = ArmSums{Control: evenly(2000, 0), Candidate: evenly(2000, 0)}
	v := Evaluate(p, e)
	require.Equal(t, Hold, v.Decision, "15 % of nothing can't be shown to be kept; an absolute margin can")
	p.Guardrails[2] = gatepolicy.Margin{Metric: "malformed_calls", Absolute: .003}
	require.Equal(t, Ship, Evaluate(p, e).Decision)
}

func TestExplainIsReadable(t *testing.T) {
	t.Parallel()
	text := strings.Join(Explain(Evaluate(gatepolicy.Default(), clean())), "\n")
	t.Log("\n" + text)
	for _, want := range []string{
		"SHIP ckpt-42 (1,990 units against 2,010)",
		"latency -4.9%",
		"guardrail: kept, at worst",
		"what would change it",
		"policy default version 1",
	} {
		require.Contains(t, text, want)
	}
}

// One sentence for whoever asks in the corridor.
func TestSummaries(t *testing.T) {
	t.Parallel()
	p, e := gatepolicy.Default(), clean()
	require.Equal(t, "ckpt-42 may ship: after 4,000 units kept edits went from 0.5899 to 0.64 (+8.5%, surely beyond +7.0%), and latency, edit rate lost no more than allowed.", Summary(Evaluate(p, e)))
	e.CommittedThrough = start.Add(2 * time.Hour)
	early := Evaluate(p, e)
	require.Contains(t, Summary(early), "It won before its time")
	require.NotContains(t, strings.Join(early.WouldChange, "\n"), "would have held it")
	e.CommittedThrough = start.Add(time.Hour)
	require.Contains(t, Summary(Evaluate(p, e)), "nothing is decided yet")
	e = clean()
	e.Metrics["kept_edits"] = ArmSums{Control: evenly(2000, .59), Candidate: evenly(2000, .59)}
	require.Contains(t, Summary(Evaluate(p, e)), "stays out: after 4,000 units no success metric is shown to have improved")
	e.Metrics["malformed_calls"] = ArmSums{Control: evenly(2000, .02), Candidate: evenly(2000, .06)}
	require.Contains(t, Summary(Evaluate(p, e)), "was stopped: after 4,000 units malformed calls: surely worse than the harm margin")
	e.MultiExposed = 400
	require.Contains(t, Summary(Evaluate(p, e)), "Nothing is known about ckpt-42: units seen in both arms")
	p.Mode, p.Success = gatepolicy.DoNoHarm, nil
	require.Contains(t, Summary(Evaluate(p, clean())), "nothing had to improve, and latency, edit rate lost no more than allowed")
}

func TestBucketSumsAreThreeIntegers(t *testing.T) {
	t.Parallel()
	var sums []BucketSum
	require.NoError(t, json.Unmarshal([]byte("[[4095, -7,9223372036854775807], [0,1,2]]"), &sums))
	require.Equal(t, []BucketSum{{4095, -7, 9223372036854775807}, {0, 1, 2}}, sums)
	text, err := json.Marshal(sums)
	require.NoError(t, err)
	require.Equal(t, "[[4095,-7,9223372036854775807],[0,1,2]]", string(text))
	for _, bad := range []string{`[[1,2]]`, `[[1,2,3,4]]`, `[[1,2,0.5]]`, `[["1",2,3]]`, `[{"bucket":1}]`, `[[1,2,1e3]]`, `[7]`} {
		require.Error(t, json.Unmarshal([]byte(bad), &sums), bad)
	}
}

package simulation

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"

	"millrace/checkpoint/gate"
)

// Options say how much is simulated.
type Options struct {
	Experiments int    // of each scenario
	Seed        uint64 // the same seed gives the same report
	Every       int    // minutes of log time between two looks
}

// Share is how often something happened, with its Monte-Carlo error: one standard error, of one event more among two
// experiments more, so that what was never seen isn't certain.
type Share struct {
	Share float64 `json:"share"`
	Error float64 `json:"error"`
	Count int     `json:"count"`
}

func shareOf(count, experiments int) Share {
	p := float64(count+1) / float64(experiments+2)
	return Share{Share: float64(count) / float64(experiments), Error: math.Sqrt(p * (1 - p) / float64(experiments)), Count: count}
}

// Tally is what came out of one scenario.
type Tally struct {
	Scenario
	Experiments int                     `json:"experiments"`
	Decisions   map[gate.Decision]Share `json:"decisions"`
	Early       Share                   `json:"early"` // SHIP before the declared end
	// Tests are how often each metric's tests were met at the verdict: "kept_edits win".
	Tests map[string]Share `json:"tests"`
	// Checks are how often each check made the verdict INVALID.
	Checks map[string]Share `json:"checks,omitempty"`
	Claims []Outcome        `json:"claims"`
}

// Outcome is a claim and what was seen of it.
type Outcome struct {
	Claim
	Seen Share `json:"seen"`
	// Broken: seen by more than three Monte-Carlo errors outside of what is claimed.
	Broken bool `json:"broken"`
}

// Run plays every scenario's experiments. It stops when the context ends.
func Run(ctx context.Context, p gate.Policy, t gate.Traffic, scenarios []Scenario, o Options) ([]Tally, error) {
	if o.Experiments < 1 || o.Every < 1 {
		return nil, fmt.Errorf("experiments (%d) and the minutes between two looks (%d) are at least 1", o.Experiments, o.Every)
	}
	t = t.Over(p.TestMinutes)
	if t.TurnsPerUnit < 1 {
		return nil, fmt.Errorf("traffic: turns per unit is %v: a unit takes part by its first turn, so it is at least 1", t.TurnsPerUnit)
	}
	out := make([]Tally, len(scenarios))
	for i, s := range scenarios {
		tally, err := run(ctx, newWorld(p, t, s), o, uint64(i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		out[i] = tally
	}
	return out, nil
}

func run(ctx context.Context, w *world, o Options, scenario uint64) (Tally, error) {
	var mu sync.Mutex
	var failed error
	decisions, tests, checks := map[gate.Decision]int{}, map[string]int{}, map[string]int{}
	early, next := 0, 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			failed = ctx.Err()
		}
		next++
		return next - 1, next <= o.Experiments && failed == nil
	}
	note := func(v gate.Verdict, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		decisions[v.Decision]++
		if v.Early {
			early++
		}
		for _, f := range v.Metrics {
			for _, t := range f.Tests {
				if f.Met(t.Name) {
					tests[f.Metric+" "+string(t.Name)]++
				}
			}
		}
		for _, c := range v.Checks {
			if c.Status == gate.Failed {
				checks[c.Name]++
			}
		}
	}
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), o.Experiments) {
		all.Go(func() {
			b := newBench()
			for {
				i, more := take()
				if !more {
					return
				}
				// Each experiment has its own numbers, whoever plays it.
				note(w.play(b, rand.New(rand.NewPCG(o.Seed, scenario<<32|uint64(i))), o.Every))
			}
		})
	}
	all.Wait()
	if failed != nil {
		return Tally{}, failed
	}
	tally := Tally{Scenario: w.scenario, Experiments: o.Experiments, Early: shareOf(early, o.Experiments), Decisions: map[gate.Decision]Share{}}
	for _, d := range []gate.Decision{gate.Ship, gate.Hold, gate.Rollback, gate.Invalid} {
		tally.Decisions[d] = shareOf(decisions[d], o.Experiments)
	}
	tally.Tests, tally.Checks = shares(tests, o.Experiments), shares(checks, o.Experiments)
	for _, c := range w.scenario.Expect {
		seen := tally.Decisions[c.Decision]
		tally.Claims = append(tally.Claims, Outcome{Claim: c, Seen: seen, Broken: c.broken(seen)})
	}
	return tally, nil
}

func shares(counts map[string]int, experiments int) map[string]Share {
	out := make(map[string]Share, len(counts))
	for name, n := range counts {
		out[name] = shareOf(n, experiments)
	}
	return out
}

package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"millrace/checkpoint/gate"
	"millrace/schemas/metric"
)

// start is any moment: every experiment has its own hour of the day.
var start = time.Date(2026, 1, 5, 1, 15, 0, 0, time.UTC)

// bench is what one goroutine uses again and again.
type bench struct {
	sums      sums
	estimates gate.Estimates
	parts     []part
}

type part struct{ num, den float64 }

func newBench() *bench {
	return &bench{sums: newSums(), estimates: gate.Estimates{}, parts: make([]part, len(metric.All))}
}

// play runs one test and looks at it every so many minutes of log time, until a look is final. The verdict is that of
// gate.Evaluate over the sums as they stood then.
func (w *world) play(b *bench, r *rand.Rand, every int) (gate.Verdict, error) {
	b.sums.clear()
	phase := 2 * math.Pi * r.Float64()
	units, events := w.units(r, phase)
	countsUntil, end := w.policy.Window(start)
	e := gate.Evidence{Experiment: "exp-1", Control: "control", Candidate: "candidate", StartsAt: start, CountsUntil: countsUntil, EndsAt: end}
	var exposed, settled, open gate.Arms
	for minute := range w.minutes + 1 {
		busy := height(float64(minute), phase)
		for _, ev := range events[minute] {
			u := &units[ev.unit]
			if !ev.settles {
				count(&open, u.arm, 1)
				if !u.seen {
					u.seen = true
					count(&exposed, u.arm, 1)
				}
				continue
			}
			count(&open, u.arm, -1)
			if !u.settled {
				u.settled = true
				count(&settled, u.arm, 1)
			}
			w.settle(b, r, u, busy)
		}
		last := minute == w.minutes
		if minute%every != 0 && !last {
			continue
		}
		e.CommittedThrough = start.Add(time.Duration(minute) * time.Minute)
		if last {
			e.CommittedThrough = end
			e.StillOpen = &gate.Arms{Control: open.Control, Candidate: open.Candidate}
		}
		e.Now, e.ExposedUnits, e.UnitsWithTelemetry = e.CommittedThrough, exposed, &settled
		b.sums.estimates(b.estimates)
		decision, _ := gate.Glance(w.policy, e, b.estimates)
		if !decision.Final() {
			continue
		}
		e.Metrics = b.sums.metrics()
		// The moments know of no heavy bucket, which only widens a bound: what they find final the sums may not.
		if v := gate.Evaluate(w.policy, e); v.Decision.Final() {
			return v, nil
		}
	}
	return gate.Verdict{}, fmt.Errorf("a test of %d minutes has no end", w.minutes)
}

func count(a *gate.Arms, arm int16, n int64) {
	if arm == 0 {
		a.Control += n
	} else {
		a.Candidate += n
	}
}

// settle draws a turn and adds it to the sums. With the probability of copies it is as its unit's own turn is, which
// makes two turns of one unit correlate by the traffic's ICC whatever a metric's law; a latency shares a normal part.
func (w *world) settle(b *bench, r *rand.Rand, u *unit, busy float64) {
	t := w.drawTurn(r)
	latency := w.copies*u.own.latency + math.Sqrt(1-w.traffic.ICC)*t.latency
	if r.Float64() < w.copies {
		t = u.own
	}
	rates := w.rates[u.arm]
	hit := func(x float64, name int) float64 {
		if x < rates[name] {
			return 1
		}
		return 0
	}
	for m := range b.parts {
		b.parts[m] = part{}
	}
	lost, faulted := hit(t.lost, incomplete), hit(t.faulted, faults)
	b.parts[incomplete] = part{lost, 1}
	b.parts[faults] = part{faulted, 1}
	b.parts[censored] = part{hit(t.censored, censored), 1}
	if lost == 0 && faulted == 0 {
		easier := 1 - betterWhenIdle*busy
		if r.Float64() < w.traffic.EditShare {
			// One number decides about both: what is kept was applied, and who asks back hasn't edited.
			b.parts[kept] = part{hit(t.edit/easier, kept), 1}
			b.parts[editRate] = part{hit(t.edit/easier, editRate), 1}
			b.parts[questions] = part{hit(1-t.edit, questions), 1}
		}
		log := w.shift[u.arm] + w.logSD*latency + slowerWhenBusy*busy
		b.parts[latencies] = part{log, 1}
		if b.parts[slow].den = 1; log > w.slow[u.arm] {
			b.parts[slow].num = 1
		}
		b.parts[malformed] = part{hit(t.malformed, malformed), 1}
		b.parts[aborts] = part{hit(t.aborted, aborts), 1}
		b.parts[dissatisfied] = part{hit(t.dissatisfied, dissatisfied), 1}
		b.parts[tokens] = part{w.tokens[u.arm] * t.tokens, 1}
	}
	for m, p := range b.parts {
		if p.den > 0 {
			b.sums.add(m, int(u.arm), int(u.bucket), p.num, p.den)
		}
	}
}

var (
	kept, editRate, questions       = place["kept_edits"], place["edit_rate"], place["questions"]
	latencies, slow, tokens         = place["latency"], place["slow_turns"], place["tokens"]
	malformed, aborts, dissatisfied = place["malformed_calls"], place["aborts"], place["dissatisfied"]
	incomplete, faults, censored    = place["incomplete"], place["faulted"], place["censored"]
)

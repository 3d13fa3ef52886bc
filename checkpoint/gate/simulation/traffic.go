package simulation

import (
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"millrace/checkpoint/gate"
	"millrace/checkpoint/stats"
	"millrace/internal/unithash"
	"millrace/schemas/metric"
)

// What every simulated day looks like. (judgement: to be replaced when a first week has been measured)
const (
	rhythm         = .6  // of the traffic: at its height 1.6, at its low .4 of the mean
	slowerWhenBusy = .1  // log latency at the height of the day
	betterWhenIdle = .02 // of the rates, relative, away from the height
	turnsPerBurst  = 5   // a session's turns …
	minutesBetween = 3   // … and the time between two of them
	settlesAfter   = 20  // minutes from a turn's start to its settling, at least …
	settlesLater   = 5   // … and on average that much later
)

// world is what doesn't change between the experiments of one scenario.
type world struct {
	policy   gate.Policy
	traffic  gate.Traffic
	scenario Scenario
	minutes  int // of the test
	counting int // a turn counts if it starts in one of these
	rates    [2][]float64
	logSD    float64 // of latency
	slow     [2]float64
	shift    [2]float64 // of log latency
	tokens   [2]float64
	tokensSD float64
	copies   float64 // how often a turn is as its unit is: the root of the correlation
}

var place = func() map[string]int {
	places := map[string]int{}
	for i, d := range metric.All {
		places[d.Name] = i
	}
	return places
}()

func newWorld(p gate.Policy, t gate.Traffic, s Scenario) *world {
	w := &world{policy: p, traffic: t, scenario: s, copies: math.Sqrt(t.ICC)}
	w.minutes = int(math.Ceil(p.TestMinutes))
	w.counting = max(1, int(p.TestMinutes-p.MaturityMinutes))
	for arm := range w.rates {
		change := func(name string) float64 {
			if arm == 0 {
				return 1
			}
			return 1 + s.Effects[name]
		}
		w.rates[arm] = make([]float64, len(metric.All))
		for i, d := range metric.All {
			base, _ := t.Base(d.Name)
			w.rates[arm][i] = math.Min(1, base.Value*change(d.Name))
		}
		if arm == 1 {
			w.rates[arm][place["incomplete"]] += s.TurnLoss
		}
		latency, _ := t.Base("latency")
		w.logSD = latency.SD
		w.shift[arm] = math.Log(change("latency"))
		// Slow turns follow from the latency, unless they were given an effect of their own.
		w.slow[arm] = stats.UpperPoint(w.rates[0][place["slow_turns"]]) * w.logSD
		if own := s.Effects["slow_turns"]; own != 0 && arm == 1 {
			w.slow[arm] = stats.UpperPoint(w.rates[1][place["slow_turns"]])*w.logSD + w.shift[arm]
		}
		tokens, _ := t.Base("tokens")
		w.tokens[arm], w.tokensSD = tokens.Value*change("tokens"), tokens.SD/tokens.Value
	}
	return w
}

// unit is a user: her arm, her bucket, and what her turns have in common.
type unit struct {
	arm, bucket   int16
	seen, settled bool
	own           turn
}

// turn is what a turn's signals are drawn from: uniform numbers, and a normal one for its latency.
type turn struct {
	edit, malformed, aborted, dissatisfied, lost, faulted, censored float64
	latency, tokens                                                 float64
}

// event is a turn's start or settling, in the minute that it stands under.
type event struct {
	unit    int32
	settles bool
}

func (w *world) drawTurn(r *rand.Rand) turn {
	t := turn{
		edit: r.Float64(), malformed: r.Float64(), aborted: r.Float64(), dissatisfied: r.Float64(),
		lost: r.Float64(), faulted: r.Float64(), censored: r.Float64(), latency: r.NormFloat64(),
	}
	t.tokens = r.ExpFloat64()
	return t
}

// units draws who takes part, and when.
func (w *world) units(r *rand.Rand, phase float64) ([]unit, [][]event) {
	units := make([]unit, 0, w.traffic.Units+w.scenario.HeavyUnits)
	events := make([][]event, w.minutes+1)
	for range w.traffic.Units {
		u := unit{arm: int16(r.IntN(2)), bucket: int16(r.IntN(unithash.SumBuckets)), own: w.drawTurn(r)}
		turns := w.turns(r)
		if u.arm == 1 && w.scenario.UnitLoss > 0 && r.Float64() < w.scenario.UnitLoss {
			continue
		}
		w.schedule(r, events, int32(len(units)), turns, phase)
		units = append(units, u)
	}
	for i := range w.scenario.HeavyUnits {
		w.schedule(r, events, int32(len(units)), w.scenario.HeavyTurns, phase)
		units = append(units, unit{arm: int16((i + 1) % 2), bucket: int16(r.IntN(unithash.SumBuckets)), own: w.drawTurn(r)})
	}
	return units, events
}

// turns draws the number of a unit's turns: one, and a negative binomial number more that gives the traffic's mean and
// spread.
func (w *world) turns(r *rand.Rand) int {
	mean := w.traffic.TurnsPerUnit - 1
	if mean <= 0 {
		return 1
	}
	sd := w.traffic.TurnsCV * w.traffic.TurnsPerUnit
	if over := sd*sd - mean; over > 0 {
		shape := mean * mean / over
		mean = distuv.Gamma{Alpha: shape, Beta: shape / mean, Src: r}.Rand()
	}
	if mean == 0 {
		return 1
	}
	return 1 + int(distuv.Poisson{Lambda: mean, Src: r}.Rand())
}

// schedule puts a unit's turns into bursts by the hour of the day, and their settling behind them. What doesn't settle
// in the test stays open.
func (w *world) schedule(r *rand.Rand, events [][]event, u int32, turns int, phase float64) {
	for turns > 0 {
		burst := min(turns, 1+int(turnsPerBurst*r.ExpFloat64()))
		turns -= burst
		at := r.Float64() * float64(w.counting)
		for r.Float64()*(1+rhythm) > 1+rhythm*height(at, phase) {
			at = r.Float64() * float64(w.counting)
		}
		for range burst {
			minute := min(int(at), w.counting-1)
			events[minute] = append(events[minute], event{unit: u})
			if settled := at + settlesAfter + settlesLater*r.ExpFloat64(); int(settled)+1 < len(events) {
				events[int(settled)+1] = append(events[int(settled)+1], event{unit: u, settles: true})
			}
			at = math.Min(at+minutesBetween*r.ExpFloat64(), float64(w.counting)-.5)
		}
	}
}

// height is how busy the day is at that minute, −1 … 1.
func height(minute, phase float64) float64 {
	return math.Sin(2*math.Pi*minute/(24*time.Hour).Minutes() + phase)
}

package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"millrace/distill/correlation"
	"millrace/schemas/ledger"
)

// Report is what another spec or baseline changes about the turns of a ledger.
type Report struct {
	Spec     string `json:"spec"` // name@version under which they were scored again
	Baseline string `json:"baseline"`

	Turns      int64            `json:"turns"`      // scored again
	Amendments int64            `json:"amendments"` // passed by
	Before     map[string]int64 `json:"before"`     // turns by the spec and baseline that they had
	// Turns besides, which could not be scored again: of an earlier build. The caller leaves them out, and counts them.
	Old int64 `json:"old"`
	// Of the turns: those that settled after another time than the spec's. Of them this is not what a run of the log would give.
	OtherSettleAfter int64 `json:"other_settle_after"`

	Unchanged int64 `json:"unchanged"` // same disposition, reward and advantage, to the bit
	Rewarded  int64 `json:"rewarded"`  // with a reward before and after

	Rewards struct {
		Before *Distribution `json:"before"` // of all turns that had one; null if none had
		After  *Distribution `json:"after"`
		// Spearman's rank correlation of both, over the turns that have both; equal rewards share their mean rank. Null: fewer
		// than three, or all alike.
		Spearman *float64 `json:"spearman"`
	} `json:"rewards"`
	RewardFlips    Flips `json:"reward_flips"`
	AdvantageFlips Flips `json:"advantage_flips"`

	Dispositions []Flow            `json:"dispositions"` // the largest first
	Components   []ComponentChange `json:"components"`   // in the order in which they first appear
	ByStratum    []Group           `json:"by_stratum"`
	ByVersion    []Group           `json:"by_policy_version"`
	ByArm        []Group           `json:"by_arm"` // experiment/arm
	Largest      []Change          `json:"largest_changes"`
	Histogram    Histogram         `json:"histogram"`
	Density      []Cell            `json:"density"`
}

// Distribution is that of a number over turns.
type Distribution struct {
	Turns int64   `json:"turns"`
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P1    float64 `json:"p1"`
	P5    float64 `json:"p5"`
	P25   float64 `json:"p25"`
	P50   float64 `json:"p50"`
	P75   float64 `json:"p75"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Flips are turns whose sign changed. Neither side is zero.
type Flips struct {
	Up   int64 `json:"up"`   // from negative to positive
	Down int64 `json:"down"` // from positive to negative
}

// Flow is turns that went from a disposition to a disposition.
type Flow struct {
	From  ledger.Disposition `json:"from"`
	To    ledger.Disposition `json:"to"`
	Turns int64              `json:"turns"`
}

// ComponentChange is a component's mean over the turns where it was observed, before and after; null where it never was.
type ComponentChange struct {
	Name        string   `json:"name"`
	Before      *float64 `json:"before"`
	BeforeTurns int64    `json:"before_turns"`
	After       *float64 `json:"after"`
	AfterTurns  int64    `json:"after_turns"`
}

// Group is turns that have something in common.
type Group struct {
	Key            string  `json:"key"`
	Turns          int64   `json:"turns"`    // scored again
	Rewarded       int64   `json:"rewarded"` // with a reward before and after; the means are of these
	Before         float64 `json:"before"`   // mean reward
	After          float64 `json:"after"`
	RewardFlips    Flips   `json:"reward_flips"`
	AdvantageFlips Flips   `json:"advantage_flips"`
}

// Change is one turn's.
type Change struct {
	Session string  `json:"session_id"`
	Turn    string  `json:"turn_id"`
	Before  float64 `json:"before"`
	After   float64 `json:"after"`
}

// Histogram counts turns by reward, in bins of Width from From on.
type Histogram struct {
	From   float64 `json:"from"`
	Width  float64 `json:"width"`
	Before []int64 `json:"before"`
	After  []int64 `json:"after"`
}

// Cell counts turns by both rewards, in bins of the histogram's width; Before and After are the bins' lower ends.
type Cell struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Turns  int64   `json:"turns"`
}

const (
	leastWidth  = .1 // of a bin
	mostBins    = 200
	manyChanges = 10
)

// Report is the sum of all that was added.
func (t *Tally) Report() *Report {
	r := t.report
	r.Before = maps.Clone(t.report.Before)
	r.Dispositions, r.Components, r.Largest = []Flow{}, []ComponentChange{}, append([]Change{}, t.largest...)
	r.Rewards.Before, r.Rewards.After = distribution(t.before), distribution(t.after)
	r.Rewards.Spearman = correlation.Spearman(t.bothBefore, t.bothAfter)
	for key, n := range t.flows {
		r.Dispositions = append(r.Dispositions, Flow{key[0], key[1], n})
	}
	slices.SortFunc(r.Dispositions, func(a, b Flow) int {
		return cmp.Or(-cmp.Compare(a.Turns, b.Turns), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	for _, name := range t.componentOrder {
		c := t.components[name]
		r.Components = append(r.Components, ComponentChange{
			Name: name, Before: c[0].mean(), BeforeTurns: c[0].n, After: c[1].mean(), AfterTurns: c[1].n,
		})
	}
	r.ByStratum, r.ByVersion, r.ByArm = groups(t.by[stratum]), groups(t.by[version]), groups(t.by[arm])
	b := binsFor(t.before, t.after)
	r.Histogram, r.Density = b.histogram(t.before, t.after), b.density(t.bothBefore, t.bothAfter)
	return &r
}

func distribution(values []float64) *Distribution {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	at := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, sorted, nil) }
	return &Distribution{
		Turns: int64(len(values)), Mean: stat.Mean(values, nil), Min: sorted[0], P1: at(.01), P5: at(.05), P25: at(.25), P50: at(.5),
		P75: at(.75), P95: at(.95), P99: at(.99), Max: sorted[len(sorted)-1],
	}
}

// groups are sorted: the largest first.
func groups(by map[string]*group) []Group {
	out := make([]Group, 0, len(by))
	for key, g := range by {
		x := Group{Key: key, Turns: g.turns, Rewarded: g.before.n, RewardFlips: g.rewards, AdvantageFlips: g.advantages}
		if g.before.n > 0 {
			x.Before, x.After = *g.before.mean(), *g.after.mean()
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Or(-cmp.Compare(a.Turns, b.Turns), cmp.Compare(a.Key, b.Key)) })
	return out
}

// bins part the rewards: 0.1 wide, or wider by factors of ten where some rewards are so large that it would be too many.
type bins struct {
	width float64
	first int // number of the lowest one
	count int
}

func binsFor(lists ...[]float64) bins {
	low, high := math.Inf(1), math.Inf(-1)
	for _, values := range lists {
		for _, v := range values {
			low, high = min(low, v), max(high, v)
		}
	}
	b := bins{width: leastWidth}
	if low > high {
		return b
	}
	for (high-low)/b.width >= mostBins || math.Abs(low)/b.width > 1e9 || math.Abs(high)/b.width > 1e9 {
		b.width *= 10
	}
	b.first = b.number(low)
	b.count = b.number(high) - b.first + 1
	return b
}

// number is the bin that a reward falls into. The hair keeps what stands at a bin's lower end, but for rounding, in it.
func (b bins) number(v float64) int { return int(math.Floor(v/b.width + 1e-9)) }

// low is the lower end of a bin.
func (b bins) low(number int) float64 { return float64(number) * b.width }

func (b bins) histogram(before, after []float64) Histogram {
	h := Histogram{From: b.low(b.first), Width: b.width, Before: make([]int64, b.count), After: make([]int64, b.count)}
	for _, v := range before {
		h.Before[b.number(v)-b.first]++
	}
	for _, v := range after {
		h.After[b.number(v)-b.first]++
	}
	return h
}

func (b bins) density(before, after []float64) []Cell {
	counts := map[[2]int]int64{}
	for i := range before {
		counts[[2]int{b.number(before[i]), b.number(after[i])}]++
	}
	out := make([]Cell, 0, len(counts))
	for at, n := range counts {
		out = append(out, Cell{b.low(at[0]), b.low(at[1]), n})
	}
	slices.SortFunc(out, func(a, b Cell) int { return cmp.Or(cmp.Compare(a.Before, b.Before), cmp.Compare(a.After, b.After)) })
	return out
}

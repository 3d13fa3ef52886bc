package replay

import (
	"math"
	"slices"

	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// Tally counts what a replay changes. It keeps 32 bytes a turn.
type Tally struct {
	spec                  *rewardspec.Spec
	report                Report
	before, after         []float64 // rewards, of the turns that have one
	bothBefore, bothAfter []float64 // of the turns that have both
	flows                 map[[2]ledger.Disposition]int64
	components            map[string]*[2]sum
	componentOrder        []string
	by                    [kinds]map[string]*group
	largest               []Change // the largest first
}

// What turns are grouped by.
const (
	stratum = iota
	version
	arm
	kinds
)

type sum struct {
	total float64
	n     int64
}

func (s *sum) add(v float64) { s.total, s.n = s.total+v, s.n+1 }

func (s *sum) mean() *float64 {
	if s.n == 0 {
		return nil
	}
	m := s.total / float64(s.n)
	return &m
}

type group struct {
	turns               int64
	before, after       sum
	rewards, advantages Flips
}

// NewTally counts for a replay under r.
func NewTally(r *reward.Reward) *Tally {
	t := &Tally{spec: r.Spec(), flows: map[[2]ledger.Disposition]int64{}, components: map[string]*[2]sum{}}
	t.report.Spec, t.report.Baseline, t.report.Before = r.Spec().ID(), r.Baseline().Version, map[string]int64{}
	for i := range t.by {
		t.by[i] = map[string]*group{}
	}
	return t
}

// Add counts rows before and after, in the order of the ledger.
func (t *Tally) Add(before, after []ledger.Row) {
	for i := range before {
		if before[i].Kind != ledger.Turn {
			t.report.Amendments++
			continue
		}
		t.turn(&before[i], &after[i])
	}
}

func (t *Tally) turn(before, after *ledger.Row) {
	r := &t.report
	r.Turns++
	r.Before[before.RewardSpec+", baseline "+before.BaselineVersion]++
	if OtherSettleAfter(t.spec, before) {
		r.OtherSettleAfter++
	}
	if same(before.Reward, after.Reward) && same(before.Advantage, after.Advantage) && before.Disposition == after.Disposition {
		r.Unchanged++
	}
	t.flows[[2]ledger.Disposition{before.Disposition, after.Disposition}]++
	t.component(0, before.Components)
	t.component(1, after.Components)

	of := [kinds]*group{t.group(stratum, before.Stratum), t.group(version, before.PolicyVersion)}
	if before.Experiment != "" {
		of[arm] = t.group(arm, before.Experiment+"/"+before.Arm)
	}
	for _, g := range of {
		if g != nil {
			g.turn(before, after)
		}
	}
	if before.Reward.Known {
		t.before = append(t.before, before.Reward.Number)
	}
	if after.Reward.Known {
		t.after = append(t.after, after.Reward.Number)
	}
	r.RewardFlips.count(before.Reward, after.Reward)
	r.AdvantageFlips.count(before.Advantage, after.Advantage)
	if before.Reward.Known && after.Reward.Known {
		r.Rewarded++
		t.bothBefore, t.bothAfter = append(t.bothBefore, before.Reward.Number), append(t.bothAfter, after.Reward.Number)
		t.change(Change{before.SessionID, before.TurnID, before.Reward.Number, after.Reward.Number})
	}
}

func same(a, b ledger.Value) bool {
	return a.Known == b.Known && math.Float64bits(a.Number) == math.Float64bits(b.Number)
}

func (t *Tally) component(side int, of []ledger.Component) {
	for _, c := range of {
		s := t.components[c.Name]
		if s == nil {
			s = &[2]sum{}
			t.components[c.Name] = s
			t.componentOrder = append(t.componentOrder, c.Name)
		}
		if c.Value.Known {
			s[side].add(c.Value.Number)
		}
	}
}

func (t *Tally) group(kind int, key string) *group {
	g := t.by[kind][key]
	if g == nil {
		g = &group{}
		t.by[kind][key] = g
	}
	return g
}

func (g *group) turn(before, after *ledger.Row) {
	g.turns++
	g.rewards.count(before.Reward, after.Reward)
	g.advantages.count(before.Advantage, after.Advantage)
	if before.Reward.Known && after.Reward.Known {
		g.before.add(before.Reward.Number)
		g.after.add(after.Reward.Number)
	}
}

func (f *Flips) count(before, after ledger.Value) {
	switch {
	case !before.Known || !after.Known:
	case before.Number < 0 && after.Number > 0:
		f.Up++
	case before.Number > 0 && after.Number < 0:
		f.Down++
	}
}

// change keeps the largest; of equal ones those that came first.
func (t *Tally) change(c Change) {
	size := func(c Change) float64 { return math.Abs(c.After - c.Before) }
	if size(c) == 0 || len(t.largest) == manyChanges && size(c) <= size(t.largest[manyChanges-1]) {
		return
	}
	i := slices.IndexFunc(t.largest, func(o Change) bool { return size(c) > size(o) })
	if i < 0 {
		i = len(t.largest)
	}
	t.largest = slices.Insert(t.largest, i, c)
	t.largest = t.largest[:min(len(t.largest), manyChanges)]
}

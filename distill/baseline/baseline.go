package baseline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/distill/replay"
	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

const (
	// DefaultShrinkage is how many units the global mean counts for in a stratum's value, and an even chance in a share of
	// edit requests.
	DefaultShrinkage = 50
	// MinTurns is how many turns a stratum needs for percentiles of its own; with fewer it has the global ones.
	MinTurns = 200
)

// Options say how a baseline is called and made.
type Options struct {
	Version   string  // as the rows name it
	Shrinkage float64 // units; 0: DefaultShrinkage
}

// ErrNoRewards means that no turn of the interval has a reward under the spec.
var ErrNoRewards = errors.New("no turn of the interval has a reward under this spec, so there is nothing to make a baseline of; choose a longer interval, or baseline v0")

// Compute makes the baseline of a spec from the ledger rows of an interval, in any order; amendments are left out. Percentiles
// and shares of edit requests come first, because rewards depend on them; then the turns are replayed under them, and
// the mean of their rewards is the value.
//
// A stratum's value is the mean over its units of each unit's mean reward, without malformed calls, shrunk to the global
// mean: (n·mean + s·global) / (n + s) for n units. Malformed calls are left out, or a policy that breaks more of them would lower
// what it is compared with. Nothing that is chosen by what a turn did enters a share of edit requests: it is that of the
// requests whose intent was stamped, among turns alike.
func Compute(spec *rewardspec.Spec, rows []ledger.Row, o Options) (*rewardspec.Baseline, error) {
	if o.Shrinkage == 0 {
		o.Shrinkage = DefaultShrinkage
	}
	turns := make([]ledger.Row, 0, len(rows))
	for i := range rows {
		if rows[i].Kind == ledger.Turn {
			turns = append(turns, withoutInvalid(rows[i]))
		}
	}
	b := rewardspec.BaselineV0()
	b.Version, b.Shrinkage, b.Strata = o.Version, o.Shrinkage, map[string]rewardspec.Stratum{}
	percentiles(b, spec, turns)
	shares(b, turns)
	if err := values(b, spec, turns); err != nil {
		return nil, err
	}
	return b, nil
}

var invalidPlace = ledger.SignalIndex["tools.invalid"]

// withoutInvalid is the row as if nobody had looked for malformed calls: none is priced, and none is evidence.
func withoutInvalid(row ledger.Row) ledger.Row {
	if invalidPlace < len(row.Signals) {
		row.Signals = slices.Clone(row.Signals)
		row.Signals[invalidPlace] = ledger.Value{}
	}
	return row
}

// measure is what percentiles are taken of.
type measure struct{ wall, work, characters []float64 }

func (m *measure) add(spec *rewardspec.Spec, row *ledger.Row) {
	if v := row.Signal("effort.wall_s"); v.Known && v.Number > 0 {
		m.wall = append(m.wall, v.Number)
	}
	if v := reward.Work(spec, row.Signals); v.Known && v.Number > 0 {
		m.work = append(m.work, v.Number)
	}
	if v := row.Signal("edits.characters"); v.Known && row.Signal("outcome.delivered").Number == 1 {
		m.characters = append(m.characters, v.Number)
	}
}

// into takes over the percentiles that enough turns stand for.
func (m *measure) into(s rewardspec.Stratum) rewardspec.Stratum {
	for _, p := range []struct {
		of    []float64
		share float64
		into  *float64
	}{{m.wall, .95, &s.WallSP95}, {m.work, .95, &s.XRef}, {m.characters, .10, &s.CharsP10}} {
		if len(p.of) >= MinTurns {
			*p.into = percentile(p.of, p.share)
		}
	}
	return s
}

// percentile is the smallest value that so large a share of all does not exceed.
func percentile(values []float64, share float64) float64 {
	slices.Sort(values)
	return values[min(int(share*float64(len(values))), len(values)-1)]
}

func percentiles(b *rewardspec.Baseline, spec *rewardspec.Spec, turns []ledger.Row) {
	var all measure
	by := map[string]*measure{}
	for i := range turns {
		key := turns[i].Stratum
		if key == "" {
			continue
		}
		if by[key] == nil {
			by[key] = &measure{}
		}
		by[key].add(spec, &turns[i])
		all.add(spec, &turns[i])
	}
	b.Global = all.into(b.Global)
	for key, m := range by {
		b.Strata[key] = m.into(b.Global)
	}
}

// shares are those of edit requests, for the strata in which nobody stamps what a request asks for.
func shares(b *rewardspec.Baseline, turns []ledger.Row) {
	all := units{}
	by := map[string]units{}
	for i := range turns {
		row := &turns[i]
		asked, stamped := askedForEdit(row)
		_, alike, ok := strings.Cut(row.Stratum, "/")
		if !stamped || !ok {
			continue
		}
		if by[alike] == nil {
			by[alike] = units{}
		}
		by[alike].add(row, asked)
		all.add(row, asked)
	}
	mean, n := all.mean()
	b.PEditUnknown = shrunk(mean, n, .5, b.Shrinkage)
	for key, s := range b.Strata {
		_, alike, _ := strings.Cut(key, "/")
		if of := by[alike]; of != nil {
			mean, n := of.mean()
			share := shrunk(mean, n, b.PEditUnknown, b.Shrinkage)
			s.PEdit = &share
			b.Strata[key] = s
		}
	}
}

// askedForEdit says whether the request asked for an edit, where its intent alone says so.
func askedForEdit(row *ledger.Row) (asked float64, stamped bool) {
	switch row.Intent {
	case "edit":
		return 1, true
	case "ask", "review":
		return 0, true
	}
	return 0, false
}

func values(b *rewardspec.Baseline, spec *rewardspec.Spec, turns []ledger.Row) error {
	r, err := reward.Compile(spec, "", b)
	if err != nil {
		return err
	}
	replayed, err := replay.Rescore(r, turns)
	if err != nil {
		return fmt.Errorf("replaying the interval: %w", err)
	}
	all := units{}
	by := map[string]units{}
	for i := range replayed {
		row := &replayed[i]
		if !row.Reward.Known {
			continue
		}
		if by[row.Stratum] == nil {
			by[row.Stratum] = units{}
		}
		by[row.Stratum].add(row, row.Reward.Number)
		all.add(row, row.Reward.Number)
	}
	if len(all) == 0 {
		return ErrNoRewards
	}
	b.Global.Value, b.Global.Units = all.mean()
	for key, s := range b.Strata {
		mean, n := by[key].mean()
		s.Value, s.Units = shrunk(mean, n, b.Global.Value, b.Shrinkage), n
		b.Strata[key] = s
	}
	return nil
}

// units are sums by unit, so that nobody counts more than once.
type units map[string]*struct{ sum, n float64 }

func (u units) add(row *ledger.Row, value float64) {
	unit := row.UnitHash
	if unit == "" {
		unit = "session " + row.SessionID
	}
	if u[unit] == nil {
		u[unit] = &struct{ sum, n float64 }{}
	}
	u[unit].sum += value
	u[unit].n++
}

// mean is the mean of the units' means, and how many units there are.
func (u units) mean() (mean, n float64) {
	for _, unit := range slices.Sorted(maps.Keys(u)) {
		mean += u[unit].sum / u[unit].n
	}
	if len(u) == 0 {
		return 0, 0
	}
	return mean / float64(len(u)), float64(len(u))
}

func shrunk(mean, n, towards, by float64) float64 { return (n*mean + by*towards) / (n + by) }

package reward

import (
	"strings"

	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// component is a free component of the spec, with what it reads: the fixed blocks take hold of components by the
// signals that they read, never by their names, so that no renaming slips out of a block.
type component struct {
	name  string
	value *rewardspec.Expression
	needs []int // places in ledger.Signals

	retention bool // how much of the edits is still there
	followUp  bool // what the next request says
	verdict   bool // a thumb, or checks that ran
	tests     bool // tests deleted or weakened
	cost      bool // effort, tool use and latency only: no evidence, and a question turn's own
}

func compile(c rewardspec.Component) component {
	e := c.Value
	out := component{
		name: c.Name, value: e,
		retention: e.Reads("edits.retention"),
		followUp:  e.Reads("follow_up."),
		verdict:   e.Reads("explicit.") || e.Reads("care.checks_"),
		tests:     e.Reads("care.tests_"),
		cost:      true,
	}
	for _, name := range e.Signals {
		out.needs = append(out.needs, ledger.SignalIndex[name])
		if !strings.HasPrefix(name, "effort.") && !strings.HasPrefix(name, "tools.") {
			out.cost = false
		}
	}
	return out
}

// of computes the component; it is null as soon as a signal that it refers to is.
func (c component) of(t turn) ledger.Value {
	for _, i := range c.needs {
		if i >= len(t.Signals) || !t.Signals[i].Known {
			return ledger.Value{}
		}
	}
	return c.value.Value(t.read)
}

// evidence says whether the component's value says anything of the outcome. Weakened tests do where they were seen;
// that none were is no evidence of anything.
func (c component) evidence(v ledger.Value) bool {
	return v.Known && (c.retention || c.followUp || c.verdict || (c.tests && v.Number != 0))
}

// turn is an input with its stratum's numbers.
type turn struct {
	Input
	stratum rewardspec.Stratum
}

func (t turn) signal(name string) ledger.Value {
	if i := ledger.SignalIndex[name]; i < len(t.Signals) {
		return t.Signals[i]
	}
	return ledger.Value{}
}

func (t turn) read(name string) float64 {
	switch name {
	case "stratum.wall_s_p95":
		return t.stratum.WallSP95
	case "stratum.x_ref":
		return t.stratum.XRef
	case "stratum.chars_p10":
		return t.stratum.CharsP10
	}
	return t.signal(name).Number
}

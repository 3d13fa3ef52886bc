package lint

import (
	"fmt"
	"slices"
	"strings"

	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// evidenceOf is the kind of evidence that a signal is, empty if it is none. Signals of one kind are seen together.
func evidenceOf(name string) string {
	switch {
	case strings.HasPrefix(name, "edits.retention_"): // one horizon may be seen and another not
		return "retention after " + name[strings.LastIndex(name, "_")+1:]
	case name == "edits.retention":
		return "retention"
	case name == "follow_up.polarity", name == "follow_up.confidence":
		return "the follow-up"
	case strings.HasPrefix(name, "explicit."):
		return "the thumb"
	case strings.HasPrefix(name, "care.checks_"):
		return "checks"
	case strings.HasPrefix(name, "care.tests_"):
		return "weakened tests"
	}
	return ""
}

// family joins retention's horizons.
func family(kind string) string {
	if strings.HasPrefix(kind, "retention") {
		return "retention"
	}
	return kind
}

// kinds are the kinds of evidence that a component reads, in the order of its signals.
func kinds(c *rewardspec.Component) []string {
	var list []string
	for _, name := range c.Value.Signals {
		if kind := evidenceOf(name); kind != "" && !slices.Contains(list, kind) {
			list = append(list, kind)
		}
	}
	return list
}

// hiders are the signals of a component that may be missing while evidence of that kind is there.
func hiders(c *rewardspec.Component, kind string) []string {
	var list []string
	for _, name := range c.Value.Signals {
		if nullable(name) && evidenceOf(name) != kind {
			list = append(list, name)
		}
	}
	return list
}

// aloneElsewhere says whether another component reads that family of evidence with nothing that could hide it.
func (l *linter) aloneElsewhere(c *rewardspec.Component, kind string) bool {
	for i := range l.spec.Components {
		other := &l.spec.Components[i]
		if other == c {
			continue
		}
		for _, k := range kinds(other) {
			if family(k) == family(kind) && len(hiders(other, k)) == 0 {
				return true
			}
		}
	}
	return false
}

// evidence finds where a missing signal takes evidence with it: a component is null as soon as one of its signals is.
func (l *linter) evidence(c *rewardspec.Component) {
	for _, kind := range kinds(c) {
		by := hiders(c, kind)
		if len(by) == 0 {
			continue
		}
		elsewhere := l.aloneElsewhere(c, kind)
		silent := slices.ContainsFunc(by, func(n string) bool { return evidenceOf(n) == "the follow-up" })
		if silent && family(kind) == "retention" && !elsewhere {
			l.add(Finding{
				Error, SilenceCensored, c.Line,
				fmt.Sprintf("component %q reads %s and the follow-up: where the user says nothing it is null, so silence is no evidence, the turn is censored, and no edit is ever paid for being kept in peace", c.Name, kind),
				"make two components of it: one that reads retention alone, one that reads the follow-up alone",
			})
			continue
		}
		f := Finding{
			Error, EvidenceHidden, c.Line,
			fmt.Sprintf("component %q reads %s together with %s: where that is missing the component is null, and %s counts nowhere", c.Name, kind, list(by), kind),
			fmt.Sprintf("let a component read %s alone, and put %s into another", kind, list(by)),
		}
		if elsewhere {
			f.Level = Warning
			f.Message = fmt.Sprintf("component %q reads %s together with %s: where that is missing the whole component is null; what is left of %s is the other component that reads it alone", c.Name, kind, list(by), kind)
			f.Do = "nothing, if that is meant; otherwise split the component"
		}
		l.add(f)
	}
}

// compared warns of comparisons with what may be missing: they look like a way to tell missing from 0, and are none.
func (l *linter) compared(c *rewardspec.Component) {
	var names []string
	for _, name := range c.Value.Compared {
		if nullable(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	l.add(Finding{
		Warning, MissingAsNumber, c.Line,
		fmt.Sprintf("component %q compares %s, which may be missing; missing is no number, neither 0 nor below it: the whole component is null then, no branch of ?: counts, and && and || don't change that", c.Name, list(names)),
		"nothing, if the component should say nothing then; otherwise write what must count anyway as a component of its own, without the comparison",
	})
}

const divisionTries = 3000

// division looks for known signals that give no finite number.
func (l *linter) division(c *rewardspec.Component) {
	combinations := len(l.strata)
	for _, name := range c.Value.Signals {
		combinations = min(combinations*len(l.values[name]), divisionTries+1)
	}
	for try := range min(combinations, divisionTries) {
		in := reward.Input{Signals: make([]ledger.Value, len(ledger.Signals))}
		if combinations <= divisionTries { // all of them
			in.Stratum = l.strata[try%len(l.strata)]
			rest := try / len(l.strata)
			for _, name := range c.Value.Signals {
				values := l.values[name]
				set(in, name, values[rest%len(values)])
				rest /= len(values)
			}
		} else {
			in.Stratum = pick(l.random, l.strata)
			for _, name := range c.Value.Signals {
				set(in, name, pick(l.random, l.values[name]))
			}
		}
		coherent(in)
		if !l.known(c, in) || c.Value.Value(l.read(in)).Known {
			continue
		}
		at := []string{told(in, c.Value.Signals)}
		for _, name := range rewardspec.StratumConstants {
			if strings.Contains(c.Value.Source, name) {
				at = append(at, name+" = "+number(l.read(in)(name)))
			}
		}
		l.add(Finding{
			Error, NullByDivision, c.Line,
			fmt.Sprintf("component %q is no finite number, thus null, although all that it reads is known: %s; who steers a turn there is rid of it", c.Name, strings.TrimPrefix(strings.Join(at, ", "), ", ")),
			"keep what it divides by away from 0, for instance max(x, 1)",
		})
		return
	}
}

func (l *linter) known(c *rewardspec.Component, in reward.Input) bool {
	return !slices.ContainsFunc(c.Value.Signals, func(n string) bool { return !get(in, n).Known })
}

// read gives an expression the turn's signals and its stratum's constants.
func (l *linter) read(in reward.Input) func(string) float64 {
	stratum := l.baseline.At(in.Stratum)
	return func(name string) float64 {
		switch name {
		case "stratum.wall_s_p95":
			return stratum.WallSP95
		case "stratum.x_ref":
			return stratum.XRef
		case "stratum.chars_p10":
			return stratum.CharsP10
		}
		return get(in, name).Number
	}
}

// of is a component's value in a turn, null if one of its signals is.
func (l *linter) of(c *rewardspec.Component, in reward.Input) ledger.Value {
	if !l.known(c, in) {
		return ledger.Value{}
	}
	return c.Value.Value(l.read(in))
}

// list is names in words.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

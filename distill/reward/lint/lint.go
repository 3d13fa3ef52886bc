package lint

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"millrace/distill/reward"
	"millrace/schemas/rewardspec"
)

// Options are what a spec is tried with.
type Options struct {
	Baseline *rewardspec.Baseline // whose strata are tried besides made ones; nil: v0
	Seed     uint64
}

// Check reads a reward spec, as far as it can be read, and says what is wrong with it. The same document and options
// give the same report.
func Check(document []byte, o Options) (*Report, error) {
	if o.Baseline == nil {
		o.Baseline = rewardspec.BaselineV0()
	}
	report := &Report{Baseline: o.Baseline.Version, Seed: o.Seed, Findings: []Finding{}}
	spec, problems := rewardspec.ParseDraft(document)
	incomplete := false
	for _, problem := range problems {
		f := Finding{Level: Error, Code: Document, Message: problem.Error(), Do: "change what the message names; millrace reward show spec-schema lists the fields"}
		var p *rewardspec.Problem
		if errors.As(problem, &p) {
			f.Line, f.Message = p.Line, p.Text
			incomplete = incomplete || strings.HasPrefix(p.Text, "component")
		}
		report.add(f)
	}
	if spec == nil {
		report.sort()
		return report, nil
	}
	report.Spec = spec.ID()
	l, err := newLinter(spec, o, report)
	if err != nil {
		return nil, err
	}
	for i := range spec.Components {
		l.evidence(&spec.Components[i])
		l.compared(&spec.Components[i])
		l.division(&spec.Components[i])
	}
	l.slopes()
	if !incomplete { // or what a misspelt component reads would be missed as well
		l.unread()
		l.blind()
	}
	l.work()
	l.clip()
	l.law()
	report.sort()
	return report, nil
}

// linter is one spec under examination.
type linter struct {
	*Report
	spec     *rewardspec.Spec
	reward   *reward.Reward // as it would score, with strata of its own
	open     *reward.Reward // the same without a clip
	strata   []string       // to try
	signals  []string       // that anything depends on
	values   map[string][]float64
	random   *rand.Rand
	moves    map[string]bool // signals that some component's value was seen to depend on
	baseline *rewardspec.Baseline
}

const unbounded = 1e9 // a clip that no sum reaches

func newLinter(spec *rewardspec.Spec, o Options, report *Report) (*linter, error) {
	l := &linter{Report: report, spec: spec, random: rand.New(rand.NewPCG(o.Seed, 0)), moves: map[string]bool{}}
	l.baseline, l.strata = strata(o.Baseline)
	var err error
	if l.reward, err = reward.Compile(spec, "", l.baseline); err != nil {
		return nil, fmt.Errorf("compiling the spec: %w", err)
	}
	wide := *spec
	wide.Clip = rewardspec.Clip{Low: -unbounded, High: unbounded}
	if l.open, err = reward.Compile(&wide, "", l.baseline); err != nil {
		return nil, fmt.Errorf("compiling the spec without its clip: %w", err)
	}
	l.signals = relevant(spec)
	l.values = make(map[string][]float64, len(l.signals))
	for _, name := range l.signals {
		l.values[name] = boundaries(name, spec)
	}
	return l, nil
}

// strata are two made ones whose numbers are far from the usual, and of the baseline's own those that have the smallest or the
// largest of a number: what is wrong in one between them is wrong in one of these.
func strata(b *rewardspec.Baseline) (*rewardspec.Baseline, []string) {
	out := *b
	out.Strata = map[string]rewardspec.Stratum{
		"lint/low":  {WallSP95: 10, XRef: 100, CharsP10: 50, Value: -2},
		"lint/high": {WallSP95: 900, XRef: 1e6, Value: 1},
	}
	keys := []string{"", "lint/low", "lint/high"}
	names := sorted(b.Strata)
	for _, number := range []func(rewardspec.Stratum) float64{
		func(s rewardspec.Stratum) float64 { return s.WallSP95 },
		func(s rewardspec.Stratum) float64 { return s.XRef },
		func(s rewardspec.Stratum) float64 { return s.CharsP10 },
		func(s rewardspec.Stratum) float64 { return s.Value },
	} {
		by := func(x, y string) int { return cmp.Compare(number(b.Strata[x]), number(b.Strata[y])) }
		if len(names) == 0 {
			break
		}
		for _, name := range []string{slices.MinFunc(names, by), slices.MaxFunc(names, by)} {
			if !slices.Contains(keys, name) {
				out.Strata[name] = b.Strata[name]
				keys = append(keys, name)
			}
		}
	}
	return &out, keys
}

// line is where a block or field stands; of one that is missing, where the document begins.
func (l *linter) line(name string) int { return max(1, l.spec.Lines[name]) }

func reads(c *rewardspec.Component, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(c.Value.Signals, n) })
}

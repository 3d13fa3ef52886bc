package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"millrace/distill/rehearsal"
	"millrace/schemas/rewardspec"
)

// RewardShow prints a shipped document.
type RewardShow struct {
	What string `arg:"" default:"spec" enum:"spec,scenarios,spec-schema,scenarios-schema,baseline-schema" help:"${enum}."`
}

// Help is what 'millrace reward show --help' adds.
func (*RewardShow) Help() string {
	return `  millrace reward show > mine.yaml                     a spec to change
  millrace reward show spec-schema > spec.schema.json  completion for the editor`
}

// Run prints.
func (c *RewardShow) Run(out *Output) error {
	_, spec := rewardspec.Default()
	_, scenarios := rewardspec.DefaultScenarios()
	document := map[string][]byte{
		"spec": spec, "scenarios": scenarios, "spec-schema": rewardspec.Schema(),
		"scenarios-schema": rewardspec.ScenariosSchema(), "baseline-schema": rewardspec.BaselineSchema(),
	}[c.What]
	_, err := out.Out.Write(document)
	return err
}

// RewardTest acts scenarios out.
type RewardTest struct {
	Spec       string   `arg:"" optional:"" placeholder:"SPEC" help:"The reward spec, or a draft of one. Default: the shipped one."`
	Scenarios  []string `placeholder:"FILE" help:"Scenarios of your own, besides the shipped ones."`
	Variations int      `default:"20" help:"How often each is acted out varied: other sizes, units, languages, intents, noise."`
	Seed       uint64   `default:"1" help:"Of the variations."`
	Verbose    bool     `short:"v" help:"Also list what holds."`
}

// Help is what 'millrace reward test --help' adds.
func (*RewardTest) Help() string {
	return `Each side of a scenario is a whole event stream through the real engine. A spec that Parse would refuse is tested all the same,
after what is wrong with it, so that one sees what a block is for. Exit code 1 if a scenario fails.

  millrace reward test mine.yaml
  millrace reward test mine.yaml --scenarios our-hacks.yaml
  millrace reward show scenarios`
}

// Run implements the command.
func (c *RewardTest) Run(_ context.Context, out *Output) error {
	spec, document, problems, err := readDraft(c.Spec)
	if err != nil {
		return err
	}
	if c.Variations < 0 || c.Variations > 1000 {
		return usagef("--variations %d: from 0 to 1000", c.Variations)
	}
	scenarios, err := readScenarios(c.Scenarios)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(out.Err, p)
	}
	result, err := rehearsal.Test(spec, document, scenarios, rehearsal.Options{Variations: c.Variations, Seed: c.Seed})
	if err != nil {
		return err
	}
	if err := report(out, result, func(w io.Writer) error { printScenarios(w, spec, result, c.Verbose); return nil }); err != nil {
		return err
	}
	switch {
	case result.Failed > 0:
		return fmt.Errorf("%d of %d scenarios fail under %s", result.Failed, len(result.Results), spec.ID())
	case len(problems) > 0:
		return fmt.Errorf("%s holds the scenarios, and could not be adopted: %d problems in the document", spec.ID(), len(problems))
	}
	return nil
}

// readDraft reads a spec as far as it can be read, with what is wrong with it.
func readDraft(path string) (*rewardspec.Spec, []byte, []error, error) {
	if path == "" {
		spec, document := rewardspec.Default()
		return spec, document, nil, nil
	}
	document, err := readFile("reward spec", path)
	if err != nil {
		return nil, nil, nil, err
	}
	spec, problems := rewardspec.ParseDraft(document)
	if spec == nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, problems[0])
	}
	return spec, document, problems, nil
}

// readScenarios are the shipped ones, the order of behaviours among them, and those of files.
func readScenarios(paths []string) ([]rewardspec.Scenario, error) {
	shipped, _ := rewardspec.DefaultScenarios()
	known := []*rewardspec.Scenarios{shipped}
	all := append(rehearsal.OrderOf(shipped.Order, shipped.Behaviours), shipped.Scenarios...)
	for _, path := range paths {
		document, err := readFile("scenarios", path)
		if err != nil {
			return nil, err
		}
		own, err := rewardspec.ParseScenarios(document, known...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, s := range own.Scenarios {
			if slices.ContainsFunc(all, func(o rewardspec.Scenario) bool { return o.Name == s.Name }) {
				return nil, fmt.Errorf("%s line %d: there is a scenario %q already; choose another name", path, s.Line, s.Name)
			}
		}
		known = append(known, own)
		var behaviours []rewardspec.Behaviour
		for _, k := range known {
			behaviours = append(behaviours, k.Behaviours...)
		}
		all = append(all, rehearsal.OrderOf(own.Order, behaviours)...)
		all = append(all, own.Scenarios...)
	}
	return all, nil
}

func printScenarios(w io.Writer, spec *rewardspec.Spec, r *rehearsal.Report, verbose bool) {
	for _, x := range r.Results {
		if x.OK {
			if verbose {
				fmt.Fprintf(w, "ok    %s\n", x.Name)
			}
			continue
		}
		fmt.Fprintf(w, "FAIL  %s\n      %s\n      %s\n", x.Name, x.Problem, x.Why)
		for _, side := range []struct {
			name string
			o    *rehearsal.Outcome
		}{{"better", x.Better}, {"worse", x.Worse}, {"turn", x.Turn}} {
			if side.o != nil {
				fmt.Fprintf(w, "      %-6s  %s\n", side.name, told(side.o))
			}
		}
		if x.Variation != nil {
			fmt.Fprintf(w, "      in %d of %d variations, first %+v\n", x.Failed, x.Variations, *x.Variation)
		}
	}
	fmt.Fprintf(w, "%s: %d of %d scenarios hold (seed %d)\n", spec.ID(), len(r.Results)-r.Failed, len(r.Results), r.Seed)
}

// told is what a side earned, and from what.
func told(o *rehearsal.Outcome) string {
	if o.Reward == nil {
		return strings.TrimSpace(fmt.Sprintf("%s %s", o.Disposition, o.Reason))
	}
	parts := []string{fmt.Sprintf("%+.3f =", *o.Reward)}
	for _, name := range slices.Sorted(maps.Keys(o.Components)) {
		if v := o.Components[name]; v != 0 {
			parts = append(parts, fmt.Sprintf("%s %+.3f", name, v))
		}
	}
	return strings.Join(parts, " ")
}

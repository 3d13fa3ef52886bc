package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"millrace/distill/stress"
)

// RewardStress lets a policy climb a spec.
type RewardStress struct {
	Spec     string   `arg:"" optional:"" placeholder:"SPEC" help:"The reward spec, or a draft of one. Default: the shipped one."`
	LeaveOut []string `placeholder:"WHAT" help:"Turns that your trainer would not train on; several, with commas. The help text lists them."`
	Rounds   int      `default:"1500" help:"Gradient steps, each on 2,048 turns."`
	Seed     uint64   `default:"1" help:"Of the policy's luck."`
}

// Help is what 'millrace reward stress --help' adds.
func (*RewardStress) Help() string {
	var b strings.Builder
	b.WriteString(`A small policy can do everything that one has been seen to do: attempt an edit, give up, ask, break a call, hang, delete the test … It follows the
gradient of the advantage over easy, middling and hard edits, which the baseline can't tell apart, and over requests to explain. Exit code 1 if
it ends anywhere but at honest work. See docs/stress.md for the world that it lives in, and what this doesn't show.

  millrace reward stress mine.yaml
  millrace reward stress --leave-out invalid_calls     what if the trainer's data loader drops these?

Turns that --leave-out names:
`)
	for _, f := range stress.Filters {
		fmt.Fprintf(&b, "  %-14s %s\n", f.Name, f.Doc)
	}
	return b.String()
}

// Run implements the command.
func (c *RewardStress) Run(_ context.Context, out *Output) error {
	for _, name := range c.LeaveOut {
		if !slices.Contains(filterNames(), name) {
			return usagef("--leave-out %s: there are %s", name, strings.Join(filterNames(), ", "))
		}
	}
	if c.Rounds < 1 || c.Rounds > 100_000 {
		return usagef("--rounds %d: from 1 to 100000", c.Rounds)
	}
	spec, document, problems, err := readDraft(c.Spec)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(out.Err, p)
	}
	result, err := stress.Run(spec, document, stress.Options{Seed: c.Seed, Rounds: c.Rounds, LeftOut: c.LeaveOut})
	if err != nil {
		return err
	}
	if err := report(out, result, func(w io.Writer) error { _, err := io.WriteString(w, result.Text()); return err }); err != nil {
		return err
	}
	if !result.OK {
		return fmt.Errorf("under %s the policy does not end at honest work", spec.ID())
	}
	if len(problems) > 0 {
		return fmt.Errorf("the policy ends at honest work, but %s could not be adopted: %d problems in the document", spec.ID(), len(problems))
	}
	return nil
}

func filterNames() []string {
	var names []string
	for _, f := range stress.Filters {
		names = append(names, f.Name)
	}
	return names
}

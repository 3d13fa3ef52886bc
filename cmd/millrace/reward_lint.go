package main

import (
	"context"
	"fmt"
	"io"

	"millrace/distill/reward/lint"
	"millrace/schemas/rewardspec"
)

// RewardLint looks for what a policy could use in a spec.
type RewardLint struct {
	Spec     string `arg:"" optional:"" placeholder:"SPEC" help:"The reward spec, or a draft of one. Default: the shipped one."`
	Baseline string `type:"existingfile" placeholder:"FILE" help:"A baseline whose extreme strata are tried too. Default: v0."`
	Seed     uint64 `default:"1" help:"Of the turns that are tried."`
}

// Help is what 'millrace reward lint --help' adds.
func (*RewardLint) Help() string {
	return `It reads the document and tries its expressions on turns at the borders and between. Exit code 1 if there is an error;
warnings may be meant. docs/reward.md says what each finding means.

  millrace reward lint mine.yaml
  millrace reward lint mine.yaml -o json`
}

// Run implements the command.
func (c *RewardLint) Run(_ context.Context, out *Output) error {
	_, document := rewardspec.Default()
	if c.Spec != "" {
		var err error
		if document, err = readFile("reward spec", c.Spec); err != nil {
			return err
		}
	}
	options := lint.Options{Seed: c.Seed}
	if c.Baseline != "" {
		text, err := readFile("baseline", c.Baseline)
		if err != nil {
			return err
		}
		if options.Baseline, err = rewardspec.ParseBaseline(text); err != nil {
			return fmt.Errorf("%s: %w", c.Baseline, err)
		}
	}
	result, err := lint.Check(document, options)
	if err != nil {
		return err
	}
	if err := report(out, result, func(w io.Writer) error { printFindings(w, result); return nil }); err != nil {
		return err
	}
	if result.Errors > 0 {
		return fmt.Errorf("reward lint: %s", counted(result))
	}
	return nil
}

func printFindings(w io.Writer, r *lint.Report) {
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\n    do: %s\n", f, f.Do)
	}
	spec := r.Spec
	if spec == "" {
		spec = "no spec"
	}
	fmt.Fprintf(w, "%s: %s (baseline %s, seed %d)\n", spec, counted(r), r.Baseline, r.Seed)
}

// counted is how much was found.
func counted(r *lint.Report) string {
	plural := func(n int, of string) string {
		if n == 1 {
			return "1 " + of
		}
		return fmt.Sprintf("%d %ss", n, of)
	}
	return plural(r.Errors, "error") + ", " + plural(r.Warnings, "warning")
}

// linted refuses a spec in which there is an error under a baseline; nil is v0, and its warnings are printed.
func linted(out *Output, spec *rewardspec.Spec, document []byte, baseline *rewardspec.Baseline) error {
	r, err := lint.Check(document, lint.Options{Seed: 1, Baseline: baseline})
	if err != nil {
		return err
	}
	if baseline != nil && r.Errors == 0 {
		return nil
	}
	for _, f := range r.Findings {
		fmt.Fprintf(out.Err, "%s\n    do: %s\n", f, f.Do)
	}
	if r.Errors > 0 {
		return fmt.Errorf("%s is not adopted: millrace reward lint finds %s in it (baseline %s)", spec.ID(), counted(r), r.Baseline)
	}
	return nil
}

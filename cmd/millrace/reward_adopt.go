package main

import (
	"context"
	"fmt"
	"io"

	"millrace/checkpoint"
	"millrace/checkpoint/adoption"
)

// RewardStatus shows what is in force.
type RewardStatus struct {
	Remote   `embed:""`
	Spec     bool `help:"Print the spec's document instead, as it was adopted." xor:"document"`
	Baseline bool `help:"Print the baseline's document instead." xor:"document"`
}

// Run reports.
func (c *RewardStatus) Run(ctx context.Context, out *Output) error {
	var r checkpoint.Reward
	if err := c.call(ctx, "GET", "/v1/reward", nil, &r); err != nil {
		return err
	}
	switch {
	case c.Spec:
		_, err := io.WriteString(out.Out, r.Documents.Spec)
		return err
	case c.Baseline && r.Documents.Baseline == "":
		return fmt.Errorf("baseline v0 has no document: p_edit .5, wall 300 s, x_ref 10,000, 20 characters, value 0 everywhere (docs/reward.md)")
	case c.Baseline:
		_, err := io.WriteString(out.Out, r.Documents.Baseline)
		return err
	}
	return report(out, r, func(w io.Writer) error {
		printReward(w, &r.InForce)
		return nil
	})
}

func printReward(w io.Writer, f *adoption.InForce) {
	fmt.Fprintf(w, "spec        %s  %s\n", f.Spec, f.SpecDigest)
	fmt.Fprintf(w, "baseline    %s  %s\n", f.Baseline, f.BaselineDigest)
	if f.ClassifierVersion != "" {
		fmt.Fprintf(w, "judge       %s\n", f.ClassifierVersion)
	}
	fmt.Fprintf(w, "since       %s, configuration %d (%s)\n", minute(f.AdoptedAt), f.Seq, inLog(f))
	fmt.Fprintf(w, "why         %s\n", f.Why)
}

func inLog(f *adoption.InForce) string {
	if f.InLog {
		return "the workers have it"
	}
	return "on its way to the workers"
}

// RewardHistory lists what was in force.
type RewardHistory struct {
	Remote `embed:""`
}

// Run lists.
func (c *RewardHistory) Run(ctx context.Context, out *Output) error {
	var answer struct {
		Rewards []adoption.InForce `json:"rewards"`
	}
	if err := c.call(ctx, "GET", "/v1/reward/history", nil, &answer); err != nil {
		return err
	}
	return report(out, answer.Rewards, func(w io.Writer) error {
		return table(w, func(line func(...any)) {
			line("seq", "since", "spec", "baseline", "judge", "why")
			for _, f := range answer.Rewards {
				line(f.Seq, minute(f.AdoptedAt), f.Spec, f.Baseline, f.ClassifierVersion, f.Why)
			}
		})
	})
}

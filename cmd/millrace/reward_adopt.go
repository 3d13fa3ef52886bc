package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"millrace/checkpoint"
	"millrace/checkpoint/adoption"
	"millrace/distill/rehearsal"
	"millrace/schemas/rewardspec"
)

// RewardAdopt puts a spec in force, with the baseline that a replay of the last interval gives.
type RewardAdopt struct {
	Remote     `embed:""`
	Window     `embed:""`
	Spec       string  `arg:"" type:"existingfile" help:"The reward spec."`
	Why        string  `required:"" help:"The reason, for the record."`
	Baseline   string  `default:"replay" placeholder:"replay|v0|keep|FILE" help:"The baseline that comes with it: of a replay of the interval (the default), v0, the one in force, or a document."`
	Judge      *string `placeholder:"VERSION" help:"Only this judge's verdicts count from now on; an empty one lets all count. Default: as it is."`
	Postgres   string  `env:"MILLRACE_POSTGRES" placeholder:"URL" help:"Postgres, for the interval's ledger."`
	Objects    string  `env:"MILLRACE_OBJECTS" placeholder:"URL" help:"Object store, for the interval's ledger."`
	DuringTest bool    `help:"Let settle_after change although an A/B test runs."`
	DryRun     bool    `help:"Say what would be adopted, and adopt nothing."`
}

// Help is what 'millrace reward adopt --help' adds.
func (*RewardAdopt) Help() string {
	return `The spec is linted and tested first (millrace reward lint, reward test); one with an error, or that fails a shipped scenario, is not adopted. Its baseline is made of the turns that settled between --from
and --to, by default in the five hours before the newest one. Documents go to the object store, then one control record tells every worker;
turns that settle after it are scored by the new spec, and no row that was written changes.

  millrace reward adopt mine.yaml --why "effort was too cheap"
  millrace reward adopt mine.yaml --why "..." --dry-run -o json
  millrace reward status`
}

// Run implements the command.
func (c *RewardAdopt) Run(ctx context.Context, out *Output) error {
	if strings.TrimSpace(c.Why) == "" {
		return usagef("--why is empty: give the reason, for the record")
	}
	document, err := readFile("reward spec", c.Spec)
	if err != nil {
		return err
	}
	spec, err := rewardspec.Parse(document)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Spec, err)
	}
	if err := linted(out, spec, document, nil); err != nil {
		return err
	}
	if err := proven(out, spec, document); err != nil {
		return err
	}
	var before checkpoint.Reward
	if err := c.call(ctx, "GET", "/v1/reward", nil, &before); err != nil {
		return err
	}
	request := adoption.Request{
		Spec: string(document), Why: c.Why, Replaces: before.SpecDigest, DuringTest: c.DuringTest, ClassifierVersion: before.ClassifierVersion,
	}
	if c.Judge != nil {
		request.ClassifierVersion = *c.Judge
	}
	if request.Baseline, err = c.baseline(ctx, out, spec, document, &before); err != nil {
		return err
	}
	if request.Baseline != "" { // what is fine under v0 may not be under the numbers that come with it
		b, err := rewardspec.ParseBaseline([]byte(request.Baseline))
		if err != nil {
			return err
		}
		if err := linted(out, spec, document, b); err != nil {
			return err
		}
	}
	if c.DryRun {
		return report(out, request, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "would put %s in the place of %s (baseline %s); nothing was adopted\n", spec.ID(), before.Spec, before.Baseline)
			return err
		})
	}
	var adopted adoption.InForce
	if err := c.call(ctx, "POST", "/v1/reward", request, &adopted); err != nil {
		return err
	}
	return report(out, adopted, func(w io.Writer) error {
		if adopted.Seq == before.Seq {
			fmt.Fprintln(w, "it is in force already: nothing changed")
		} else {
			fmt.Fprintln(w, "adopted")
		}
		printReward(w, &adopted)
		return nil
	})
}

// proven says whether the spec holds the shipped scenarios.
func proven(out *Output, spec *rewardspec.Spec, document []byte) error {
	scenarios, err := readScenarios(nil)
	if err != nil {
		return err
	}
	result, err := rehearsal.Test(spec, document, scenarios, rehearsal.Options{Variations: 20, Seed: 1})
	if err != nil {
		return err
	}
	if result.Failed > 0 {
		return fmt.Errorf("%s is not adopted: it fails %d of %d scenarios; `millrace reward test` says which", spec.ID(), result.Failed, len(result.Results))
	}
	out.Print("%s holds all %d scenarios", spec.ID(), len(result.Results))
	return nil
}

// baseline is the document that goes with the spec; empty: v0.
func (c *RewardAdopt) baseline(ctx context.Context, out *Output, spec *rewardspec.Spec, specDocument []byte, before *checkpoint.Reward) (string, error) {
	switch c.Baseline {
	case "v0":
		out.Print("baseline v0")
		return "", nil
	case "keep":
		out.Print("baseline %s stays", before.Baseline)
		return before.Documents.Baseline, nil
	case "replay":
	default:
		document, err := readFile("baseline", c.Baseline)
		if err != nil {
			return "", err
		}
		b, err := rewardspec.ParseBaseline(document)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.Baseline, err)
		}
		out.Print("baseline %s", b.Version)
		return string(document), nil
	}
	b, n, err := computed(ctx, out, LedgerSource{LedgerPlaces: LedgerPlaces{Postgres: c.Postgres, Objects: c.Objects, Data: c.Data}, Window: c.Window}, spec, specDocument)
	if err != nil {
		return "", err
	}
	text, err := b.Encode()
	if err != nil {
		return "", err
	}
	out.Print("baseline %s of %d ledger rows: value %+.3f of %.0f units, %d strata", b.Version, n, b.Global.Value, b.Global.Units, len(b.Strata))
	return string(text), nil
}

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

package main

import (
	"context"
	"fmt"

	"millrace/distill/survival"
	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
)

// LedgerSurvival is ledger survival.
type LedgerSurvival struct {
	LedgerSource `embed:""`
}

// Help is what 'millrace ledger survival --help' adds.
func (*LedgerSurvival) Help() string {
	return `A backend may go on reporting what is left of an edit (edit_observed) long after its turn has settled; the engine knows turns for eight
days. This compares the reward, which stands 20 minutes after the turn's end, with the observations 6 to 8 days behind it. Near 1: what is
rewarded is what survives. Near 0: the reward measures something else. Judge a version by some hundred turns, not by ten.`
}

// Run implements the command.
func (c *LedgerSurvival) Run(ctx context.Context, out *Output) error {
	tally := survival.New()
	if len(c.Paths) > 0 && c.Window != (Window{}) {
		return usagef("--from and --to choose among the house's files; of those on disk everything is read")
	}
	err := c.each(ctx, "ledger survival", func(file *arrowfile.LedgerReader) error {
		return file.Each(func(rows []ledger.Row) error {
			tally.Add(rows)
			return nil
		})
	})
	if err != nil {
		return err
	}
	versions := tally.Correlations()
	if out.JSON {
		return out.Object(map[string]any{"policy_versions": versions})
	}
	if len(versions) == 0 {
		out.Print("no edit was observed a week after its turn yet, so nothing can be said: 6 to 8 days behind a turn a backend must send edit_observed for its edits")
		return nil
	}
	out.Print("reward after 20 minutes against what is left of the edits 6 to 8 days later")
	return table(out.Out, func(line func(...any)) {
		line("policy version", "turns", "mean reward", "mean survival", "Pearson", "Spearman")
		for _, v := range versions {
			line(v.PolicyVersion, v.Turns, fmt.Sprintf("%+.3f", v.Reward), fmt.Sprintf("%.3f", v.Survival), coefficient(v.Pearson), coefficient(v.Spearman))
		}
	})
}

func coefficient(r *float64) string {
	if r == nil {
		return "–"
	}
	return fmt.Sprintf("%+.3f", *r)
}

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"millrace/distill/survival"
	"millrace/internal/arrowfile"
)

// LedgerSurvival is ledger survival.
type LedgerSurvival struct {
	LedgerPlaces `embed:""`
	Window       `embed:""`
	Dir          string `arg:"" optional:"" type:"existingdir" help:"A folder of ledger files, as of ledger pull, instead of the places."`
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
	read := func(ctx context.Context, tally *survival.Tally) error {
		return c.eachLedger(ctx, "ledger survival", c.Window, tally.Add)
	}
	if c.Dir != "" {
		if c.Window != (Window{}) {
			return usagef("--from and --to choose among the files at the places; of a folder everything is read")
		}
		read = c.readFolder
	}
	if err := read(ctx, tally); err != nil {
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

func (c *LedgerSurvival) readFolder(_ context.Context, tally *survival.Tally) error {
	found := false
	err := filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		found = true
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rows, err := arrowfile.ReadLedger(body)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		tally.Add(rows)
		return nil
	})
	if err == nil && !found {
		err = usagef("%s holds no Parquet file: pull the ledger with `millrace ledger pull`", c.Dir)
	}
	return err
}

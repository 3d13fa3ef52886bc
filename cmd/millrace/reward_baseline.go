package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/distill/baseline"
	"millrace/distill/replay"
	"millrace/feed"
	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// RewardBaseline computes a baseline.
type RewardBaseline struct {
	Spec         string `required:"" type:"existingfile" help:"The reward spec that it is to go with."`
	LedgerSource `embed:""`
}

// Help is what 'millrace reward baseline --help' adds.
func (*RewardBaseline) Help() string {
	return `Prints the document of numbers of earlier turns that rewards are compared with, by stratum: of the turns that settled between --from and --to, of files
on disk, or of the five hours before the newest turn. It is what adopt makes by itself; here to look at, to edit, and for replay.

  millrace reward baseline --spec mine.yaml > baseline.json
  millrace reward replay --spec mine.yaml --baseline baseline.json
  millrace reward adopt mine.yaml --baseline baseline.json --why "…"`
}

// Run implements the command.
func (c *RewardBaseline) Run(ctx context.Context, out *Output) error {
	document, err := readFile("reward spec", c.Spec)
	if err != nil {
		return err
	}
	spec, err := rewardspec.Parse(document)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Spec, err)
	}
	b, n, err := computed(ctx, out, c.LedgerSource, spec, document)
	if err != nil {
		return err
	}
	text, err := b.Encode()
	if err != nil {
		return err
	}
	fmt.Fprintf(out.Err, "baseline %s of %d ledger rows: value %+.3f of %.0f units, %d strata\n", b.Version, n, b.Global.Value, b.Global.Units, len(b.Strata))
	_, err = out.Out.Write(text)
	return err
}

// interval is how much of the ledger makes a baseline where nothing else is said.
const interval = 5 * time.Hour

// computed is the baseline that the source gives under a spec, and the number of its rows. Of the house's own files without a window, it is
// that of the last interval.
func computed(ctx context.Context, out *Output, source LedgerSource, spec *rewardspec.Spec, document []byte) (*rewardspec.Baseline, int, error) {
	switch to := time.Time(source.To); {
	case len(source.Paths) > 0 || !time.Time(source.From).IsZero():
	case !to.IsZero():
		source.From = moment(to.Add(-interval))
	default:
		var err error
		if source.Window, err = source.lastInterval(ctx); err != nil {
			return nil, 0, err
		}
	}
	rows, err := source.rows(ctx, "reward baseline")
	if err != nil {
		return nil, 0, fmt.Errorf("reading the interval's ledger: %w", err)
	}
	all := len(rows)
	rows = slices.DeleteFunc(rows, func(row ledger.Row) bool { return replay.Old(&row) })
	if old := all - len(rows); old > 0 {
		fmt.Fprintf(out.Err, "%d of %d rows were written by an earlier build and are left out\n", old, all)
	}
	if len(rows) == 0 {
		return nil, 0, usagef("no turn has settled in the interval; choose it by --from and --to, or do without: adopt takes --baseline v0 or keep")
	}
	last := rows[0].SettledAt
	for i := range rows {
		if rows[i].SettledAt.After(last) {
			last = rows[i].SettledAt
		}
	}
	b, err := baseline.Compute(spec, rows, baseline.Options{
		Version: "b-" + last.UTC().Format("20060102T150405Z") + "-" + arrowfile.SHA256(document)[:8],
	})
	if errors.Is(err, baseline.ErrNoRewards) {
		return nil, 0, usagef("%v", err)
	}
	return b, len(rows), err
}

// lastInterval is the one before the end of the newest file.
func (p LedgerPlaces) lastInterval(ctx context.Context) (w Window, err error) {
	pool, _, err := p.open(ctx, "reward baseline")
	if err != nil {
		return w, err
	}
	defer pool.Close()
	all, err := feed.LedgerFiles(ctx, pool)
	for _, l := range all {
		if start := l.End.Add(-interval); start.After(time.Time(w.From)) {
			w.From = moment(start)
		}
	}
	return w, err
}

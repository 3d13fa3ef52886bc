package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"millrace/distill/replay"
	"millrace/distill/reward"
	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// RewardReplay scores the ledger again.
type RewardReplay struct {
	Spec         string `required:"" type:"existingfile" help:"The reward spec to score under."`
	Baseline     string `placeholder:"v0|FILE" default:"v0" help:"The baseline to compare with: v0, or a document, as of reward baseline."`
	HTML         string `name:"html" placeholder:"FILE" help:"Also write a page to look at; it needs nothing but itself."`
	Overlay      string `placeholder:"FILE" help:"Also write the new rewards by turn (Arrow IPC), for a trainer to put over a cut."`
	LedgerSource `embed:""`
}

// Help is what 'millrace reward replay --help' adds.
func (*RewardReplay) Help() string {
	return `Scores the turns of the ledger under another spec, without the log, and says what changes: distribution, order, signs, dispositions, components; by stratum,
policy version and arm. It gives what a run of the log under that spec would, unless the spec settles turns after another time. What a changed
definition of a signal does can only be seen by a run of the log. See docs/replay.md.

  millrace reward replay --spec mine.yaml                          the ledger of a local millrace up
  millrace reward replay --spec mine.yaml ./ledger --html r.html   files of millrace ledger pull
  millrace reward replay --spec mine.yaml --from 2026-03-01 -o json`
}

// Run implements the command.
func (c *RewardReplay) Run(ctx context.Context, out *Output) (err error) {
	for flag, path := range map[string]string{"--html": c.HTML, "--overlay": c.Overlay} {
		if path != "" && slices.ContainsFunc(append([]string{c.Spec, c.Baseline}, c.Paths...), func(in string) bool { return samePath(in, path) }) {
			return usagef("%s %s is read from: write to another file", flag, path)
		}
	}
	scorer, err := c.scorer()
	if err != nil {
		return err
	}
	overlay, err := newOverlay(c.Overlay, scorer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, overlay.close(err == nil)) }()
	tally, old := replay.NewTally(scorer), int64(0)
	keep := func(row *ledger.Row) bool {
		switch {
		case !c.has(row):
			return false
		case replay.Old(row):
			old++
			return false
		}
		return true
	}
	err = c.each(ctx, "reward replay", func(file *arrowfile.LedgerReader) error {
		return replay.File(scorer, file, keep, func(before, after []ledger.Row) error {
			tally.Add(before, after)
			return overlay.add(before, after)
		})
	})
	if err != nil {
		return err
	}
	result := tally.Report()
	result.Old = old
	if c.Overlay != "" && old > 0 {
		return fmt.Errorf("no overlay: %d turns were written by an earlier build and can't be scored again, and a trainer would take what is missing for what is not to be trained on; choose a window without them", old)
	}
	if result.Turns == 0 {
		if result.Old > 0 {
			return fmt.Errorf("all %d turns were written by an earlier build and don't say what a replay needs; replay the log itself", result.Old)
		}
		return usagef("no turn settled there; choose another window by --from and --to, or name the files")
	}
	if c.HTML != "" {
		if err := os.WriteFile(c.HTML, []byte(result.Page()), 0o644); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
	}
	return report(out, result, func(w io.Writer) error { return printReplay(w, result) })
}

// samePath says whether two names are of one file.
func samePath(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// scorer is the spec with its baseline.
func (c *RewardReplay) scorer() (*reward.Reward, error) {
	document, err := readFile("reward spec", c.Spec)
	if err != nil {
		return nil, err
	}
	spec, err := rewardspec.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Spec, err)
	}
	baseline := rewardspec.BaselineV0()
	if c.Baseline != "v0" {
		document, err := readFile("baseline", c.Baseline)
		if err != nil {
			return nil, err
		}
		if baseline, err = rewardspec.ParseBaseline(document); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Baseline, err)
		}
	}
	return reward.Compile(spec, arrowfile.SHA256(document), baseline)
}

// overlay is the file of new rewards; nil: none is asked for.
type overlay struct {
	*arrowfile.OverlayWriter
	scorer *reward.Reward
	file   *os.File
	path   string
}

func newOverlay(path string, r *reward.Reward) (*overlay, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Create(path + ".part")
	if err != nil {
		return nil, fmt.Errorf("write the overlay: %w", err)
	}
	w, err := arrowfile.NewOverlayWriter(file, arrowfile.OverlayMeta{
		RewardSpec: r.Spec().ID(), RewardSpecDigest: r.Digest(), BaselineVersion: r.Baseline().Version,
	})
	return &overlay{w, r, file, path}, err
}

// add takes the turns that have rows in shards, before or after.
func (o *overlay) add(before, after []ledger.Row) error {
	if o == nil {
		return nil
	}
	var rows []arrowfile.Overlay
	for i, b := range before {
		a := &after[i]
		if a.Kind != ledger.Turn || (b.Disposition != ledger.Rewarded && a.Disposition != ledger.Rewarded) {
			continue
		}
		row := arrowfile.Overlay{SessionID: a.SessionID, TurnID: a.TurnID}
		if a.Disposition == ledger.Rewarded {
			row.Reward, row.Advantage = a.Reward, a.Advantage
			row.SpanAdvantage = ledger.Of(o.scorer.SpanAdvantage(a.Advantage.Number))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	return o.Write(rows)
}

// close gives the file its name if all went well.
func (o *overlay) close(ok bool) error {
	if o == nil {
		return nil
	}
	err := errors.Join(o.Close(), o.file.Close())
	if !ok || err != nil {
		return errors.Join(err, os.Remove(o.file.Name()))
	}
	return os.Rename(o.file.Name(), o.path)
}

func printReplay(w io.Writer, r *replay.Report) error {
	fmt.Fprintf(w, "%d turns scored again under %s, baseline %s\n", r.Turns, r.Spec, r.Baseline)
	otherBaseline := false
	for _, k := range sortedKeys(r.Before) {
		fmt.Fprintf(w, "  %d were scored under %s\n", r.Before[k], k)
		otherBaseline = otherBaseline || !strings.HasSuffix(k, ", baseline "+r.Baseline)
	}
	if otherBaseline && r.Baseline == "v0" {
		fmt.Fprintln(w, "  advantages change with the baseline too: --baseline takes one, as of `millrace reward status --baseline` or `millrace reward baseline`")
	}
	if r.Old > 0 {
		fmt.Fprintf(w, "  %d more were written by an earlier build and can't be scored again\n", r.Old)
	}
	if r.OtherSettleAfter > 0 {
		fmt.Fprintf(w, "  %d settled after another time than the spec's settle_after: a run of the log would see other outcomes of them\n", r.OtherSettleAfter)
	}
	if r.Unchanged == r.Turns {
		fmt.Fprintln(w, "nothing changes: every disposition, reward and advantage is the same, to the bit")
		return nil
	}
	fmt.Fprintf(w, "  %d are unchanged\n\n", r.Unchanged)
	if err := table(w, func(line func(...any)) {
		line("reward", "turns", "mean", "1 %", "5 %", "25 %", "50 %", "75 %", "95 %", "99 %")
		for _, d := range []struct {
			name string
			of   *replay.Distribution
		}{{"before", r.Rewards.Before}, {"after", r.Rewards.After}} {
			if d.of != nil {
				line(d.name, d.of.Turns, signed(d.of.Mean), signed(d.of.P1), signed(d.of.P5), signed(d.of.P25), signed(d.of.P50), signed(d.of.P75), signed(d.of.P95), signed(d.of.P99))
			}
		}
	}); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nrank correlation of both (Spearman): %s\n", coefficient(r.Rewards.Spearman))
	fmt.Fprintf(w, "signs that flip: reward %d up, %d down; advantage %d up, %d down\n", r.RewardFlips.Up, r.RewardFlips.Down, r.AdvantageFlips.Up, r.AdvantageFlips.Down)
	moved := false
	for _, f := range r.Dispositions {
		if f.From != f.To {
			if !moved {
				fmt.Fprintln(w, "\ndispositions that change")
			}
			moved = true
			fmt.Fprintf(w, "  %d %s → %s\n", f.Turns, f.From, f.To)
		}
	}
	fmt.Fprintln(w, "\nmean of each component, where it was observed")
	if err := table(w, func(line func(...any)) {
		for _, c := range r.Components {
			line("  "+c.Name, mean(c.Before), fmt.Sprintf("in %d", c.BeforeTurns), "→", mean(c.After), fmt.Sprintf("in %d", c.AfterTurns))
		}
	}); err != nil {
		return err
	}
	for _, g := range []struct {
		name string
		of   []replay.Group
	}{{"stratum", r.ByStratum}, {"policy version", r.ByVersion}, {"arm", r.ByArm}} {
		if err := printGroups(w, g.name, g.of); err != nil {
			return err
		}
	}
	if len(r.Largest) > 0 {
		fmt.Fprintln(w, "\nthe largest changes")
		return table(w, func(line func(...any)) {
			for _, c := range r.Largest {
				line("  "+c.Turn, signed(c.Before), "→", signed(c.After))
			}
		})
	}
	return nil
}

// mostGroups is how many of a kind the text shows; -o json has all.
const mostGroups = 12

func printGroups(w io.Writer, by string, groups []replay.Group) error {
	if len(groups) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	err := table(w, func(line func(...any)) {
		line("by "+by, "turns", "mean reward", "", "", "signs up", "down", "of advantage up", "down")
		for _, g := range groups[:min(len(groups), mostGroups)] {
			line("  "+g.Key, g.Turns, signed(g.Before), "→", signed(g.After), g.RewardFlips.Up, g.RewardFlips.Down, g.AdvantageFlips.Up, g.AdvantageFlips.Down)
		}
	})
	if more := len(groups) - mostGroups; more > 0 {
		fmt.Fprintf(w, "  and %d more, in -o json\n", more)
	}
	return err
}

func signed(v float64) string { return fmt.Sprintf("%+.3f", v) }

func mean(v *float64) string {
	if v == nil {
		return "–"
	}
	return signed(*v)
}

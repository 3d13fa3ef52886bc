package replay_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/engine"
	"millrace/distill/replay"
	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
)

// replayed puts rows through a ledger file and a replay of it.
func replayed(t *testing.T, rows []ledger.Row, v values) (*replay.Report, []ledger.Row) {
	t.Helper()
	body, err := arrowfile.WriteLedger(rows)
	require.NoError(t, err)
	file, err := arrowfile.OpenLedger(bytes.NewReader(body))
	require.NoError(t, err)
	r := v.compile(t)
	tally := replay.NewTally(r)
	var out []ledger.Row
	all := func(*ledger.Row) bool { return true }
	require.NoError(t, replay.File(r, file, all, func(before, after []ledger.Row) error {
		tally.Add(before, after)
		out = append(out, after...)
		return nil
	}))
	return tally.Report(), out
}

// Under the same spec nothing changes, and a file's replay is that of its rows.
func TestFileUnderTheSameSpecChangesNothing(t *testing.T) {
	t.Parallel()
	eachLog(t, func(t *testing.T, log []engine.Record) {
		rows := run(t, log, shipped())
		got, again := replayed(t, rows, shipped())
		require.Equal(t, got.Turns, got.Unchanged)
		require.Empty(t, got.Largest)
		require.Zero(t, got.RewardFlips)
		require.Equal(t, got.Rewards.Before, got.Rewards.After)
		require.Len(t, again, len(rows))
		require.EqualValues(t, len(rows), got.Turns+got.Amendments)
		requireSame(t, rows, again, "file")
	})
}

// The report of a replay is that of a full run of the log under the other spec.
func TestTheReportIsThatOfAFullRun(t *testing.T) {
	t.Parallel()
	for name, v := range otherSpecs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := questionLog(3)
			before, full := run(t, log, shipped()), run(t, log, v)
			got, _ := replayed(t, before, v)
			tally := replay.NewTally(v.compile(t))
			tally.Add(before, full)
			require.Equal(t, tally.Report(), got)
			require.Less(t, got.Unchanged, got.Turns)
		})
	}
}

// The turns of a chain stay together across the parts in which a file is read.
func TestChainsAcrossTheBordersOfWhatIsReadAtOnce(t *testing.T) {
	t.Parallel()
	var chain []ledger.Row
	for seed := uint64(0); len(chain) == 0; seed++ {
		rows := run(t, questionLog(seed), shipped())
		for i := range rows {
			if n := int(rows[i].Chain); n == 3 && rows[i].AnsweredBy != "" && rows[i].Reward.Known {
				chain = rows[i : i+n]
				break
			}
		}
	}
	require.Empty(t, chain[2].AnsweredBy)
	var rows []ledger.Row
	for n := range 3_000 {
		for _, row := range chain {
			row.SessionID = fmt.Sprintf("s%d", n)
			rows = append(rows, row)
		}
	}
	got, again := replayed(t, rows, changed(t, "per_question: -0.2", "per_question: -0.1"))
	require.Len(t, again, len(rows))
	require.EqualValues(t, len(rows), got.Turns)
	require.Len(t, got.Largest, 10)
	for i := range again {
		require.Equal(t, again[i%3].Reward, again[i].Reward)
	}
	body, err := arrowfile.WriteLedger(rows[:2])
	require.NoError(t, err)
	file, err := arrowfile.OpenLedger(bytes.NewReader(body))
	require.NoError(t, err)
	err = replay.File(shipped().compile(t), file, func(*ledger.Row) bool { return true }, func(_, _ []ledger.Row) error { return nil })
	require.ErrorContains(t, err, "must be replayed together")
}

// What the visitor says ends the replay.
func TestFileStopsWhereItsVisitorDoes(t *testing.T) {
	t.Parallel()
	rows := run(t, questionLog(1), shipped())
	many := slices.Repeat(rows, 20_000/len(rows)+1)
	body, err := arrowfile.WriteLedger(many)
	require.NoError(t, err)
	file, err := arrowfile.OpenLedger(bytes.NewReader(body))
	require.NoError(t, err)
	calls := 0
	err = replay.File(shipped().compile(t), file, func(*ledger.Row) bool { return true }, func(_, _ []ledger.Row) error {
		calls++
		return io.ErrShortWrite
	})
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.Equal(t, 1, calls)
}

// Numbers worked out by hand.
func TestReport(t *testing.T) {
	t.Parallel()
	turn := func(id, arm string, d ledger.Disposition, reward, advantage float64) ledger.Row {
		row := ledger.Row{Kind: ledger.Turn, SessionID: "s", TurnID: id, Stratum: "edit/go", PolicyVersion: "base", Disposition: d, RewardSpec: "composer@1", BaselineVersion: "v0"}
		if arm != "" {
			row.Experiment, row.Arm = "exp-1", arm
		}
		if d == ledger.Rewarded {
			row.Reward, row.Advantage = ledger.Of(reward), ledger.Of(advantage)
			row.Components = []ledger.Component{{Name: "retention", Value: ledger.Of(reward)}, {Name: "thumb"}}
		}
		return row
	}
	before := []ledger.Row{
		turn("a", "control", ledger.Rewarded, .5, .2), turn("b", "control", ledger.Rewarded, -.5, -.8), turn("c", "", ledger.Rewarded, 0, -.3),
		turn("d", "", ledger.Censored, 0, 0), turn("e", "", ledger.Rewarded, .2, -.1),
		{Kind: ledger.Amendment},
	}
	after := []ledger.Row{
		turn("a", "control", ledger.Rewarded, -.3, -.6), turn("b", "control", ledger.Rewarded, .4, .1), turn("c", "", ledger.Rewarded, 0, -.3),
		turn("d", "", ledger.Rewarded, -.8, -1), turn("e", "", ledger.Censored, 0, 0),
		{Kind: ledger.Amendment},
	}
	tally := replay.NewTally(shipped().compile(t))
	tally.Add(before, after)
	got := tally.Report()
	require.Equal(t, []int64{5, 1, 1, 3}, []int64{got.Turns, got.Amendments, got.Unchanged, got.Rewarded})
	require.Equal(t, map[string]int64{"composer@1, baseline v0": 5}, got.Before)
	require.InDelta(t, .05, got.Rewards.Before.Mean, 1e-12)
	require.InDelta(t, -.175, got.Rewards.After.Mean, 1e-12)
	require.InDelta(t, -.5, got.Rewards.Before.Min, 0)
	require.InDelta(t, 0, got.Rewards.Before.P50, 0)
	require.InDelta(t, -1, *got.Rewards.Spearman, 1e-12) // .5 −.5 0 against −.3 .4 0
	require.Equal(t, replay.Flips{Up: 1, Down: 1}, got.RewardFlips)
	require.Equal(t, replay.Flips{Up: 1, Down: 1}, got.AdvantageFlips)
	require.Equal(t, []replay.Flow{{"rewarded", "rewarded", 3}, {"censored", "rewarded", 1}, {"rewarded", "censored", 1}}, got.Dispositions)
	require.Equal(t, "retention", got.Components[0].Name)
	require.InDelta(t, .05, *got.Components[0].Before, 1e-12)
	require.EqualValues(t, 4, got.Components[0].AfterTurns)
	require.Equal(t, replay.ComponentChange{Name: "thumb"}, got.Components[1])
	require.Len(t, got.ByArm, 1)
	require.Equal(t, "exp-1/control", got.ByArm[0].Key)
	require.InDelta(t, .05, got.ByArm[0].After, 1e-12)
	require.EqualValues(t, 5, got.ByStratum[0].Turns)
	require.Equal(t, []replay.Change{{"s", "b", -.5, .4}, {"s", "a", .5, -.3}}, got.Largest)
	require.InDelta(t, -.8, got.Histogram.From, 1e-12)
	require.Len(t, got.Histogram.Before, 14) // from −.8 to +.5
	require.EqualValues(t, 1, got.Histogram.Before[13])
	require.Len(t, got.Density, 3)

	page := got.Page()
	wellFormed(t, page)
	for _, says := range []string{"Replay under composer@1", "<svg", "exp-1/control", "censored</td><td>rewarded", "-0.500"} {
		require.Contains(t, page, says)
	}
	require.NotContains(t, page, "http", "it needs nothing from elsewhere")
	wellFormed(t, replay.NewTally(shipped().compile(t)).Report().Page())
}

// However large a reward is, the pictures stay small.
func TestAReportOfLargeRewards(t *testing.T) {
	t.Parallel()
	for _, large := range []float64{-1e5, 1e25, -1e300} {
		tally := replay.NewTally(shipped().compile(t))
		row := func(v float64) ledger.Row {
			return ledger.Row{Kind: ledger.Turn, Disposition: ledger.Rewarded, Reward: ledger.Of(v), Advantage: ledger.Of(v)}
		}
		tally.Add([]ledger.Row{row(.3), row(.3)}, []ledger.Row{row(.3), row(large)})
		got := tally.Report()
		require.LessOrEqual(t, len(got.Histogram.Before), 201, large)
		require.Less(t, len(got.Page()), 100_000)
		wellFormed(t, got.Page())
	}
}

// wellFormed reads a page's tags, each of which must be closed but for the head's.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(page, "<!doctype html>")))
	d.Entity, d.AutoClose, d.Strict = xml.HTMLEntity, xml.HTMLAutoClose, false
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

package survival

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/ledger"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// week are a turn's row and what was observed of its edits after so many days each.
func week(version, id string, reward float64, left map[time.Duration]float64) []ledger.Row {
	rows := []ledger.Row{{
		Kind: ledger.Turn, SessionID: "s", TurnID: id, PolicyVersion: version, Reward: ledger.Of(reward), SettledAt: start,
	}}
	for after, share := range left {
		signals := make([]ledger.Value, len(ledger.Signals))
		signals[ledger.SignalIndex["edits.retention"]] = ledger.Of(share)
		rows = append(rows, ledger.Row{
			Kind: ledger.Amendment, Source: "ide", EventID: fmt.Sprint(id, after), EventBody: "edit_observed",
			SessionID: "s", TurnID: id, Signals: signals, SettledAt: start.Add(after),
		})
	}
	return rows
}

func TestCorrelations(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	var rows []ledger.Row
	for i, reward := range []float64{.9, .6, -.4, .6} {
		// Rewards .9 .6 −.4 .6 against .8 .5 .1 .2: r = .42/√(.9675·.3) and, with ranks 4 2.5 1 2.5 and 4 3 1 2, 4.5/√(4.5·5).
		rows = append(rows, week("a", fmt.Sprint("a", i), reward, map[time.Duration]float64{7 * day: []float64{.8, .5, .1, .2}[i]})...)
	}
	rows = append(rows, week("b", "b0", .5, map[time.Duration]float64{7 * day: .2, 7*day + time.Hour: .4, day: 1, 8*day + time.Hour: 1})...)
	rows = append(rows, week("b", "b1", .5, map[time.Duration]float64{6 * day: .7})...)
	rows = append(rows, week("b", "b2", .5, map[time.Duration]float64{8 * day: 1})...)
	rows = append(rows, week("c", "c0", .5, map[time.Duration]float64{day: 1})...)
	thumb := rows[1]
	thumb.EventBody, thumb.EventID = "feedback_given", "thumb"
	silent := week("a", "a9", 0, map[time.Duration]float64{7 * day: 1})
	silent[0].Reward = ledger.Value{}
	rows = append(rows, append(silent, thumb)...)

	want := New()
	want.Add(rows)
	got := want.Correlations()
	require.Len(t, got, 2, "c has no observation after a week")
	require.Equal(t, []string{"a", "b"}, []string{got[0].PolicyVersion, got[1].PolicyVersion})
	require.Equal(t, 4, got[0].Turns)
	require.InDelta(t, .425, got[0].Reward, 1e-12)
	require.InDelta(t, .4, got[0].Survival, 1e-12)
	require.InDelta(t, .77958, *got[0].Pearson, 1e-5)
	require.InDelta(t, .94868, *got[0].Spearman, 1e-5)
	require.Equal(t, 3, got[1].Turns)
	require.InDelta(t, (.3+.7+1)/3, got[1].Survival, 1e-12, "of two observations the mean; earlier and later ones don't count")
	require.Nil(t, got[1].Pearson, "all rewards are alike")

	// The order of the rows and their repeats change nothing, to the bit.
	again := New()
	for range 2 {
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for part := range slices.Chunk(rows, 3) {
			again.Add(part)
		}
	}
	require.Equal(t, got, again.Correlations())
	require.Equal(t, []Correlation{}, New().Correlations())
}

package baseline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/baseline"
	"millrace/distill/engine"
	"millrace/distill/engine/enginetest"
	"millrace/distill/rehearsal"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// row is a turn that delivered an edit of 400 characters in 30 seconds; one of a unit's.
func row(unit, stratum, intent string, retention float64) ledger.Row {
	r := ledger.Row{
		Kind: ledger.Turn, SessionID: "s-" + unit, UnitHash: unit, Stratum: stratum, Intent: intent, Disposition: ledger.Rewarded, Chain: 1,
		FollowUpClass: "none", Signals: make([]ledger.Value, len(ledger.Signals)), PolicyVersions: []string{"base"},
	}
	for name, v := range map[string]float64{
		"intent.p_edit": 1, "outcome.delivered": 1, "edits.retention": retention, "edits.characters": 400, "effort.wall_s": 30,
		"effort.final_tokens": 1000, "effort.steps": 1, "stalling.question_calls": 0,
	} {
		r.Signals[ledger.SignalIndex[name]] = ledger.Of(v)
	}
	return r
}

func TestValuesAreMeansOfUnits(t *testing.T) {
	t.Parallel()
	spec, _ := rewardspec.Default()
	// The interval's turns are all alike in time and work: each pays the whole of latency (.05) and effort (.15).
	const kept, lost = .7 - .05 - .15, -.35 - .05 - .15

	const golang, rust = "edit/go/small/live", "edit/rust/small/live"
	var rows []ledger.Row
	for range 1000 {
		rows = append(rows, row("busy", golang, "edit", 0)) // one unit, however much it does
	}
	rows = append(rows, row("a", golang, "edit", 1), row("a", golang, "edit", 0), row("b", rust, "edit", 1))
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	b, err := baseline.Compute(spec, rows, baseline.Options{Version: "b", Shrinkage: 2})
	require.NoError(t, err)
	half := (kept + lost) / 2
	global := (lost + half + kept) / 3
	require.InDelta(t, global, b.Global.Value, 1e-12)
	require.InDelta(t, (lost+half+2*global)/4, b.Strata[golang].Value, 1e-12, "two units, shrunk by two")
	require.InDelta(t, (kept+2*global)/3, b.Strata[rust].Value, 1e-12)
	require.InDelta(t, 2, b.Strata[golang].Units, 0)
	require.InDelta(t, 1060, b.Strata[golang].XRef, 0)
	require.InDelta(t, 30, b.Strata[golang].WallSP95, 0)
	require.InDelta(t, 400, b.Strata[rust].CharsP10, 0, "one turn is not enough for percentiles of its own: the global ones")

	few, err := baseline.Compute(spec, rows[:10], baseline.Options{Version: "b"})
	require.NoError(t, err)
	require.InDelta(t, 10_000, few.Global.XRef, 0, "nor are ten for global ones: baseline v0's")

	document, err := b.Encode()
	require.NoError(t, err)
	read, err := rewardspec.ParseBaseline(document)
	require.NoError(t, err)
	require.Equal(t, b, read)
	slices.Reverse(rows)
	again, err := baseline.Compute(spec, rows, baseline.Options{Version: "b", Shrinkage: 2})
	require.NoError(t, err)
	same, err := again.Encode()
	require.NoError(t, err)
	require.Equal(t, string(document), string(same), "in whatever order the rows come")
}

// The share of edit requests where nobody says so is that of the requests alike where somebody did; what the turns made of
// them does not enter.
func TestSharesOfEditRequests(t *testing.T) {
	t.Parallel()
	spec, _ := rewardspec.Default()
	var rows []ledger.Row
	for i := range 10 {
		intent := "edit"
		if i < 2 {
			intent = "ask"
		}
		rows = append(rows, row(fmt.Sprint(i), intent+"/go/small/live", intent, 1), row("x", "unknown/rust/small/live", "unknown", 1))
	}
	rows = append(rows, row("x", "unknown/go/small/live", "unknown", 0))
	b, err := baseline.Compute(spec, rows, baseline.Options{Version: "b", Shrinkage: 10})
	require.NoError(t, err)
	overall := (10*.8 + 10*.5) / 20
	require.InDelta(t, overall, b.PEditUnknown, 1e-12)
	require.InDelta(t, (10*.8+10*overall)/20, b.PEdit("unknown/go/small/live"), 1e-12)
	require.InDelta(t, overall, b.PEdit("unknown/rust/small/live"), 1e-12, "nobody stamped one there")

	for i := range rows {
		rows[i].Signals[ledger.SignalIndex["outcome.delivered"]] = ledger.Of(0)
	}
	lazy, err := baseline.Compute(spec, rows, baseline.Options{Version: "b", Shrinkage: 10})
	require.NoError(t, err)
	require.InDelta(t, b.PEdit("unknown/go/small/live"), lazy.PEdit("unknown/go/small/live"), 0, "giving up makes nothing less of an edit request")
}

func TestWithoutRewardsThereIsNoBaseline(t *testing.T) {
	t.Parallel()
	spec, _ := rewardspec.Default()
	_, err := baseline.Compute(spec, nil, baseline.Options{Version: "b"})
	require.ErrorIs(t, err, baseline.ErrNoRewards)
}

// Malformed calls change no value that a baseline has: neither in the turn that made them nor in the question that it answered.
func TestMalformedCallsDoNotLowerTheBaseline(t *testing.T) {
	t.Parallel()
	spec, _ := rewardspec.Default()
	for seed := range uint64(4) {
		_, settled := rehearsal.Run(enginetest.RandomLog(seed, 60))
		rows := rowsOf(settled)
		before, err := baseline.Compute(spec, rows, baseline.Options{Version: "b"})
		require.NoError(t, err)
		for i := range rows {
			if i%2 == 0 {
				rows[i].Signals = slices.Clone(rows[i].Signals)
				rows[i].Signals[ledger.SignalIndex["tools.invalid"]] = ledger.Of(5)
			}
		}
		after, err := baseline.Compute(spec, rows, baseline.Options{Version: "b"})
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.NotEmpty(t, before.Strata)
	}
}

func rowsOf(settled []engine.Settled) []ledger.Row {
	rows := make([]ledger.Row, len(settled))
	for i := range settled {
		rows[i] = settled[i].Row
	}
	return rows
}

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/engine"
	"millrace/distill/engine/enginetest"
	"millrace/distill/rehearsal"
	"millrace/schemas/ledger"
	"millrace/schemas/sample"
)

// outcome is everything that a log makes.
type outcome struct {
	rows    []ledger.Row
	samples []sample.Row
	dead    []string
}

var options = engine.Options{Topic: "sessions", UnitKey: []byte("test")}

// replay applies a log, checks both balances at every boundary, and stops and restarts the engine from its saved
// state wherever restart says so.
func replay(t *testing.T, log []engine.Record, restart func() bool) outcome {
	t.Helper()
	e := engine.New(options)
	var out outcome
	boundary := func(next int64) {
		before := e.Account()
		require.NoError(t, before.Check(), "at offset %d", next)
		e.Boundary()
		if !restart() {
			return
		}
		state, err := e.Save()
		require.NoError(t, err)
		restored, err := engine.Load(options, state)
		require.NoError(t, err)
		for _, digest := range restored.Needs() {
			restored.Provide(digest, rehearsal.Documents()[digest])
		}
		for offset := e.LowWatermark(next); offset < next; offset++ {
			restored.Reread(offset, log[offset].Event)
		}
		fresh, err := restored.Engine()
		require.NoError(t, err)
		require.Equal(t, before, fresh.Account(), "the balance survives a restart")
		again, err := fresh.Save()
		require.NoError(t, err)
		require.Equal(t, string(state), string(again), "a restored engine saves what it was restored from")
		e = fresh
	}
	for _, r := range log {
		if e.ClosesBefore(r) {
			boundary(r.Offset)
		}
		rehearsal.Provide(e, r)
		effects := e.Apply(r)
		require.Empty(t, effects.Halt)
		for _, s := range effects.Settled {
			out.rows = append(out.rows, s.Row)
			out.samples = append(out.samples, s.Samples...)
		}
		if effects.Amendment != nil {
			out.rows = append(out.rows, *effects.Amendment)
		}
		if effects.DeadLetter != "" {
			out.dead = append(out.dead, fmt.Sprintf("%d %s", r.Offset, effects.DeadLetter))
		}
		if effects.Full {
			boundary(r.Offset + 1)
		}
	}
	boundary(int64(len(log)))
	require.Zero(t, e.Account().OpenTurns(), "the last tick lies behind every deadline")
	return out
}

func never() bool { return false }

func TestRandomLogsGiveTheSameRowsHoweverTheyAreRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			log := enginetest.RandomLog(seed, 12)
			want := replay(t, log, never)
			require.NotEmpty(t, want.rows)
			require.NotEmpty(t, want.samples)
			requireEachTurnOnce(t, want)

			r := rand.New(rand.NewPCG(seed, 2))
			sometimes := func() bool { return r.IntN(20) == 0 }
			for name, got := range map[string]outcome{
				"restarted at some boundaries":  replay(t, log, sometimes),
				"restarted at every boundary":   replay(t, enginetest.WithBatches(log, 600_000, 0), func() bool { return true }),
				"batches of five minutes":       replay(t, enginetest.WithBatches(log, 300_000, 0), sometimes),
				"batches of three rows":         replay(t, enginetest.WithBatches(log, 60_000, 3), sometimes),
				"batches of a second, restarts": replay(t, enginetest.WithBatches(log, 1_000, 0), sometimes),
			} {
				require.Equal(t, want.rows, got.rows, name)
				require.Equal(t, want.samples, got.samples, name)
				require.Equal(t, want.dead, got.dead, name)
			}
		})
	}
}

func requireEachTurnOnce(t *testing.T, o outcome) {
	t.Helper()
	turns, amendments := map[string]bool{}, map[string]bool{}
	for _, r := range o.rows {
		if r.Kind == ledger.Turn {
			require.False(t, turns[r.SessionID+"/"+r.TurnID], "turn %s settled twice", r.TurnID)
			turns[r.SessionID+"/"+r.TurnID] = true
			continue
		}
		require.False(t, amendments[r.Source+"/"+r.EventID], "amendment %s twice", r.EventID)
		amendments[r.Source+"/"+r.EventID] = true
	}
	branches := map[string]int32{}
	for _, s := range o.samples {
		branches[s.SessionID+"/"+s.TurnID]++
		require.True(t, turns[s.SessionID+"/"+s.TurnID])
		require.Len(t, s.InputIDs, 4*s.Length())
		require.Len(t, s.BehaviorLogprobs, 4*s.Length())
		require.NoError(t, s.Check())
		requireOnPolicy(t, s)
	}
	for _, r := range o.rows {
		if r.Kind == ledger.Turn {
			require.Equal(t, branches[r.SessionID+"/"+r.TurnID], r.Branches, "sample rows of turn %s", r.TurnID)
		}
	}
}

// requireOnPolicy: a shard's version is that of every token which is trained, as the engine reported it.
func requireOnPolicy(t *testing.T, s sample.Row) {
	t.Helper()
	own := make([]bool, s.Length())
	for _, span := range s.PolicyVersionSpans {
		for i := span.Start; i < span.End; i++ {
			own[i] = span.Version == s.PolicyVersion
		}
	}
	for i, trained := range s.LossMask {
		if trained == 1 {
			require.True(t, own[i], "token %d of %s is trained, but is not of %s: %v", i, s.SampleID, s.PolicyVersion, s.PolicyVersionSpans)
		}
	}
}

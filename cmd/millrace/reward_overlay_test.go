package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/distill/replay"
	"millrace/distill/reward"
	"millrace/internal/arrowfile"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// With an overlay alone a trainer makes of a shard's row what the engine would have made of it under the other spec, the blame of
// a broken call included.
func TestAnOverlayGivesEachTokenItsAdvantage(t *testing.T) {
	t.Parallel()
	spec, document := rewardspec.Default()
	changed := []byte(strings.NewReplacer("version: 1", "version: 2", "span: -0.3", "span: -0.7", `"0.5 * explicit.thumb"`, `"0.9 * explicit.thumb"`).Replace(string(document)))
	other, err := rewardspec.Parse(changed)
	require.NoError(t, err)
	s := rehearsal.NewStream("s", "u", rehearsal.Epoch)
	s.Start(event.Intent_EDIT, event.Relation_RELATION_UNSPECIFIED, "make it faster")
	s.Step(20, 1e9).Call("read_file", event.ToolKind_READ, `{"path":`, event.ToolOutcome_EXECUTION_FAILED).Step(30, 1e9)
	edit := s.Edit(400)
	s.End(event.EndReason_COMPLETED, false).Wait(1e9).Decide(edit, event.Decision_ACCEPTED)
	s.Wait(30e9).Observe(edit, 30, .9)

	settled := func(spec *rewardspec.Spec, document []byte) engine.Settled {
		t.Helper()
		stage, err := rehearsal.NewStage(spec, document, nil)
		require.NoError(t, err)
		_, all, err := stage.Run(stage.Records(s))
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Len(t, all[0].Samples, 1)
		require.NotNil(t, all[0].Samples[0].TokenAdvantages)
		return all[0]
	}
	before, want := settled(spec, document), settled(other, changed)

	r, err := reward.Compile(other, arrowfile.SHA256(changed), rewardspec.BaselineV0())
	require.NoError(t, err)
	after, err := replay.Rescore(r, []ledger.Row{before.Row})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "o.arrow")
	o, err := newOverlay(path, r)
	require.NoError(t, err)
	require.NoError(t, o.add([]ledger.Row{before.Row}, after))
	require.NoError(t, o.close(true))
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	_, over, err := arrowfile.ReadOverlay(body)
	require.NoError(t, err)
	require.Len(t, over, 1)

	row, full := before.Samples[0], want.Samples[0]
	require.InDelta(t, full.Advantage, over[0].Advantage.Number, 0)
	blamed, others := 0, 0
	for i, mask := range row.LossMask {
		if mask != 1 {
			continue
		}
		got := over[0].Advantage.Number
		if row.TokenAdvantages[i] != float32(row.Advantage) {
			got = over[0].SpanAdvantage.Number
			blamed++
		} else {
			others++
		}
		require.InDelta(t, full.TokenAdvantages[i], float32(got), 0, "token %d", i)
	}
	require.Positive(t, blamed)
	require.Positive(t, others)
}

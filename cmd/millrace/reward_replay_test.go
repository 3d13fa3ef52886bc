package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/rehearsal"
	"millrace/distill/replay"
	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// rehearsedLedger is a folder with the ledger of all shipped behaviours, as the engine made it.
func rehearsedLedger(t *testing.T) (dir string, rows []ledger.Row) {
	t.Helper()
	shipped, _ := rewardspec.DefaultScenarios()
	var streams []*rehearsal.Stream
	for _, group := range shipped.Order {
		for _, name := range group {
			for _, b := range shipped.Behaviours {
				if b.Name == name {
					stream := rehearsal.NewStream(name, name, rehearsal.Epoch)
					rehearsal.Play(stream, b.Acts, rehearsal.Variation{})
					streams = append(streams, stream)
				}
			}
		}
	}
	_, settled, err := rehearsal.Shipped().Run(rehearsal.Records(streams...))
	require.NoError(t, err)
	for _, s := range settled {
		rows = append(rows, s.Row)
	}
	body, err := arrowfile.WriteLedger(rows)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.parquet"), body, 0o600))
	return dir, rows
}

func TestRewardReplay(t *testing.T) {
	t.Parallel()
	dir, rows := rehearsedLedger(t)
	same := rewardFile(t)
	other := rewardFile(t, "0.7 * (1.5", "0.9 * (1.5", "version: 1", "version: 2")
	millrace := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := run(t.Context(), args, &out, &errs)
		return code, out.String(), errs.String()
	}

	code, out, errs := millrace("reward", "replay", "--spec", same, dir)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "nothing changes: every disposition, reward and advantage is the same, to the bit")

	page, overlay := filepath.Join(t.TempDir(), "r.html"), filepath.Join(t.TempDir(), "o.arrow")
	code, out, errs = millrace("reward", "replay", "--spec", other, "--html", page, "--overlay", overlay, dir)
	require.Equal(t, exitDone, code, errs)
	for _, says := range []string{"turns scored again under composer@2, baseline v0", "were scored under composer@1, baseline v0", "rank correlation", "by stratum", "the largest changes"} {
		require.Contains(t, out, says)
	}
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "<svg")
	body, err := os.ReadFile(overlay)
	require.NoError(t, err)
	meta, over, err := arrowfile.ReadOverlay(body)
	require.NoError(t, err)
	require.Equal(t, "composer@2", meta.RewardSpec)
	kept := map[string]ledger.Value{}
	for _, o := range over {
		kept[o.TurnID] = o.Reward
	}
	for i := range rows {
		if rows[i].SessionID == "good_edit_kept" {
			require.InDelta(t, rows[i].Reward.Number+.2, kept[rows[i].TurnID].Number, 1e-9)
		}
	}
	left, err := filepath.Glob(overlay + "*")
	require.NoError(t, err)
	require.Equal(t, []string{overlay}, left, "nothing lies beside it")

	code, out, errs = millrace("-o", "json", "reward", "replay", "--spec", other, filepath.Join(dir, "a.parquet"))
	require.Equal(t, exitDone, code, errs)
	var got replay.Report
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.EqualValues(t, len(rows), got.Turns)
	require.NotNil(t, got.Rewards.Spearman)

	// The baseline of the same rows, and a replay under it.
	code, out, errs = millrace("reward", "baseline", "--spec", other, dir)
	require.Equal(t, exitDone, code, errs)
	_, err = rewardspec.ParseBaseline([]byte(out))
	require.NoError(t, err)
	document := filepath.Join(t.TempDir(), "b.json")
	require.NoError(t, os.WriteFile(document, []byte(out), 0o600))
	code, out, errs = millrace("reward", "replay", "--spec", other, "--baseline", document, dir)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "under composer@2, baseline b-2026")
}

func TestRewardReplayRefuses(t *testing.T) {
	t.Parallel()
	dir, rows := rehearsedLedger(t)
	spec := rewardFile(t)
	no := t.TempDir()
	garbage := filepath.Join(no, "x.parquet")
	require.NoError(t, os.WriteFile(garbage, []byte(strings.Repeat("garbage", 100)), 0o600))
	one := slices.Clone(rows)
	one[0].Signals = slices.Clone(one[0].Signals)
	one[0].Signals[ledger.SignalIndex["stalling.question_calls"]] = ledger.Value{}
	body, err := arrowfile.WriteLedger(one)
	require.NoError(t, err)
	mixed := filepath.Join(t.TempDir(), "mixed.parquet")
	require.NoError(t, os.WriteFile(mixed, body, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	for i := range rows {
		rows[i].Signals[ledger.SignalIndex["stalling.question_calls"]] = ledger.Value{}
	}
	body, err = arrowfile.WriteLedger(rows)
	require.NoError(t, err)
	old := filepath.Join(t.TempDir(), "old.parquet")
	require.NoError(t, os.WriteFile(old, body, 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no spec":             {[]string{dir}, exitUsage, "--spec"},
		"a draft":             {[]string{"--spec", rewardFile(t, "deferral:", "# deferral:"), dir}, exitFailed, `"deferral" is missing`},
		"no baseline":         {[]string{"--spec", spec, "--baseline", "nowhere.json", dir}, exitFailed, "nowhere.json"},
		"a spec as baseline":  {[]string{"--spec", spec, "--baseline", spec, dir}, exitFailed, "Baseline"},
		"an empty folder":     {[]string{"--spec", spec, t.TempDir()}, exitUsage, "no Parquet file"},
		"a file twice":        {[]string{"--spec", spec, dir, filepath.Join(dir, "a.parquet")}, exitUsage, "named twice"},
		"by another name":     {[]string{"--spec", spec, dir, link}, exitUsage, "named twice"},
		"an overlay of some":  {[]string{"--spec", spec, "--overlay", filepath.Join(no, "o.arrow"), mixed}, exitFailed, "no overlay: 1 turns"},
		"over what it reads":  {[]string{"--spec", spec, "--html", spec, dir}, exitUsage, "is read from"},
		"a file that isn't":   {[]string{"--spec", spec, garbage}, exitFailed, "x.parquet"},
		"nothing there":       {[]string{"--spec", spec, filepath.Join(no, "nowhere")}, exitFailed, "nowhere"},
		"an empty window":     {[]string{"--spec", spec, "--from", "2031-01-01", dir}, exitUsage, "no turn settled there"},
		"a window turned":     {[]string{"--spec", spec, "--from", "2031-01-01", "--to", "2030-01-01", dir}, exitUsage, "is not before"},
		"of an earlier build": {[]string{"--spec", spec, old}, exitFailed, "earlier build"},
		"a page nowhere":      {[]string{"--spec", spec, "--html", filepath.Join(no, "a", "b.html"), dir}, exitFailed, "b.html"},
		"an overlay nowhere":  {[]string{"--spec", spec, "--overlay", filepath.Join(no, "a", "b.arrow"), dir}, exitFailed, "b.arrow"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, c.code, run(t.Context(), append([]string{"reward", "replay"}, c.args...), &out, &errs), "%s: %s", name, errs.String())
		require.Contains(t, errs.String(), c.says, name)
	}
	require.NoFileExists(t, filepath.Join(no, "o.arrow"))
	var out, errs bytes.Buffer
	require.Equal(t, exitDone, run(t.Context(), []string{"reward", "baseline", "--spec", spec, mixed}, &out, &errs), errs.String())
	require.Contains(t, errs.String(), "1 of")
	require.Contains(t, errs.String(), "earlier build")
	require.Equal(t, exitDone, run(t.Context(), []string{"reward", "replay", "--spec", spec, link}, &out, &errs), errs.String())
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint"
	"millrace/checkpoint/adoption"
	"millrace/distill/rehearsal"
	"millrace/distill/stress"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// rewardFile is the shipped spec with changes, as a file.
func rewardFile(t *testing.T, oldnew ...string) string {
	t.Helper()
	_, document := rewardspec.Default()
	path := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer(oldnew...).Replace(string(document))), 0o600))
	return path
}

func TestRewardShowPrintsWhatTheOthersRead(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Equal(t, exitDone, run(t.Context(), []string{"reward", "show"}, &out, &errs))
	_, err := rewardspec.Parse(out.Bytes())
	require.NoError(t, err)
	for _, what := range []string{"spec-schema", "scenarios-schema", "baseline-schema"} {
		out.Reset()
		require.Equal(t, exitDone, run(t.Context(), []string{"reward", "show", what}, &out, &errs))
		require.True(t, json.Valid(out.Bytes()), what)
	}
}

func TestRewardTest(t *testing.T) {
	t.Parallel()
	own := filepath.Join(t.TempDir(), "own.yaml")
	require.NoError(t, os.WriteFile(own, []byte(`apiVersion: millrace/v1
kind: RewardScenarios
scenarios:
  - {name: words_beat_edits, why: a test that must fail, better: gave_up, worse: good_edit_kept}
`), 0o600))
	for name, c := range map[string]struct {
		args       []string
		code       int
		says, warn string
	}{
		"the shipped one":        {nil, exitDone, "scenarios hold", ""},
		"one without deferral":   {[]string{rewardFile(t, "deferral:", "# deferral:")}, exitFailed, "FAIL  ask_instead_of_editing", `"deferral" is missing`},
		"scenarios of one's own": {[]string{"--scenarios", own}, exitFailed, "FAIL  words_beat_edits", "1 of"},
		"no file":                {[]string{"nothing.yaml"}, exitFailed, "", "nothing.yaml"},
		"too many variations":    {[]string{"--variations", "5000"}, exitUsage, "", "from 0 to 1000"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, c.code, run(t.Context(), append([]string{"reward", "test"}, c.args...), &out, &errs), "%s: %s", name, errs.String())
		require.Contains(t, out.String(), c.says, name)
		require.Contains(t, errs.String(), c.warn, name)
	}
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"-o", "json", "reward", "test", "--variations", "0", rewardFile(t, "deferral:", "# deferral:")}, &out, &errs))
	var report rehearsal.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.Positive(t, report.Failed)
}

// The whole way: a reward is adopted in a running house, the workers hear of it, and what settles afterwards is scored by it.
func TestRewardIsAdoptedInTheHouse(t *testing.T) {
	t.Parallel()
	quick := quickSpec(t)
	i := newInstance(t, "--spec", quick, "--partitions", "2", "--lateness", "300ms", "--batch-interval", "300ms")
	i.start()
	i.ready()
	pool, err := postgres.Open(t.Context(), i.postgresURL(), "test")
	require.NoError(t, err)
	defer pool.Close()
	store, err := objstore.NewFolder(filepath.Join(i.data, "objects"))
	require.NoError(t, err)
	settled := func(session string) (row ledger.Row) {
		s := rehearsal.NewStream(session, "unit", time.Now())
		s.Start(event.Intent_EDIT, 0, "make the parser faster").Step(50, 100*time.Millisecond).End(event.EndReason_COMPLETED, false)
		play(t, i, &traffic{events: s.Events, now: s.Events[0].GetOccurredAt().AsTime()})
		i.await(waitMost, "the turn to settle", func() bool {
			for _, r := range readProduct(t, pool, store).rows {
				if r.SessionID == session {
					row = r
				}
			}
			return row.SessionID != ""
		})
		return row
	}
	command := func(args ...string) (code int, said string) {
		var out bytes.Buffer
		code = run(t.Context(), append(append([]string{"reward"}, args...), "--data", i.data), &out, &out)
		return code, out.String()
	}
	await := func(spec string) {
		i.await(waitMost, spec+" in the log", func() bool {
			_, said := command("status")
			return strings.Contains(said, "spec        "+spec) && strings.Contains(said, "the workers have it")
		})
	}

	code, said := command("adopt", rewardFile(t, "version: 1", "version: 2"), "--why", "x")
	require.Equal(t, exitUsage, code, said)
	require.Contains(t, said, "no turn has settled in the interval")
	require.Equal(t, "composer@1", settled("before").RewardSpec)

	code, said = command("adopt", quick, "--why", "x")
	require.Equal(t, exitFailed, code)
	require.Contains(t, said, "is not adopted: it fails", "who waits three seconds sees no outcome")

	body, err := os.ReadFile(quick)
	require.NoError(t, err)
	second := strings.NewReplacer("version: 1", "version: 2", "undelivered: {value: -0.8}", "undelivered: {value: -0.6}").Replace(string(body))
	var adopted adoption.InForce
	require.NoError(t, Remote{Data: i.data}.call(t.Context(), "POST", "/v1/reward", adoption.Request{Spec: second, Why: "giving up was too dear"}, &adopted))
	await("composer@2")
	after := settled("after")
	require.Equal(t, "composer@2", after.RewardSpec)
	require.Equal(t, adopted.SpecDigest, after.RewardSpecDigest)
	require.InDelta(t, -.6, after.Reward.Number, .05)

	code, said = command("adopt", rewardFile(t, "version: 1", "version: 3"), "--why", "as shipped", "--dry-run")
	require.Equal(t, exitDone, code, said)
	require.Contains(t, said, "nothing was adopted")
	code, said = command("adopt", rewardFile(t, "version: 1", "version: 3"), "--why", "as shipped")
	require.Equal(t, exitDone, code, said)
	await("composer@3")
	var now checkpoint.Reward
	require.NoError(t, Remote{Data: i.data}.call(t.Context(), "GET", "/v1/reward", nil, &now))
	b, err := rewardspec.ParseBaseline([]byte(now.Documents.Baseline))
	require.NoError(t, err)
	require.InDelta(t, 1, b.Global.Units, 0, "one unit's two turns")
	require.InDelta(t, -.8, b.Global.Value, .05, "under the new spec, not as they were scored")
	code, said = command("history")
	require.Equal(t, exitDone, code)
	require.Contains(t, said, "as shipped")
	require.Zero(t, i.stop())
	i.output.requireClean(t)
}

func TestRewardStress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args       []string
		code       int
		says, warn string
	}{
		"the shipped one":         {nil, exitDone, "It attempts every edit", ""},
		"one without deferral":    {[]string{rewardFile(t, "deferral:", "# deferral:")}, exitFailed, "a hard edit: asks instead of editing", `"deferral" is missing`},
		"a trainer that drops":    {[]string{"--leave-out", "unended,questions"}, exitFailed, "left out by the trainer: unended, questions", "does not end at honest work"},
		"an unknown filter":       {[]string{"--leave-out", "weekends"}, exitUsage, "", "invalid_calls, undelivered"},
		"no rounds":               {[]string{"--rounds", "0"}, exitUsage, "", "from 1 to"},
		"a file that isn't there": {[]string{"nowhere.yaml"}, exitFailed, "", "nowhere.yaml"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, c.code, run(t.Context(), append([]string{"reward", "stress"}, c.args...), &out, &errs), "%s: %s", name, errs.String())
		require.Contains(t, out.String(), c.says, name)
		require.Contains(t, errs.String(), c.warn, name)
	}
	var out, errs bytes.Buffer
	require.Equal(t, exitDone, run(t.Context(), []string{"-o", "json", "reward", "stress"}, &out, &errs))
	var got stress.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.True(t, got.OK)
	require.Len(t, got.Ends, 4)
}

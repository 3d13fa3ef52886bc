package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/rehearsal"
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

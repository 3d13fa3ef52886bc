package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/reward/lint"
	"millrace/schemas/rewardspec"
)

func TestRewardLint(t *testing.T) {
	t.Parallel()
	baseline := filepath.Join(t.TempDir(), "baseline.json")
	b := rewardspec.BaselineV0()
	b.Version = "ours"
	text, err := b.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(baseline, text, 0o600))
	misspelt := rewardFile(t, "explicit.thumb", "explicit.tumb")
	for name, c := range map[string]struct {
		args       []string
		code       int
		says, warn string
	}{
		"the shipped one":  {nil, exitDone, "composer@1: 0 errors, 0 warnings (baseline v0, seed 1)", ""},
		"with a baseline":  {[]string{"--baseline", baseline, "--seed", "7"}, exitDone, "(baseline ours, seed 7)", ""},
		"an error":         {[]string{misspelt}, exitFailed, `line 9: error: component "thumb": unknown signal explicit.tumb; did you mean explicit.thumb? (document)`, "1 error, 0 warnings"},
		"a warning":        {[]string{rewardFile(t, "-0.8 * care.tests_weakened", "0 * care.tests_weakened")}, exitDone, "(tests-unread)\n    do: add", ""},
		"no file":          {[]string{"nothing.yaml"}, exitFailed, "", "nothing.yaml"},
		"no baseline file": {[]string{"--baseline", "nothing.yaml"}, exitUsage, "", "nothing.yaml"},
		"another document": {[]string{"--baseline", misspelt}, exitFailed, "", "it must be Baseline"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, c.code, run(t.Context(), append([]string{"reward", "lint"}, c.args...), &out, &errs), "%s: %s", name, errs.String())
		require.Contains(t, out.String(), c.says, name)
		require.Contains(t, errs.String(), c.warn, name)
	}
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"-o", "json", "reward", "lint", misspelt}, &out, &errs))
	var report lint.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.Equal(t, 1, report.Errors)
	require.Equal(t, lint.Document, report.Findings[0].Code)
}

// Nothing is asked of any server before the spec is clean.
func TestAdoptLintsFirst(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	paid := rewardFile(t, "components: ", "components:\n  - {name: busy, value: \"0.2 * edits.proposed\"}\n#")
	require.Equal(t, exitFailed, run(t.Context(), []string{"reward", "adopt", paid, "--why", "x"}, &out, &errs))
	require.Contains(t, errs.String(), "line 7: error: component \"busy\" pays per edit")
	require.Contains(t, errs.String(), "composer@1 is not adopted: millrace reward lint finds 2 errors, 0 warnings in it")
}

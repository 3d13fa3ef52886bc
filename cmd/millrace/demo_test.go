package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/gate"
	"millrace/checkpoint/release"
	"millrace/schemas/sample"
)

// TestDemoOnce plays the shipped demo to its end, and those of candidates that must not ship. Exit 0 says that every
// law held.
func TestDemoOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("about two minutes of both cores")
	}
	for _, candidate := range []string{"better", "null", "worse"} {
		t.Run(candidate, func(t *testing.T) {
			s := playDemo(t, "--candidate", candidate)
			require.Empty(t, s.Broken)
			require.True(t, s.Balanced)
			if candidate != "better" {
				require.NotEqual(t, string(gate.Ship), s.Verdict)
				require.Equal(t, "base-0", s.Live)
				return
			}
			require.Equal(t, string(gate.Ship), s.Verdict)
			require.NotEqual(t, "base-0", s.Live)
			require.Greater(t, s.Turns, int64(5000))
			require.Equal(t, s.Turns, s.Settled+s.Open)
			require.Positive(t, s.Rows)
		})
	}
}

// A small team's demo ends in what was decided, on what evidence, and what would tell.
func TestDemoOfFewUsers(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of both cores")
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), millraceBinary(t), "up", "--demo", "--once", "--units", "125", "--listen", "127.0.0.1:0", "--data", filepath.Join(openFolder(t), "data"))
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Run(), "%s", &out)
	for _, says := range []string{"HOLD: live stays base-0", "to its declared end", "stays out: after", `That isn't "no difference"`, "millrace gate plan --units"} {
		require.Contains(t, out.String(), says)
	}
}

func playDemo(t *testing.T, flags ...string) summary {
	t.Helper()
	// The binary as users run it: under the race detector a cycle would take ten minutes.
	arguments := append([]string{"up", "--demo", "--once", "-o", "json", "--listen", "127.0.0.1:0", "--data", filepath.Join(openFolder(t), "data")}, flags...)
	cmd := exec.CommandContext(t.Context(), millraceBinary(t), arguments...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, &complaints)
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var s summary
	require.NoError(t, json.Unmarshal(lines[len(lines)-1], &s), "%s", out)
	return s
}

func TestTrainedTokensAreCountedBySpans(t *testing.T) {
	t.Parallel()
	rows := []sample.Row{{
		LossMask:           []uint8{0, 1, 1, 0, 1, 1},
		PolicyVersionSpans: []sample.Span{{Version: "a", Start: 1, End: 3}, {Version: "b", Start: 3, End: 5}},
	}}
	require.Equal(t, map[string]int64{"a": 2, "b": 1, "": 1}, trainedBy(rows))
}

func TestThePointerIsCompared(t *testing.T) {
	t.Parallel()
	live := &release.Release{Seq: 3, Version: "v2"}
	require.Empty(t, pointsElsewhere([]byte(`{"release":3,"version":"v2"}`), live))
	require.NotEmpty(t, pointsElsewhere([]byte(`{"release":3,"version":"v1","former":"v2"}`), live), "named, but not as what is live")
	require.NotEmpty(t, pointsElsewhere([]byte(`{"release":2,"version":"v2"}`), live))
	require.NotEmpty(t, pointsElsewhere([]byte(`nonsense`), live))
}

func TestHowATestEnded(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ended early, for harm", ending(gate.Verdict{Decision: gate.Rollback}))
	require.Equal(t, "to its declared end", ending(gate.Verdict{Decision: gate.Rollback, Ended: true}))
	require.Equal(t, "decided early", ending(gate.Verdict{Decision: gate.Ship, Early: true}))
}

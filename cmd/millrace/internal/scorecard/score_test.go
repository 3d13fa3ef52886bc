package scorecard

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
)

var update = flag.Bool("update", false, "write the golden files anew; review the difference")

func scored(t *testing.T, paths ...string) *Scored {
	t.Helper()
	s, err := Score(Config{Paths: paths, Format: "auto"})
	require.NoError(t, err)
	require.NoError(t, s.Check())
	return s
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestReport(t *testing.T) {
	t.Parallel()
	card, err := scored(t, "testdata/sessions").Card()
	require.NoError(t, err)
	card.Command = "millrace score sessions"
	require.True(t, card.Balanced, card.Unbal)
	var text bytes.Buffer
	require.NoError(t, card.Write(&text))
	golden(t, "report.golden", text.String())

	body, err := json.MarshalIndent(card, "", "  ")
	require.NoError(t, err)
	golden(t, "report.golden.json", string(body)+"\n")
}

func TestExplanations(t *testing.T) {
	t.Parallel()
	s := scored(t, "testdata/sessions")
	var text bytes.Buffer
	for _, name := range []string{"7f3a…#1", "7f3a#2", "b0c1…#1"} {
		e, err := s.Explain(name)
		require.NoError(t, err)
		require.NoError(t, e.Write(&text))
		text.WriteString("\n")
	}
	golden(t, "turns.golden", text.String())

	e, err := s.Explain("7f3a52c1-0001")
	require.NoError(t, err, "a turn's own id")
	require.Equal(t, "7f3a…#1", e.Turn)
	_, err = s.Explain("7f3a#99")
	require.ErrorContains(t, err, `no turn "7f3a#99"`)
	require.ErrorContains(t, err, "for instance 7f3a…#1")
	_, err = s.Explain("7f3a52c1")
	require.ErrorContains(t, err, "may be")
}

func TestComponentsAddUpToTheReward(t *testing.T) {
	t.Parallel()
	s := scored(t, "testdata/sessions")
	n := 0
	for _, row := range s.Rows {
		if !row.Reward.Known {
			continue
		}
		n++
		require.InDelta(t, s.Reward.Total(row.Components), row.Reward.Number, 1e-9, row.TurnID)
	}
	require.NotZero(t, n)
}

func TestAnotherSpec(t *testing.T) {
	t.Parallel()
	spec := filepath.Join(t.TempDir(), "spec.yaml")
	shipped, document, err := loadSpec("")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(spec, bytes.Replace(document, []byte("name: "+shipped.Name), []byte("name: mine"), 1), 0o600))
	s, err := Score(Config{Paths: []string{"testdata/sessions"}, Spec: spec})
	require.NoError(t, err)
	require.Equal(t, "mine@1", s.Rows[0].RewardSpec)

	require.NoError(t, os.WriteFile(spec, []byte("name: mine\n"), 0o600))
	_, err = Score(Config{Paths: []string{"testdata/sessions"}, Spec: spec})
	require.ErrorContains(t, err, "line 1")
}

func TestWrittenFiles(t *testing.T) {
	t.Parallel()
	s := scored(t, "testdata/sessions")
	dir := t.TempDir()
	paths, err := s.WriteFiles(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, paths, 1, "transcripts have no tokens, and so no shards")
	again, err := s.WriteFiles(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, paths, again)
	body, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	rows, err := arrowfile.ReadLedger(body)
	require.NoError(t, err)
	require.Len(t, rows, len(s.Rows)+len(s.Amendments))
	require.Equal(t, ledger.Turn, rows[0].Kind)
	require.Equal(t, "imported", rows[0].Origin)

	s.Rows = s.Rows[:len(s.Rows)-1]
	_, err = s.WriteFiles(t.Context(), dir)
	require.ErrorContains(t, err, "counts turns twice")
}

func TestNothingToRead(t *testing.T) {
	t.Parallel()
	_, err := Score(Config{Paths: []string{"testdata/none"}})
	require.ErrorContains(t, err, "no transcripts")
	_, err = Score(Config{Paths: []string{t.TempDir()}})
	require.ErrorContains(t, err, "there is no .jsonl")
	_, err = Score(Config{Paths: []string{"testdata/sessions"}, Format: "fax"})
	require.ErrorContains(t, err, `format "fax" can't be read`)

	card, err := scored(t, "testdata/sessions/notes.json").Card()
	require.NoError(t, err)
	require.True(t, card.Balanced)
	require.Zero(t, card.Turns)
	require.Equal(t, 1, card.Files.NotUnderstood)
	var text bytes.Buffer
	require.NoError(t, card.Write(&text))
	require.Contains(t, text.String(), "notes.json:1  not understood: looks like gemini-cli (5 lines)")
}

// samples is the folder of sample transcripts, if there is one.
func samples(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("MILLRACE_SAMPLES")
	for root, up := ".", 0; dir == "" && up < 8; root, up = filepath.Join(root, ".."), up+1 {
		if found := filepath.Join(root, "shared", "samples"); exists(found) {
			dir = found
		}
	}
	if dir == "" {
		t.Skip("no sample transcripts: set MILLRACE_SAMPLES")
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestSamples(t *testing.T) {
	t.Parallel()
	card, err := scored(t, filepath.Join(samples(t), "claude-code")).Card()
	require.NoError(t, err)
	require.True(t, card.Balanced, card.Unbal)
	require.Empty(t, card.Rejected)
	require.Equal(t, 24, card.Turns)
	require.EqualValues(t, 16, card.Records["duplicate"], "the cumulative pair")
	require.Zero(t, card.Records["dead_lettered"])
	for _, p := range card.NotUnderstood {
		require.True(t, strings.HasPrefix(p.File, "edge_cases"), p.String())
	}
	pair := filepath.Join(samples(t), "claude-code", "s07_checkpoint")
	card, err = scored(t, pair+"0.jsonl", pair+"1.jsonl").Card()
	require.NoError(t, err)
	require.Equal(t, 3, card.Turns, "each turn once")
}

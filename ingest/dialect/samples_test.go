package dialect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// samples is the folder of sample transcripts; the test is skipped where there is none.
func samples(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("MILLRACE_SAMPLES"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	require.NoError(t, err)
	for range 6 {
		if found := filepath.Join(dir, "shared", "samples"); isDir(found) {
			return found
		}
		dir = filepath.Dir(dir)
	}
	t.Skip("no sample transcripts: set MILLRACE_SAMPLES")
	return ""
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// readFiles reads files as score does.
func readFiles(t *testing.T, format string, paths ...string) *Result {
	t.Helper()
	reader, err := NewReader(format)
	require.NoError(t, err)
	for _, path := range paths {
		file, err := os.Open(path)
		require.NoError(t, err)
		require.NoError(t, reader.Add(filepath.Base(path), file))
		require.NoError(t, file.Close())
	}
	result := reader.Result()
	require.NoError(t, result.Check())
	return result
}

func TestSamples(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(samples(t), ClaudeCode)
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := readFiles(t, Auto, paths...)
	checkResult(t, all)
	require.Equal(t, 8, all.Sessions)
	require.Zero(t, all.FilesNotUnderstood)
	for _, p := range all.NotUnderstood {
		require.Equal(t, "edge_cases.jsonl", p.File, "%s", p)
	}
}

func TestSampleOfACumulativePair(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(samples(t), ClaudeCode)
	pair := readFiles(t, Auto, filepath.Join(dir, "s07_checkpoint0.jsonl"), filepath.Join(dir, "s07_checkpoint1.jsonl"))
	later := readFiles(t, Auto, filepath.Join(dir, "s07_checkpoint1.jsonl"))
	distinct := map[string]bool{}
	for _, l := range pair.Events {
		distinct[l.Event.GetEventId()] = true
	}
	require.Len(t, distinct, len(later.Events))
	require.Len(t, ends(pair), 3)
}

func TestSampleOfEdgeCases(t *testing.T) {
	t.Parallel()
	r := readFiles(t, Auto, filepath.Join(samples(t), ClaudeCode, "edge_cases.jsonl"))
	var lines []string
	for _, p := range r.NotUnderstood {
		lines = append(lines, p.String())
	}
	require.Equal(t, []string{
		"edge_cases.jsonl:10  message has no content",
		"edge_cases.jsonl:11  message is a text, not an object",
		"edge_cases.jsonl:13  not an object (a text)",
		"edge_cases.jsonl:14  no type",
		"edge_cases.jsonl:15  not an object (a number)",
		"edge_cases.jsonl:16  not an object (a list)",
		"edge_cases.jsonl:18  content[0] is a text, not a block",
	}, lines)
}

func TestSamplesOfOtherAgents(t *testing.T) {
	t.Parallel()
	root := samples(t)
	formats := map[string]string{
		"codex-exec": CodexExec, "codex-rollout": CodexRollout, "gemini-cli": GeminiCLI, "mini-swe-agent": MiniSWEAgent, "openhands": OpenHands,
		"otel-genai": OTelGenAI, "swe-agent": SWEAgent, "tau-bench": TauBench, "edit-survival": "", ClaudeCode: ClaudeCode,
	}
	for folder, format := range formats {
		paths, err := filepath.Glob(filepath.Join(root, folder, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, paths, folder)
		for _, path := range paths {
			head, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, format, Detect(head[:min(len(head), HeadBytes)], filepath.Base(path)), path)
			if format != ClaudeCode {
				r := readFiles(t, Auto, path)
				require.Equal(t, r.Lines, r.NotUnderstoodLines())
				require.Equal(t, 1, r.FilesNotUnderstood)
			}
		}
	}
}

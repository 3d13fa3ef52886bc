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

func TestDump(t *testing.T) {
	paths, _ := filepath.Glob(os.Getenv("DUMP"))
	r := readFiles(t, Auto, paths...)
	t.Log(r.Lines, r.Read, r.Ignored, r.Sessions, len(r.Events))
	for _, p := range r.NotUnderstood {
		t.Log(p)
	}
	for _, e := range r.Events {
		s := e.Event.String()
		if len(s) > 700 {
			s = s[:700]
		}
		t.Log(e.File, e.Line, s)
	}
}

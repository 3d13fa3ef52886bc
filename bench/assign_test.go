package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test's own program be the server that is measured.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == serveFlag {
		exitOn(serveAssignments())
		return
	}
	os.Exit(m.Run())
}

// Every answer is checked for its status, and units for both arms; how fast that goes is nobody's test.
func TestMeasuresAssignments(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, runAssigning(&out, 101, 2, true))
	var a assigning
	require.NoError(t, json.Unmarshal([]byte(out.String()), &a))
	for _, kind := range []spread{a.Bare, a.Single, a.Bulk, a.NotModified, a.Local, a.SingleWall} {
		require.Positive(t, kind.Min)
	}
	out.Reset()
	require.NoError(t, a.print(&out))
	require.Contains(t, out.String(), "OFREP, single")
}

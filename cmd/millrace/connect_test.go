package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// Containers have the same host name and process id often enough.
func TestNoTwoProcessesHaveOneName(t *testing.T) {
	t.Parallel()
	out := &Output{Out: io.Discard, Err: io.Discard}
	a, err := open(t.Context(), out, "distill", Logging{LogLevel: "info", LogFormat: "text"})
	require.NoError(t, err)
	defer a.close()
	b, err := open(t.Context(), out, "distill", Logging{LogLevel: "info", LogFormat: "text"})
	require.NoError(t, err)
	defer b.close()
	require.NotEqual(t, a.owner, b.owner)
	require.Regexp(t, `/\d+/distill$`, a.owner)
}

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWindows(t *testing.T) {
	t.Parallel()
	valid := Windows{Lateness: 10 * time.Second, MaxTurn: 2 * time.Hour, DedupeWindow: 2 * time.Hour, BatchInterval: time.Minute}
	require.NoError(t, valid.check())
	for flag, change := range map[string]func(*Windows){
		"--max-turn 2h0m1s is longer than --dedupe-window 2h0m0s": func(w *Windows) { w.MaxTurn += time.Second },
		"--lateness 0s":          func(w *Windows) { w.Lateness = 0 },
		"--max-turn -1s":         func(w *Windows) { w.MaxTurn = -time.Second },
		"--batch-interval 999µs": func(w *Windows) { w.BatchInterval = 999 * time.Microsecond },
	} {
		w := valid
		change(&w)
		var usage *usageError
		err := w.check()
		require.ErrorAs(t, err, &usage)
		require.ErrorContains(t, err, flag)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const scoredSessions = "internal/scorecard/testdata/sessions"

func TestScoreCommand(t *testing.T) {
	t.Parallel()
	run := func(asJSON bool, c ScoreCommand) (string, error) {
		var out bytes.Buffer
		err := c.Run(t.Context(), &Output{Out: &out, Err: &out, JSON: asJSON})
		return out.String(), err
	}

	text, err := run(false, ScoreCommand{Paths: []string{scoredSessions}, Out: t.TempDir()})
	require.NoError(t, err)
	require.Contains(t, text, "balanced")
	require.Contains(t, text, "millrace score "+scoredSessions+" --turn '7f3a…#2'")
	require.Contains(t, text, ".parquet")

	text, err = run(true, ScoreCommand{Paths: []string{scoredSessions}})
	require.NoError(t, err)
	var card struct {
		Balanced bool
		Turns    int
	}
	require.NoError(t, json.Unmarshal([]byte(text), &card), "one object")
	require.True(t, card.Balanced)
	require.Equal(t, 7, card.Turns)

	text, err = run(true, ScoreCommand{Paths: []string{scoredSessions}, Turn: "7f3a#2"})
	require.NoError(t, err)
	require.Contains(t, text, `"disposition":"no_tokens"`)

	text, err = run(true, ScoreCommand{Paths: []string{scoredSessions + "/notes.json"}})
	require.ErrorContains(t, err, "nothing was scored")
	require.NoError(t, json.Unmarshal([]byte(text), &card), "the account is printed all the same")
	require.Zero(t, card.Turns)
}

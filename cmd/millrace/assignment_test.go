package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"millrace/assignment"
	"millrace/ingest"
	"millrace/internal/auth"
)

// assignmentServer is a gateway's part that assigns, at noon.
func assignmentServer(t *testing.T, rules assignment.Ruleset) (*AssignmentCommand, ed25519.PrivateKey) {
	t.Helper()
	noon, key := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), rulesetKey([]byte("0123456789abcdef"))
	assigner, err := ingest.NewAssigner(ingest.AssignConfig{Key: key}, func(context.Context) (assignment.Ruleset, error) { return rules, nil },
		func() time.Time { return noon }, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	if rules.Live != "" {
		require.NoError(t, assigner.Refresh(t.Context()))
	}
	guard := auth.NewFixedGuard(map[string]auth.Token{"mr_x": {ID: "x", Scopes: []auth.Scope{auth.AssignRead}}})
	server := httptest.NewServer(assigner.Handler(guard))
	t.Cleanup(server.Close)
	return &AssignmentCommand{Remote: Remote{Server: server.URL, Token: "mr_x"}}, key
}

func TestAssignmentSaysWhichAndWhy(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at, key := assignmentServer(t, assignment.Ruleset{
		Live: "base-8", Kept: []string{"base-7"},
		HoldBack: &assignment.HoldBack{ID: "anchor-1", Salt: "a", Buckets: 500, Version: "base-1"},
		Experiment: &assignment.Experiment{
			ID: "exp-9", Salt: "x", Coverage: 4000, Control: "base-8", Candidate: "cand-9", StartsAt: noon, EndsAt: noon.Add(time.Hour),
		},
	})
	for name, c := range map[string]struct {
		ask  AssignmentUnit
		want string
	}{
		"candidate": {AssignmentUnit{Unit: "user-3"}, `user-3 is served cand-9: candidate arm of exp-9, until 2026-11-01 13:00
report in turnStarted.context: experiment exp-9, arm candidate
rules, the first that fits:
  1 hold-back   anchor-1: the unit has place 3,716 of 10,000; 0 … 499 on base-1, 5,000 … 5,499 on base-8
  2 experiment  exp-9, 2026-11-01 12:00 to 2026-11-01 13:00: the unit has place 6,362 of 10,000; 0 … 1,999 on base-8, 5,000 … 6,999 on cand-9
  3 live        base-8
`},
		"kept": {AssignmentUnit{Unit: "user-3", Checkpoint: "base-7"}, `user-3 is served base-7: the session began with it; it counts in no experiment
rules, the first that fits:
  1 hold-back   anchor-1: the unit has place 3,716 of 10,000; 0 … 499 on base-1, 5,000 … 5,499 on base-8
  2 experiment  exp-9, 2026-11-01 12:00 to 2026-11-01 13:00: the unit has place 6,362 of 10,000; 0 … 1,999 on base-8, 5,000 … 6,999 on cand-9
  3 live        base-8
`},
	} {
		var text bytes.Buffer
		require.NoError(t, c.ask.Run(t.Context(), &Output{Out: &text}, at), name)
		require.Equal(t, c.want, text.String(), name)
	}
	var text bytes.Buffer
	require.NoError(t, (&AssignmentKey{}).Run(t.Context(), &Output{Out: &text}, at))
	public, err := assignment.ParseKey(text.String())
	require.NoError(t, err)
	require.Equal(t, key.Public(), public)

	text.Reset()
	require.NoError(t, (&AssignmentUnit{Unit: "user-3"}).Run(t.Context(), &Output{Out: &text, JSON: true}, at))
	var answer assigned
	require.NoError(t, json.Unmarshal(text.Bytes(), &answer))
	require.Equal(t, "cand-9", answer.Version)
	require.Len(t, answer.Rules, 3)

	text.Reset()
	require.NoError(t, (&AssignmentRuleset{}).Run(t.Context(), &Output{Out: &text}, at))
	require.Contains(t, text.String(), `"coverage": 4000`)
}

func TestAssignmentBeforeAnythingIsLive(t *testing.T) {
	t.Parallel()
	at, _ := assignmentServer(t, assignment.Ruleset{})
	err := (&AssignmentUnit{Unit: "u"}).Run(t.Context(), &Output{Out: &bytes.Buffer{}}, at)
	require.ErrorContains(t, err, "no ruleset so far")
	require.ErrorContains(t, (&AssignmentUnit{}).Run(t.Context(), &Output{Out: &bytes.Buffer{}}, at), "unit")
}

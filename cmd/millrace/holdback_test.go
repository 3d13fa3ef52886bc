package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"millrace/assignment"
	"millrace/checkpoint/release"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

// What the history says served a unit is what the assignment gave it, held back or not.
func TestTheHoldBackIsServedAndRemembered(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	now := time.Date(2026, 3, 1, 7, 0, 0, 0, time.UTC)
	hold := func(h release.HoldBack) error {
		h.Who, h.Why = "eva", "creep"
		return postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return release.Hold(t.Context(), tx, h) })
	}
	require.NoError(t, postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return release.Init(t.Context(), tx, "base", "me", now) }))
	require.ErrorIs(t, hold(release.HoldBack{At: now}), release.ErrNoHoldBack)
	require.ErrorIs(t, hold(release.HoldBack{Version: "other", Buckets: 500, At: now}), release.ErrNeverServed)
	compare := func(at time.Time) (held int) {
		rules, err := readRuleset(t.Context(), &parts{pool: pool})
		require.NoError(t, err)
		rules.Format, rules.HashVersion, rules.ValidUntil = assignment.Format, assignment.HashVersion, at.Add(time.Hour)
		for i := range 600 {
			unit := fmt.Sprintf("user-%d", i)
			a, err := rules.Assign(assignment.Query{Unit: unit}, at)
			require.NoError(t, err)
			s, err := release.ServedAt(t.Context(), pool, unit, at)
			require.NoError(t, err)
			require.Equal(t, []string{a.Version, a.Experiment, a.Arm}, []string{s.Version, s.Experiment, s.Arm}, unit)
			if a.Experiment != "" {
				held++
			}
		}
		return held
	}
	require.Zero(t, compare(now.Add(time.Minute)))
	require.NoError(t, hold(release.HoldBack{Version: "base", Buckets: 500, At: now.Add(time.Hour)}))
	require.InDelta(t, 60, compare(now.Add(2*time.Hour)), 25)
	require.ErrorIs(t, hold(release.HoldBack{Version: "base", Buckets: 500, At: now.Add(48 * time.Hour)}), release.ErrHeldBack)
	require.NoError(t, hold(release.HoldBack{At: now.Add(49 * time.Hour)}))
	require.Zero(t, compare(now.Add(50*time.Hour)))
	require.NoError(t, hold(release.HoldBack{Version: "base", Buckets: 1000, At: now.Add(51 * time.Hour)}))
	before, err := release.ServedAt(t.Context(), pool, "user-1", now.Add(50*time.Hour))
	require.NoError(t, err)
	require.Empty(t, before.Experiment)
}

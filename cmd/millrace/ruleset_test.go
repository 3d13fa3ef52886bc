package main

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"millrace/assignment"
	"millrace/checkpoint/release"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

func TestReadRuleset(t *testing.T) {
	t.Parallel()
	ctx, p := t.Context(), &parts{pool: postgrestest.New(t)}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	rules, err := readRuleset(ctx, p)
	require.NoError(t, err)
	require.Equal(t, assignment.Ruleset{}, rules, "nothing is live yet")
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := p.pool.Exec(ctx, sql, args...)
		require.NoError(t, err)
	}
	require.NoError(t, postgres.InTx(ctx, p.pool, func(tx pgx.Tx) error {
		return release.Init(ctx, tx, "base-0", "a test", now)
	}))
	rules, err = readRuleset(ctx, p)
	require.NoError(t, err)
	require.Equal(t, assignment.Ruleset{Live: "base-0", Kept: []string{}}, rules)

	// The columns of the hold-back, as a newer database has them.
	exec(`alter view assignment_ruleset rename to plain_ruleset`)
	exec(`create view assignment_ruleset as select live, release, 'exp-1' as experiment, 'salt-1' as salt, 0.1::double precision as coverage,
		'base-0' as control, 'cand-1' as candidate, $$2026-11-01T12:00:00+01:00$$::timestamptz as starts_at, $$2026-11-01T16:00:00Z$$::timestamptz as ends_at,
		withdrawn, 'anchor-1' as hold_back, 'salt-a' as hold_back_salt, 500 as hold_back_buckets, 'base-0' as hold_back_version from plain_ruleset`)
	rules, err = readRuleset(ctx, p)
	require.NoError(t, err)
	require.Equal(t, &assignment.Experiment{
		ID: "exp-1", Salt: "salt-1", Coverage: 1000, Control: "base-0", Candidate: "cand-1", StartsAt: now.Add(-time.Hour), EndsAt: now.Add(4 * time.Hour),
	}, rules.Experiment)
	require.Equal(t, &assignment.HoldBack{ID: "anchor-1", Salt: "salt-a", Buckets: 500, Version: "base-0"}, rules.HoldBack)
	rules.IssuedAt, rules.ValidUntil = now, now.Add(time.Minute)
	_, err = assignment.Sign(rules, rulesetKey([]byte("0123456789abcdef")))
	require.NoError(t, err, "what is read can be signed")
}

// TestRulesetKeyStays: backends have the public half in their configuration.
func TestRulesetKeyStays(t *testing.T) {
	t.Parallel()
	key := rulesetKey([]byte("0123456789abcdef"))
	require.Equal(t, key, rulesetKey([]byte("0123456789abcdef")))
	require.NotEqual(t, key, rulesetKey([]byte("0123456789abcdeg")))
}

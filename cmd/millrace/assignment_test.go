package main

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/release"
	"millrace/ingest"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

func TestReadRuleset(t *testing.T) {
	t.Parallel()
	p := &parts{pool: postgrestest.New(t)}
	now := time.Now()
	rules, err := readRuleset(t.Context(), p, now)
	require.NoError(t, err)
	require.Equal(t, ingest.Ruleset{}, rules, "nothing is live yet")
	require.NoError(t, postgres.InTx(t.Context(), p.pool, func(tx pgx.Tx) error {
		return release.Init(t.Context(), tx, "base-0", "a test", now)
	}))
	rules, err = readRuleset(t.Context(), p, now)
	require.NoError(t, err)
	require.Equal(t, ingest.Ruleset{Live: "base-0", Former: []string{"base-0"}, Withdrawn: []string{}}, rules)
}

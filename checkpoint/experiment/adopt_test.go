package experiment

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/event"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type partitions struct {
	pool    *pgxpool.Pool
	records []*event.ControlRecord
	broken  error
}

func (l *partitions) record(_ context.Context, r *event.ControlRecord) error {
	if l.broken == nil {
		l.records = append(l.records, r)
	}
	return l.broken
}

func (l *partitions) write(ctx context.Context, fn func(pgx.Tx) error) error {
	return postgres.InTx(ctx, l.pool, fn)
}

func (l *partitions) adopt(ctx context.Context, change func(*event.ConfigAdopted) error) error {
	if err := l.write(ctx, func(tx pgx.Tx) error { return Propose(ctx, tx, noon, "why", change) }); err != nil {
		return err
	}
	return WriteConfig(ctx, l.pool, l.record, l.write, noon)
}

// TestConfigurationsAreWholeAndCounted: each is the last one with a change, the next seq, and reaches the log even if
// the process that made it did not write it.
func TestConfigurationsAreWholeAndCounted(t *testing.T) {
	t.Parallel()
	ctx, log := t.Context(), &partitions{pool: postgrestest.New(t)}
	last, err := Config(ctx, log.pool)
	require.NoError(t, err)
	require.Nil(t, last)
	require.NoError(t, log.adopt(ctx, func(c *event.ConfigAdopted) error { c.RewardSpecName = "composer@1"; return nil }))
	require.NoError(t, log.adopt(ctx, func(*event.ConfigAdopted) error { return nil }))
	require.Len(t, log.records, 1, "nothing changed, nothing is written")

	log.broken = errors.New("no broker")
	require.ErrorIs(t, log.adopt(ctx, func(c *event.ConfigAdopted) error { c.LatenessMs = 10; return nil }), log.broken)
	require.ErrorIs(t, log.adopt(ctx, func(c *event.ConfigAdopted) error { c.MaxTurnMs = 20; return nil }), log.broken)
	require.Error(t, log.adopt(ctx, func(*event.ConfigAdopted) error { return errors.New("no") }))
	log.broken = nil
	require.NoError(t, WriteConfig(ctx, log.pool, log.record, log.write, noon))
	require.NoError(t, WriteConfig(ctx, log.pool, log.record, log.write, noon))
	require.Len(t, log.records, 2, "the newest one covers the one that was never written")
	require.Equal(t, "config-3", log.records[1].Id)
	got := log.records[1].GetConfigAdopted()
	require.Equal(t, "composer@1", got.RewardSpecName)
	require.EqualValues(t, 3, got.Seq)
	require.EqualValues(t, 10, got.LatenessMs)
	require.EqualValues(t, 20, got.MaxTurnMs)
}

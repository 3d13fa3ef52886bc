package main

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/distill"
	"millrace/distill/account"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/ledger"
)

// between does something once, after the partitions were read and before their records are.
type between struct{ do func() }

func (b *between) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "from account_records") && b.do != nil {
		b.do()
		b.do = nil
	}
	return ctx
}

func (*between) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestTheAccountIsOfOneMoment(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	execute := func(sql string) {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	commit := func() {
		execute(`with moved as (update partition set committed_offset = committed_offset + 3, turns_opened = turns_opened + 2,
				turns_open = '{"base": 1}' where topic = 'sessions' and partition = 1 returning 1),
			turns as (insert into account_turns values ('sessions', 1, 'base', 'control', 'rewarded', 1)
				on conflict (topic, partition, policy_version, arm, disposition) do update set turns = account_turns.turns + 2)
			insert into account_records values ('sessions', 1, 'applied', 3)
				on conflict (topic, partition, class) do update set records = account_records.records + 3`)
	}
	require.NoError(t, distill.Register(t.Context(), pool, "sessions", 2))
	commit()
	cfg := pool.Config().Copy()
	cfg.ConnConfig.Tracer = &between{func() {
		commit()
		execute(`insert into partition (topic, partition, committed_offset) values ('sessions', 2, 1)`)
		execute(`insert into account_records values ('sessions', 2, 'control', 1)`)
	}}
	reading, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer reading.Close()
	for _, want := range []struct{ read, settled int64 }{{3, 1}, {7, 3}} {
		sum, each, err := readAccount(t.Context(), reading, "sessions")
		require.NoError(t, err)
		for partition, b := range each {
			require.NoError(t, b.Check(), "partition %d", partition)
		}
		require.Equal(t, want.read, sum.Read)
		require.Equal(t, map[account.Settled]int64{{PolicyVersion: "base", Arm: "control", Disposition: ledger.Rewarded}: want.settled}, sum.Settled)
	}
	execute(`delete from partition where partition = 2`)
	_, each, err := readAccount(t.Context(), reading, "sessions")
	require.NoError(t, err)
	require.ErrorContains(t, each[2].Check(), "read 0, but 1 are accounted for")
}

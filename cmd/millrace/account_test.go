package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

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

func TestAccountTellsSharesByVersionAndArm(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	require.NoError(t, distill.Register(t.Context(), pool, "sessions", 2))
	for _, sql := range []string{
		`update partition set committed_offset = 5, turns_opened = 400, log_time = '2026-03-01 12:00Z' where topic = 'sessions' and partition = 0`,
		`update partition set committed_offset = 5, turns_opened = 403, turns_open = '{"cand-1": 3}', log_time = '2026-03-01 12:07Z' where topic = 'sessions' and partition = 1`,
		`insert into account_records values ('sessions', 0, 'applied', 5), ('sessions', 1, 'applied', 5)`,
		`insert into account_turns values ('sessions', 0, 'base', 'control', 'rewarded', 195), ('sessions', 1, 'base', 'control', 'rewarded', 195),
			('sessions', 0, 'base', 'control', 'incomplete', 5), ('sessions', 1, 'base', 'control', 'incomplete', 5),
			('sessions', 0, 'cand-1', 'candidate', 'rewarded', 190), ('sessions', 1, 'cand-1', 'candidate', 'incomplete', 10),
			('sessions', 0, 'base', '', 'censored', 10), ('sessions', 1, 'base', '', 'rewarded', 190)`,
		`insert into policy_version values ('base', 1, null, now()), ('cand-1', 2, 'cand-1', now())`,
		`insert into cut (id, number, due_at, cause, base, topic, partitions, seed, state) values ('cut-1', 1, now(), 'schedule', 'base', 'sessions', 2, 's', 'marking')`,
		`insert into candidate values ('cand-1', 'cut-1', 'base', now(), now(), now(), now(), now() + interval '1 h', now() + interval '1 h')`,
		`insert into experiment values ('exp-1', 'cand-1', 'base', 'cand-1', 'salt', 100, '2026-03-01', '2026-03-01', '2026-03-02', '2026-03-03', 1000, 'policy')`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	command := AccountCommand{Tables: Tables{Postgres: pool.Config().ConnString(), Topic: "sessions"}}
	var out bytes.Buffer
	require.NoError(t, command.Run(t.Context(), &Output{Out: &out}))
	text := strings.Join(strings.Fields(out.String()), " ")
	require.Contains(t, text, "(log time: every partition is committed through 2026-03-01 12:00 UTC)")
	require.Contains(t, text, "base – 200 95.00% – 5.00% – – – – ")
	require.Contains(t, text, "base control 400 97.50% – – – 2.50% – – ")
	require.Contains(t, text, "cand-1 candidate 200 95.00% – – – 5.00% – – ")
	require.Contains(t, text, "exp-1: base (control) | cand-1 (candidate) incomplete: 2.50% | 5.00%, a difference of +2.50 points; by chance alone up to about ±3.51")
	require.Contains(t, text, "faulted: 0.00% | 0.00%, a difference of +0.00 points")

	out.Reset()
	command.Policy = "cand-1"
	require.NoError(t, command.Run(t.Context(), &Output{Out: &out, JSON: true}))
	var document struct {
		AsOf    time.Time       `json:"as_of"`
		Settled []account.Share `json:"settled"`
		Arms    []arms          `json:"arms"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &document))
	require.Equal(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), document.AsOf)
	require.Equal(t, []account.Share{
		{PolicyVersion: "cand-1", Arm: "candidate", Disposition: ledger.Rewarded, Turns: 190, Of: 200, Share: .95},
		{PolicyVersion: "cand-1", Arm: "candidate", Disposition: ledger.Incomplete, Turns: 10, Of: 200, Share: .05},
	}, document.Settled)
	require.Equal(t, "exp-1", document.Arms[0].Experiment)
	require.InDelta(t, .025, document.Arms[0].Compared[0].Difference, 1e-12)

	_, err := pool.Exec(t.Context(), `update partition set log_time = null where partition = 1`)
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, command.Run(t.Context(), &Output{Out: &out}))
	require.Contains(t, out.String(), "not every partition has committed yet")
}

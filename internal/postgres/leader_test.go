package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

const lease = 10 * time.Minute

func elect(t *testing.T, pool *pgxpool.Pool, owner string) (int64, bool) {
	t.Helper()
	term, ok, err := postgres.Elect(deadline(t), pool, "job", owner, lease)
	require.NoError(t, err)
	return term, ok
}

func checkTerm(t *testing.T, pool *pgxpool.Pool, term int64) error {
	t.Helper()
	return postgres.InTx(deadline(t), pool, func(tx pgx.Tx) error { return postgres.CheckTerm(deadline(t), tx, "job", term) })
}

func expire(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(deadline(t), "update leader set lease_until = now() - interval '1 second'")
	require.NoError(t, err)
}

func TestTerms(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	require.ErrorIs(t, checkTerm(t, pool, 1), postgres.ErrFenced, "nobody was elected")

	first, ok := elect(t, pool, "a")
	require.True(t, ok)
	require.NoError(t, checkTerm(t, pool, first))
	_, ok = elect(t, pool, "b")
	require.False(t, ok, "the lease runs")
	require.NoError(t, postgres.Renew(deadline(t), pool, "job", first, lease))

	again, ok := elect(t, pool, "a")
	require.True(t, ok, "a process of the same name begins anew")
	require.Greater(t, again, first)
	require.ErrorIs(t, checkTerm(t, pool, first), postgres.ErrFenced)
	require.ErrorIs(t, postgres.Renew(deadline(t), pool, "job", first, lease), postgres.ErrFenced)
	require.NoError(t, postgres.Resign(deadline(t), pool, "job", first), "an old term harms nobody")
	require.NoError(t, checkTerm(t, pool, again))

	expire(t, pool)
	require.ErrorIs(t, postgres.Renew(deadline(t), pool, "job", again, lease), postgres.ErrFenced)
	require.NoError(t, checkTerm(t, pool, again), "nobody else leads yet, so its writes harm nobody")
	next, ok := elect(t, pool, "b")
	require.True(t, ok)
	require.ErrorIs(t, checkTerm(t, pool, again), postgres.ErrFenced)

	require.NoError(t, postgres.Resign(deadline(t), pool, "job", next))
	last, ok := elect(t, pool, "a")
	require.True(t, ok, "at once")
	require.Greater(t, last, next, "terms never count backwards")
}

// Between a leader's check and its commit nobody can be elected.
func TestElectionWaitsForTheLeadersTransaction(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	term, _ := elect(t, pool, "a")
	expire(t, pool)

	tx, err := pool.Begin(deadline(t))
	require.NoError(t, err)
	require.NoError(t, postgres.CheckTerm(deadline(t), tx, "job", term))
	elected := make(chan int64)
	go func() {
		term, _, err := postgres.Elect(deadline(t), pool, "job", "b", lease)
		if err != nil {
			t.Error(err)
		}
		elected <- term
	}()
	require.Eventually(t, func() bool {
		var waiting int
		err := pool.QueryRow(deadline(t), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").Scan(&waiting)
		return err == nil && waiting == 1
	}, 20*time.Second, 5*time.Millisecond)
	select {
	case <-elected:
		t.Fatal("elected in the middle of a leader's transaction")
	default:
	}
	require.NoError(t, tx.Commit(deadline(t)))
	require.Greater(t, <-elected, term)
}

func TestLeadersTakeTurns(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	var leading, terms atomic.Int64
	ended := make(chan error, 3)
	for _, owner := range []string{"a", "b", "c"} {
		l, err := postgres.NewLeader(postgres.LeaderConfig{Name: "job", Owner: owner, Lease: 150 * time.Millisecond}, pool)
		require.NoError(t, err)
		go func() {
			ended <- l.Run(ctx, func(context.Context, int64) error {
				if leading.Add(1) != 1 {
					t.Error("two lead at once")
				}
				defer leading.Add(-1)
				if terms.Add(1) == 6 {
					cancel()
				}
				return nil
			})
		}()
	}
	for range 3 {
		require.NoError(t, <-ended)
	}
	require.GreaterOrEqual(t, terms.Load(), int64(6))
}

func TestLeaderStopsWhenFenced(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	l, err := postgres.NewLeader(postgres.LeaderConfig{Name: "job", Owner: "a", Lease: 300 * time.Millisecond}, pool)
	require.NoError(t, err)
	stop := errors.New("enough")
	rounds := 0
	err = l.Run(deadline(t), func(ctx context.Context, term int64) error {
		if rounds++; rounds == 2 {
			return stop
		}
		// Somebody takes the row, as after a pause of ours.
		_, err := pool.Exec(deadline(t), "update leader set term = term + 1, owner = 'b'")
		require.NoError(t, err)
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), postgres.ErrFenced)
		require.ErrorIs(t, checkTerm(t, pool, term), postgres.ErrFenced)
		return ctx.Err()
	})
	require.ErrorIs(t, err, stop, "after the other's lease it led again, and its own error ended it")
}

// The database is away: the leader's own clock ends the term before the lease can have run out.
func TestLeaderStopsByItsOwnClock(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	const short = 500 * time.Millisecond
	own, err := postgres.Open(deadline(t), pool.Config().ConnString(), "leader")
	require.NoError(t, err)
	l, err := postgres.NewLeader(postgres.LeaderConfig{Name: "job", Owner: "a", Lease: short}, own)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(deadline(t))
	require.NoError(t, l.Run(ctx, func(ctx context.Context, _ int64) error {
		begin := time.Now()
		own.Close() // every renewal fails from here on
		<-ctx.Done()
		require.Less(t, time.Since(begin), short)
		cancel()
		return ctx.Err()
	}))
}

func TestLeaderConfigValidate(t *testing.T) {
	t.Parallel()
	for _, cfg := range []postgres.LeaderConfig{{}, {Name: "job"}, {Name: "job", Owner: "a", Lease: time.Millisecond}} {
		_, err := postgres.NewLeader(cfg, nil)
		require.Error(t, err)
	}
}

func TestVacateEndsEveryTerm(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	killed, ok := elect(t, pool, "killed")
	require.True(t, ok)
	require.NoError(t, postgres.Vacate(deadline(t), pool))
	_, ok = elect(t, pool, "next")
	require.True(t, ok, "nobody waits for the lease")
	require.ErrorIs(t, checkTerm(t, pool, killed), postgres.ErrFenced)
}

package distill

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"millrace/internal/postgres/postgrestest"
)

func TestTheDeadAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	worker := func(name string) *leases {
		return &leases{pool: pool, topic: "sessions", owner: name, term: time.Hour}
	}
	killed, next := worker("killed"), worker("next")
	require.NoError(t, Register(t.Context(), pool, "sessions", 4))
	share, err := killed.share(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, share)
	var old []*Lease
	for range share {
		lease, err := killed.claim(t.Context())
		require.NoError(t, err)
		old = append(old, lease)
	}

	share, err = next.share(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, share, "the other may be alive")
	_, err = next.claim(t.Context())
	require.ErrorIs(t, err, pgx.ErrNoRows)

	require.NoError(t, Vacate(t.Context(), pool, "sessions"))
	share, err = next.share(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, share)
	for range share {
		_, err := next.claim(t.Context())
		require.NoError(t, err)
	}
	for _, lease := range old {
		require.ErrorIs(t, killed.renew(t.Context(), lease), ErrFenced, "one that wasn't dead is fenced")
	}

	require.NoError(t, next.leave(t.Context()))
	share, err = killed.share(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, share, "one that left isn't counted")
}

// TestACommitIsWaitedForWhileTheServerIsAtIt renews beside a transaction that holds the partition's row.
func TestACommitIsWaitedForWhileTheServerIsAtIt(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	l := &leases{pool: pool, topic: "sessions", owner: "me", term: time.Hour}
	require.NoError(t, Register(t.Context(), pool, "sessions", 1))
	lease, err := l.claim(t.Context())
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `update partition set committed_offset = 1`)
	require.NoError(t, err)
	ran := func(ago time.Duration) { lease.trusted.Store(int64(time.Since(started) - ago)) }

	ran(time.Second)
	require.NoError(t, l.renew(t.Context(), lease), "it doesn't wait for the row")
	require.ErrorIs(t, lease.Trusted(), ErrLeaseLost, "the transaction may be another worker's")

	lease.begin()
	lease.working.Add(-int64(2 * time.Hour))
	lease.trusted.Store(int64(time.Since(started) + time.Minute))
	require.ErrorContains(t, lease.stalled(time.Hour), "the server has not been at it")
	ran(time.Second)
	require.ErrorIs(t, lease.stalled(time.Hour), ErrLeaseLost)
	require.NoError(t, l.renew(t.Context(), lease))
	require.NoError(t, lease.stalled(time.Hour), "the transaction is ours")

	require.NoError(t, tx.Commit(t.Context()))
	lease.working.Add(-int64(2 * time.Hour))
	require.NoError(t, l.renew(t.Context(), lease))
	require.Error(t, lease.stalled(time.Hour), "it is over, and its answer is lost")
	_, err = pool.Exec(t.Context(), `update partition set epoch = epoch + 1`)
	require.NoError(t, err)
	require.ErrorIs(t, l.renew(t.Context(), lease), ErrFenced)
}

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

package release

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func inTx(t *testing.T, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	t.Helper()
	return postgres.InTx(t.Context(), pool, fn)
}

func TestInit(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	_, err := Live(t.Context(), pool)
	require.ErrorIs(t, err, ErrNoLive)
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error { return Init(t.Context(), tx, "base", "ann", noon) }))
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error { return Init(t.Context(), tx, "base", "bob", noon) }), "the same again changes nothing")
	require.ErrorIs(t, inTx(t, pool, func(tx pgx.Tx) error { return Init(t.Context(), tx, "other", "bob", noon) }), ErrLiveExists)
	require.ErrorIs(t, inTx(t, pool, func(tx pgx.Tx) error {
		_, err := Rollback(t.Context(), tx, "bob", "why", noon)
		return err
	}), ErrNothingToUse)
	history, err := History(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, []Release{{Seq: 1, Action: ActionInit, Version: "base", At: noon, Who: "ann", Why: "the checkpoint that served before"}}, history)
	_, err = pool.Exec(t.Context(), `update release set who = 'mallory'`)
	require.ErrorContains(t, err, "append-only")
}

// TestPublicationIsRepeatedUntilItIsRecorded: a topic that is away delays it, and a process that was frozen in the
// middle never turns the pointer back.
func TestPublicationIsRepeatedUntilItIsRecorded(t *testing.T) {
	t.Parallel()
	pool, ctx := postgrestest.New(t), t.Context()
	store, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	away := errors.New("no broker")
	var announced []string
	p := &Publisher{
		DB: pool, Store: store,
		Write: func(ctx context.Context, fn func(pgx.Tx) error) error { return postgres.InTx(ctx, pool, fn) },
		Announce: func(_ context.Context, version string, _ []byte) error {
			announced = append(announced, version)
			return away
		},
	}
	require.NoError(t, p.Publish(ctx, noon), "nothing to publish")
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error { return Init(ctx, tx, "base", "ann", noon) }))
	require.ErrorIs(t, p.Publish(ctx, noon), away)
	away = nil
	require.NoError(t, p.Publish(ctx, noon))
	require.NoError(t, p.Publish(ctx, noon))
	require.Equal(t, []string{"base", "base"}, announced)
	live, err := Live(ctx, pool)
	require.NoError(t, err)
	require.True(t, live.Published)

	later, err := json.Marshal(Pointer{Release: Release{Seq: 9, Version: "later"}})
	require.NoError(t, err)
	require.NoError(t, store.Replace(ctx, LiveKey, later))
	require.NoError(t, p.Publish(ctx, noon))
	got, err := store.Get(ctx, LiveKey)
	require.NoError(t, err)
	require.Equal(t, later, got)
}

// TestThePointerIsWhatPostgresSays: it doesn't wait for announcements, and a pointer that a frozen process turned back
// when it woke up is put right.
func TestThePointerIsWhatPostgresSays(t *testing.T) {
	t.Parallel()
	pool, ctx := postgrestest.New(t), t.Context()
	store, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	fenced, away := error(nil), errors.New("no broker")
	p := &Publisher{
		DB: pool, Store: store,
		Write: func(ctx context.Context, fn func(pgx.Tx) error) error {
			if fenced != nil {
				return fenced
			}
			return postgres.InTx(ctx, pool, fn)
		},
		Announce: func(context.Context, string, []byte) error { return away },
	}
	pointed := func() string {
		body, err := store.Get(ctx, LiveKey)
		require.NoError(t, err)
		var at Pointer
		require.NoError(t, json.Unmarshal(body, &at))
		return at.Version
	}
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error { return Init(ctx, tx, "base", "ann", noon) }))
	require.ErrorIs(t, p.Publish(ctx, noon), away)
	require.Equal(t, "base", pointed())
	former, err := store.Get(ctx, LiveKey)
	require.NoError(t, err)

	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error {
		if err := candidate.Register(ctx, tx, "next", "", noon); err != nil {
			return err
		}
		return move(ctx, tx, Release{Action: ActionPromote, Version: "next", Former: "base", At: noon, Who: "ann", Why: "why"})
	}))
	require.ErrorIs(t, p.Publish(ctx, noon), away)
	require.Equal(t, "next", pointed(), "the announcement of the first one still waits")

	for _, wrong := range [][]byte{former, []byte("{"), nil} {
		require.NoError(t, store.Replace(ctx, LiveKey, wrong))
		fenced = postgres.ErrFenced
		require.ErrorIs(t, p.Publish(ctx, noon), postgres.ErrFenced, "whoever doesn't lead leaves it alone")
		left, err := store.Get(ctx, LiveKey)
		require.NoError(t, err)
		require.Equal(t, string(wrong), string(left))
		fenced = nil
		require.ErrorIs(t, p.Publish(ctx, noon), away)
		require.Equal(t, "next", pointed())
	}
}

package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
	"millrace/migrations"
)

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestVersion(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	require.NoError(t, postgres.CheckVersion(deadline(t), pool))
	require.NoError(t, postgres.Migrate(deadline(t), pool.Config().ConnString()), "again: nothing to do")

	_, err := pool.Exec(deadline(t), "insert into goose_db_version (version_id, is_applied) values (99999, true)")
	require.NoError(t, err)
	err = postgres.CheckVersion(deadline(t), pool)
	require.ErrorIs(t, err, postgres.ErrSchema)
	require.ErrorContains(t, err, "newer than this program")

	_, err = pool.Exec(deadline(t), "delete from goose_db_version where version_id > 0")
	require.NoError(t, err)
	require.ErrorContains(t, postgres.CheckVersion(deadline(t), pool), "run `millrace migrate`")

	_, err = pool.Exec(deadline(t), "drop table goose_db_version")
	require.NoError(t, err)
	require.ErrorContains(t, postgres.CheckVersion(deadline(t), pool), "the database is empty")
}

// Down to nothing and up again gives the same schema.
func TestDownAndUp(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	const columns = `select coalesce(string_agg(table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable, E'\n'
		order by table_name, column_name), '') from information_schema.columns where table_schema = 'public'`
	read := func() (schema string) {
		require.NoError(t, pool.QueryRow(deadline(t), columns).Scan(&schema))
		return schema
	}
	before := read()
	require.Contains(t, before, "leader.term bigint NO")

	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	require.NoError(t, err)
	_, err = provider.DownTo(deadline(t), 0)
	require.NoError(t, err)
	require.NotContains(t, read(), "leader")
	require.NoError(t, postgres.Migrate(deadline(t), pool.Config().ConnString()))
	require.Equal(t, before, read())
}

func TestSeveralMigrateAtOnce(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	_, err := pool.Exec(deadline(t), "drop schema public cascade; create schema public")
	require.NoError(t, err)
	errs := make([]error, 3)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = postgres.Migrate(deadline(t), pool.Config().ConnString()) })
	}
	group.Wait()
	require.Equal(t, []error{nil, nil, nil}, errs)
	require.NoError(t, postgres.CheckVersion(deadline(t), pool))
}

func TestOpen(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	again, err := postgres.Open(deadline(t), pool.Config().ConnString(), "distill")
	require.NoError(t, err)
	defer again.Close()
	var name, zone string
	require.NoError(t, again.QueryRow(deadline(t), "select current_setting('application_name'), current_setting('timezone')").Scan(&name, &zone))
	require.Equal(t, []string{"distill", "UTC"}, []string{name, zone})

	_, err = postgres.Open(deadline(t), "postgres://u:secret@127.0.0.1:1/d", "x")
	require.ErrorContains(t, err, "reaching Postgres at 127.0.0.1:1/d")
	require.NotContains(t, err.Error(), "secret")
	_, err = postgres.Open(deadline(t), "postgres://u:secret@127.0.0.1:port/d", "x")
	require.ErrorContains(t, err, "Postgres URL")
	require.NotContains(t, err.Error(), "secret")
}

func TestInTx(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	require.ErrorIs(t, postgres.InTx(deadline(t), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(deadline(t), "insert into worker values ('w', now())")
		require.NoError(t, err)
		return context.Canceled
	}), context.Canceled)
	insert := func(tx pgx.Tx) error {
		_, err := tx.Exec(deadline(t), "insert into worker values ('w', now())")
		return err
	}
	require.NoError(t, postgres.InTx(deadline(t), pool, insert), "the first was rolled back")
	require.Error(t, postgres.InTx(deadline(t), pool, insert), "the second was committed")
}

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"millrace/migrations"
)

// ErrSchema says that the database's schema isn't the one that this program was built for.
var ErrSchema = errors.New("database schema")

// Migrate brings the schema up to the version that this program was built for. Several at once wait for each other.
func Migrate(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("the Postgres URL: %w", err)
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	// Tried once a second for five minutes.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	provider, err := newProvider(db, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating the database at %s: %w", where(cfg), err)
	}
	return nil
}

func newProvider(db *sql.DB, options ...goose.ProviderOption) (*goose.Provider, error) {
	return goose.NewProvider(goose.DialectPostgres, db, migrations.Files, options...)
}

// latestVersion is that of the newest migration in this program.
func latestVersion() (int64, error) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return 0, err
	}
	var latest int64
	for _, name := range names {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", name, err)
		}
		latest = max(latest, v)
	}
	return latest, nil
}

// CheckVersion compares the database's schema with this program; the error is ErrSchema if they differ. Programs check
// at their start and never migrate by themselves.
func CheckVersion(ctx context.Context, pool *pgxpool.Pool) error {
	want, err := latestVersion()
	if err != nil {
		return err
	}
	var has int64
	err = pool.QueryRow(ctx, "select coalesce(max(version_id), 0) from goose_db_version where is_applied").Scan(&has)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == "42P01": // no such table
		return fmt.Errorf("%w: the database is empty; run `millrace migrate`", ErrSchema)
	case err != nil:
		return fmt.Errorf("reading the schema's version: %w", err)
	case has < want:
		return fmt.Errorf("%w: version %d, this program needs %d; run `millrace migrate`", ErrSchema, has, want)
	case has > want:
		return fmt.Errorf("%w: version %d is newer than this program, which knows %d; run a newer program", ErrSchema, has, want)
	}
	return nil
}

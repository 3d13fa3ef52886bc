package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	connectTimeout = 5 * time.Second
	// A transaction that its client has forgotten must not hold rows against everybody.
	idleInTransaction = time.Minute
)

// Open makes a pool and checks that the server answers. applicationName tells in pg_stat_activity who connects.
// url is postgres://user:password@host:port/database; pool settings may be given in it (pool_max_conns and so on).
func Open(ctx context.Context, url, applicationName string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the Postgres URL: %w", err) // pgx leaves the password out
	}
	c := cfg.ConnConfig
	c.ConnectTimeout = connectTimeout
	c.RuntimeParams["application_name"] = applicationName
	c.RuntimeParams["timezone"] = "UTC"
	if _, given := c.RuntimeParams["idle_in_transaction_session_timeout"]; !given {
		c.RuntimeParams["idle_in_transaction_session_timeout"] = fmt.Sprint(idleInTransaction.Milliseconds())
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening Postgres at %s: %w", where(c), err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reaching Postgres at %s: %w", where(c), brief(err))
	}
	return pool, nil
}

// where names the server without its password.
func where(c *pgx.ConnConfig) string { return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database) }

// brief says in one line why a server can't be reached: pgx tells it once for every address and way of encryption.
func brief(err error) error {
	var network *net.OpError
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &network):
		return network
	}
	return err
}

// InTx runs fn in a transaction and commits it if fn returns nil. An error of the commit itself leaves open whether it
// took effect: read the truth again before trying again.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, fn)
}

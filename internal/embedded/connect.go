package embedded

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

func urlOf(sockets, db string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + db}
	u.RawQuery = url.Values{"host": {sockets}, "port": {socketPort}}.Encode()
	return u.String()
}

func connect(ctx context.Context, sockets string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return pgx.Connect(ctx, urlOf(sockets, "postgres"))
}

func ping(ctx context.Context, sockets string) error {
	c, err := connect(ctx, sockets)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// prepare makes the database if need be, and asks for the version.
func (p *Postgres) prepare(ctx context.Context) error {
	c, err := connect(ctx, p.sockets)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	var version string
	var there bool
	err = c.QueryRow(ctx, "select current_setting('server_version'), exists (select from pg_database where datname = $1)",
		database).Scan(&version, &there)
	if err != nil {
		return fmt.Errorf("asking for the version: %w", err)
	}
	if p.version == "" {
		p.version, _, _ = strings.Cut(version, " ") // "15.18 (Debian 15.18-…)"
	}
	if !there {
		if _, err := c.Exec(ctx, "create database "+pgx.Identifier{database}.Sanitize()); err != nil {
			return fmt.Errorf("making the database %s: %w", database, err)
		}
	}
	return nil
}

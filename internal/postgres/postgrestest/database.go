package postgrestest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/internal/embedded"
	"millrace/internal/postgres"
	"millrace/migrations"
)

// New gives the test a migrated database of its own, gone with the test. The first call starts a server (or takes the
// one at TEST_DATABASE_URL, whose user must be allowed to make databases) and makes the template that all are copies of.
// The database's URL, for another pool or process, is pool.Config().ConnString().
func New(t *testing.T) *pgxpool.Pool {
	t.Helper()
	s, err := server()
	require.NoError(t, err, "a Postgres for the tests")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := "test_" + strings.ToLower(rand.Text()[:16])
	require.NoError(t, s.execute(ctx, "create database "+name+" template "+s.template), "a database for the test")
	pool, err := postgres.Open(ctx, s.database(name), "test "+t.Name())
	require.NoError(t, err)
	t.Cleanup(func() {
		pool.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.execute(ctx, "drop database "+name+" with (force)"); err != nil {
			t.Logf("dropping %s: %v", name, err)
		}
	})
	return pool
}

// running is the server of this test binary.
type running struct {
	url      *url.URL
	template string
	own      *embedded.Postgres // if it is ours: forgotten, it would lose its folder's lock to the garbage collector
}

var server = sync.OnceValues(start)

func start() (*running, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	s := &running{}
	base := os.Getenv("TEST_DATABASE_URL")
	if base == "" {
		var err error
		if s.own, err = startOwn(ctx); err != nil {
			return nil, err
		}
		base = s.own.URL()
	}
	var err error
	if s.url, err = url.Parse(base); err != nil {
		return nil, fmt.Errorf("TEST_DATABASE_URL: %w", err)
	}
	return s, s.makeTemplate(ctx)
}

// startOwn starts a server that ends with this process (or with the next run, where the system can't tell it).
// Nothing tells a package of a test binary's end, so its folder is removed by a later run.
func startOwn(ctx context.Context) (*embedded.Postgres, error) {
	const prefix = "millrace-postgrestest-"
	removeLeftovers(prefix)
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // root runs the server as another user
		return nil, err
	}
	return embedded.StartPostgres(ctx, embedded.PostgresConfig{Dir: dir, Volatile: true})
}

func removeLeftovers(prefix string) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")) // the pattern is well-formed
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // perhaps just being made
		}
		lock, err := embedded.LockFolder(dir)
		if err != nil {
			continue // in use
		}
		_ = os.RemoveAll(dir) // another's, perhaps
		_ = lock.Release()
	}
}

// makeTemplate makes the database that the others are copied from, named by what the migrations are.
func (s *running) makeTemplate(ctx context.Context) error {
	sum := sha256.New()
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := migrations.Files.ReadFile(name)
		if err != nil {
			return err
		}
		sum.Write(fmt.Appendf(nil, "%s %d ", name, len(content)))
		sum.Write(content)
	}
	s.template = "millrace_template_" + hex.EncodeToString(sum.Sum(nil)[:8])

	admin, err := pgx.Connect(ctx, s.url.String())
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	// Other test binaries may be at it on the same server. The lock ends with the connection.
	if _, err := admin.Exec(ctx, "select pg_advisory_lock(hashtext($1))", s.template); err != nil {
		return err
	}
	var there bool
	if err := admin.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", s.template).Scan(&there); err != nil || there {
		return err
	}
	fresh := s.template + "_new"
	for _, sql := range []string{"drop database if exists " + fresh, "create database " + fresh} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := postgres.Migrate(ctx, s.database(fresh)); err != nil {
		return err
	}
	_, err = admin.Exec(ctx, "alter database "+fresh+" rename to "+s.template)
	return err
}

// database is the URL of another database on the server.
func (s *running) database(name string) string {
	u := *s.url
	u.Path = "/" + name
	return u.String()
}

func (s *running) execute(ctx context.Context, sql string) error {
	c, err := pgx.Connect(ctx, s.url.String())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	// As one simple query: such statements can't be prepared in a transaction.
	_, err = c.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

package embedded

import (
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestPostgresThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	said := make(chan string, 100)
	next := func(wanted string) {
		t.Helper()
		for {
			select {
			case line := <-said:
				if strings.Contains(line, wanted) {
					return
				}
			case <-deadline(t).Done():
				require.Fail(t, "nobody said "+wanted)
			}
		}
	}
	p, err := StartPostgres(deadline(t), PostgresConfig{Dir: stateFolder(t), Volatile: true, Progress: func(line string) { said <- line }})
	require.NoError(t, err)
	execute(t, p, "create table kept as select 'here' as v")
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		kill(t, p, signal)
		next("Postgres has ended")
		next("takes connections again")
		require.Equal(t, "here", query(t, p, "select v from kept"), "at the same URL")
	}
	require.NoError(t, p.Stop())
}

// kill ends the server by the pid that it tells itself.
func kill(t *testing.T, p *Postgres, signal syscall.Signal) {
	t.Helper()
	c, err := pgx.Connect(deadline(t), p.URL())
	require.NoError(t, err)
	defer c.Close(deadline(t))
	var pid int
	require.NoError(t, c.QueryRow(deadline(t), "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int").Scan(&pid))
	require.NoError(t, syscall.Kill(pid, signal))
}

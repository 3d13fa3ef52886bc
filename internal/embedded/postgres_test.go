package embedded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// stateFolder is a folder that another account can enter too: t.TempDir's isn't.
func stateFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-embedded-*")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, dir string) *Postgres {
	t.Helper()
	p, err := StartPostgres(deadline(t), PostgresConfig{Dir: dir, Volatile: true, Progress: func(line string) { t.Log(line) }})
	require.NoError(t, err)
	return p
}

// forsake stops keeping the server, as the death of this process would.
func forsake(p *Postgres) {
	p.stop()
	<-p.kept
}

func query(t *testing.T, p *Postgres, sql string) string {
	t.Helper()
	c, err := pgx.Connect(deadline(t), p.URL())
	require.NoError(t, err)
	defer c.Close(context.Background())
	var out string
	require.NoError(t, c.QueryRow(deadline(t), sql).Scan(&out))
	return out
}

func execute(t *testing.T, p *Postgres, sql string) {
	t.Helper()
	c, err := pgx.Connect(deadline(t), p.URL())
	require.NoError(t, err)
	defer c.Close(context.Background())
	_, err = c.Exec(deadline(t), sql)
	require.NoError(t, err)
}

func TestPostgresKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	p := start(t, dir)
	require.False(t, p.Adopted())
	require.Equal(t, "millrace", query(t, p, "select current_database()"))
	require.True(t, strings.HasPrefix(query(t, p, "show server_version"), p.Version()))
	require.Equal(t, "UTC", query(t, p, "show timezone"))
	execute(t, p, "create table kept as select 'here' as v")
	require.NoError(t, p.Stop())

	p = start(t, dir)
	require.Equal(t, "here", query(t, p, "select v from kept"))
	require.NoError(t, p.Stop())
	_, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid"))
	require.ErrorIs(t, err, os.ErrNotExist, "a clean stop")
}

func TestPostgresBelongsToOneProcess(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	p := start(t, dir)
	_, err := StartPostgres(deadline(t), PostgresConfig{Dir: dir})
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, fmt.Sprintf("in use by pid %d", os.Getpid()))
	require.NoError(t, p.Stop())
}

// The server's death, as by kill -9 or a lack of memory, leaves postmaster.pid and a socket behind.
func TestPostgresAfterItsOwnKill(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	p := start(t, dir)
	execute(t, p, "create table kept as select 'here' as v")
	forsake(p)
	require.NoError(t, syscall.Kill(p.child.cmd.Process.Pid, syscall.SIGKILL))
	<-p.child.exited
	require.NoError(t, p.Stop())
	p = start(t, dir)
	require.False(t, p.Adopted())
	require.Equal(t, "here", query(t, p, "select v from kept"))
	require.NoError(t, p.Stop())
}

// A pid is used again, soon in a container: the file then names a process that has nothing to do with Postgres.
func TestPostgresAfterItsPidWentToAnother(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	p := start(t, dir)
	forsake(p)
	require.NoError(t, syscall.Kill(p.child.cmd.Process.Pid, syscall.SIGKILL))
	<-p.child.exited
	require.NoError(t, p.Stop())

	file := filepath.Join(dir, "data", "postmaster.pid")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(content), "\n")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "%d\n%s", os.Getpid(), rest), 0o600))
	p = start(t, dir)
	require.False(t, p.Adopted())
	require.NoError(t, p.Stop())
}

func TestPostgresThatOutlivedItsParentIsAdopted(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	first := start(t, dir)
	execute(t, first, "create table kept as select 'here' as v")
	// As where a parent's death isn't told to the child: the lock is free, the server runs.
	forsake(first)
	require.NoError(t, first.lock.Release())
	second := start(t, dir)
	require.True(t, second.Adopted())
	require.Equal(t, "here", query(t, second, "select v from kept"))
	require.Equal(t, first.Version(), second.Version())
	require.NoError(t, second.Stop())
	select {
	case <-first.child.exited:
	case <-time.After(10 * time.Second):
		t.Fatal("stopping an adopted server must end it")
	}
}

// TestMain lets the test binary play the process that is killed.
func TestMain(m *testing.M) {
	dir := os.Getenv("MILLRACE_TEST_PARENT")
	if dir == "" {
		os.Exit(m.Run())
	}
	p, err := StartPostgres(context.Background(), PostgresConfig{Dir: dir, Volatile: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.URL())
	select {}
}

func TestPostgresAfterItsParentsKill(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o755, 0o700} { // for root, two ways to run it
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			dir := stateFolder(t)
			require.NoError(t, os.Chmod(dir, mode))
			if mode == 0o700 && os.Geteuid() == 0 && !canMap() {
				t.Skip("this system allows no user namespaces")
			}
			killParents(t, dir)
		})
	}
}

func killParents(t *testing.T, dir string) {
	t.Helper()
	for round := range 4 {
		parent := exec.Command(os.Args[0])
		parent.Env = append(os.Environ(), "MILLRACE_TEST_PARENT="+dir)
		out, err := parent.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, parent.Start())
		line := make([]byte, 512)
		n, err := out.Read(line)
		require.NoError(t, err)
		url := strings.TrimSpace(string(line[:n]))
		c, err := pgx.Connect(deadline(t), url)
		require.NoError(t, err, url)
		_, err = c.Exec(deadline(t), "create table if not exists kept (v int); insert into kept select "+fmt.Sprint(round))
		require.NoError(t, err)
		require.NoError(t, parent.Process.Kill())
		_ = parent.Wait()
		_ = c.Close(context.Background())

		if round%2 == 0 {
			continue // the next parent starts at once
		}
		p := start(t, dir)
		require.Equal(t, fmt.Sprint(round+1), query(t, p, "select count(*)::text from kept"))
		require.NoError(t, p.Stop())
	}
}

func TestPostgresStartThatWasKilledHalfWay(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700))
	p := start(t, dir)
	require.NoError(t, p.Stop())
}

func TestPostgresInALongFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(stateFolder(t), strings.Repeat("a-long-name/", 12), "with space")
	p := start(t, dir)
	require.NotEmpty(t, p.scratch)
	require.Equal(t, "millrace", query(t, p, "select current_database()"))
	require.NoError(t, p.Stop())
	_, err := os.Stat(p.scratch)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestFolderThatTheAccountCantEnter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs Postgres as another user")
	}
	closed := stateFolder(t)
	require.NoError(t, os.Chmod(closed, 0o700))
	dir := filepath.Join(closed, "state")
	require.NoError(t, os.Mkdir(dir, 0o755))
	nobody, err := serviceAccount()
	require.NoError(t, err)
	err = nobody.mayEnter(dir)
	require.ErrorContains(t, err, "can't enter "+closed+" (drwx------)")
	require.ErrorContains(t, err, "/var/lib/millrace")
	require.NoError(t, account{}.mayEnter(dir), "this process's own account is never in doubt")

	if !canMap() {
		_, err = StartPostgres(deadline(t), PostgresConfig{Dir: dir, Volatile: true})
		require.ErrorContains(t, err, "can't enter "+closed)
		return
	}
	p := start(t, dir)
	execute(t, p, "create table kept as select 'here' as v")
	require.NoError(t, p.Stop())
	// The data folder's owner decides, also where others may enter by now.
	require.NoError(t, os.Chmod(closed, 0o755))
	p = start(t, dir)
	require.Equal(t, "here", query(t, p, "select v from kept"))
	require.NoError(t, p.Stop())
}

func TestStopWaitsForNobody(t *testing.T) {
	t.Parallel()
	p := start(t, stateFolder(t))
	c, err := pgx.Connect(deadline(t), p.URL())
	require.NoError(t, err)
	begin := time.Now()
	require.NoError(t, p.Stop(), "an open connection is cut")
	require.Less(t, time.Since(begin), stopTimeout/2)
	_ = c.Close(context.Background())
}

func TestPostgresConfigValidate(t *testing.T) {
	t.Parallel()
	require.Error(t, PostgresConfig{}.Validate())
	require.Error(t, PostgresConfig{Dir: "d", Repository: "ftp://x"}.Validate())
	require.NoError(t, PostgresConfig{Dir: "d", Repository: "https://repo.example.com/maven"}.Validate())
}

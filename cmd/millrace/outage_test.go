package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// underLoad is a `millrace up` with short windows that traffic flows into.
func underLoad(t *testing.T) (*instance, *flow) {
	t.Helper()
	i := newInstance(t, "--spec", quickSpec(t), "--partitions", strconv.Itoa(killedPartitions), "--lateness", "1s",
		"--max-turn", "8s", "--dedupe-window", "60s", "--batch-interval", "1s")
	i.start()
	i.ready()
	return i, play(t, i, newTraffic(7, time.Now(), 2*time.Minute, 8))
}

// awaitReadiness waits until /readyz says so, and gives the answer.
func (i *instance) awaitReadiness(status int, reason string) {
	i.t.Helper()
	last := ""
	i.await(time.Minute, "readiness "+strconv.Itoa(status), func() bool {
		got, body := i.readiness()
		last = body
		return got == status && strings.Contains(body, reason)
	})
	i.t.Log(strings.TrimSpace(last))
}

// committing waits until the workers have committed something new.
func (i *instance) committing() {
	i.t.Helper()
	pool, err := pgxpool.New(i.t.Context(), i.postgresURL())
	require.NoError(i.t, err)
	defer pool.Close()
	sum := func() (n int64) {
		require.NoError(i.t, pool.QueryRow(i.t.Context(), `select sum(committed_offset)::bigint from partition`).Scan(&n))
		return n
	}
	before := sum()
	i.await(time.Minute, "the workers commit", func() bool { return sum() > before })
}

// finishWhole ends the traffic and proves that nothing of it was lost or counted twice.
func (i *instance) finishWhole(f *flow) {
	i.t.Helper()
	f.finish()
	awaitSettled(i.t, i)
	require.Zero(i.t, i.stop(), "it said:\n%s", i.output)
	i.output.requireClean(i.t)
	old := openRemains(i.t, i)
	logged := old.loggedEvents(i.t, killedPartitions)
	for id := range f.source.ids() {
		require.Positive(i.t, logged[id], "an event was accepted and is not in the log: %s", id)
	}
	requireBalanced(i.t, old.pool)
	got := readProduct(i.t, old.pool, old.store)
	require.NotEmpty(i.t, got.samples)
	pool, store := old.undisturbed(i.t, got.committed)
	got.requireSame(i.t, readProduct(i.t, pool, store))
}

// requireTold wants an outage to have been told in so many lines at the level of warnings and above.
func (i *instance) requireTold(lines ...string) {
	i.t.Helper()
	said := i.output.lines("level=")
	require.Len(i.t, said, len(lines), "it said:\n%s", i.output)
	for n, line := range lines {
		require.Contains(i.t, said[n], line)
	}
}

func TestPostgresIsKilledUnderUp(t *testing.T) {
	t.Parallel()
	i, f := underLoad(t)
	i.committing()
	// The pid is held, so that it stays dead for a while.
	require.NoError(t, syscall.Kill(i.postgresPID(), syscall.SIGKILL))
	i.await(time.Minute, "it is started again", func() bool { return len(i.output.lines("Postgres takes connections again")) == 1 })
	i.awaitReadiness(http.StatusOK, "")
	i.committing()
	require.Len(t, i.output.lines("Postgres has ended (signal: killed); starting it again"), 1)
	i.finishWhole(f)
	require.LessOrEqual(t, len(i.output.lines("level=")), 2, "it said:\n%s", i.output)
}

func TestPostgresHangsUnderUp(t *testing.T) {
	t.Parallel()
	i, f := underLoad(t)
	i.committing()
	group := i.postgresPID()
	require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
	i.awaitReadiness(http.StatusServiceUnavailable, "Postgres does not answer")
	require.NoError(t, pause(t.Context(), 2*time.Second))
	require.NoError(t, syscall.Kill(-group, syscall.SIGCONT))
	i.awaitReadiness(http.StatusOK, "")
	i.committing()
	i.finishWhole(f)
}

func TestObjectFolderVanishes(t *testing.T) {
	t.Parallel()
	i, f := underLoad(t)
	i.committing()
	objects := filepath.Join(i.data, "objects")
	require.NoError(t, os.Rename(objects, objects+".away"))
	i.awaitReadiness(http.StatusServiceUnavailable, "the folder is gone (is the disk mounted?)")
	require.NoError(t, pause(t.Context(), 4*time.Second))
	require.NoDirExists(t, objects, "nothing is written in the place of a disk that is not mounted")
	require.NoError(t, os.Rename(objects+".away", objects))
	i.awaitReadiness(http.StatusOK, "")
	i.committing()
	i.finishWhole(f)
	i.requireTold("the object store is away", "the object store is back")
}

func TestObjectFolderIsFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	i := newInstance(t, "--spec", quickSpec(t), "--partitions", strconv.Itoa(killedPartitions), "--lateness", "1s",
		"--max-turn", "8s", "--dedupe-window", "60s", "--batch-interval", "1s")
	objects := filepath.Join(i.data, "objects")
	require.NoError(t, os.MkdirAll(objects, 0o755))
	if err := syscall.Mount("none", objects, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("no small disk here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(objects, syscall.MNT_DETACH) })
	i.start()
	i.ready()
	f := play(t, i, newTraffic(7, time.Now(), 2*time.Minute, 8))
	i.committing()
	ballast := filepath.Join(objects, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 4<<20), 0o600) // until it is full
	i.awaitReadiness(http.StatusServiceUnavailable, "no space left in the object store")
	require.NoError(t, pause(t.Context(), 4*time.Second))
	require.NoError(t, os.Remove(ballast))
	i.awaitReadiness(http.StatusOK, "")
	require.NoError(t, exec.Command("mount", "-o", "remount,size=64m", objects).Run())
	i.committing()
	i.finishWhole(f)
	i.requireTold("the object store is away", "the object store is back")
}

var _ = context.Background

package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
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

	"millrace/internal/auth"
	"millrace/internal/embedded"
	"millrace/internal/eventlog"
	"millrace/internal/postgres/postgrestest"
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

// requireTold wants a place's outages to have been told in so many lines, half of them that it is away and half that it
// is back, and nothing else at the level of warnings and above.
func (i *instance) requireTold(place string, most int) {
	i.t.Helper()
	away := func() int { return len(i.output.lines(place + " is away")) }
	i.await(waitMost, "it says that it is back", func() bool { return len(i.output.lines(place+" is back")) == away() })
	require.LessOrEqual(i.t, 2*away(), most, "%s", i.output)
	others := len(i.output.lines("level=")) - 2*away()
	for _, other := range []string{"Postgres", "the object store", "Kafka"} {
		if other != place {
			others -= len(i.output.lines(other+" is away")) + len(i.output.lines(other+" is back"))
		}
	}
	if place == "Postgres" { // it may have gone in the middle of a commit: nobody knows how that ended but the next one
		others -= len(i.output.lines("commit with an unknown outcome"))
	}
	require.Zero(i.t, others, "%s", i.output)
}

// One process goes through all of it: Postgres is killed, Postgres hangs, the object folder vanishes. Each is told in one
// line when it comes and in one when it is over; nobody has to start anything again, and nothing is lost.
func TestOutagesUnderUp(t *testing.T) {
	t.Parallel()
	i, f := underLoad(t)
	i.committing()

	require.NoError(t, syscall.Kill(i.postgresPID(), syscall.SIGKILL))
	i.await(waitMost, "it is started again", func() bool { return len(i.output.lines("Postgres takes connections again")) == 1 })
	i.awaitReadiness(http.StatusOK, "")
	i.committing()
	require.Len(t, i.output.lines("Postgres has ended (signal: killed); starting it again"), 1)
	i.requireTold("Postgres", 2)

	server := family(t, i.postgresPID())
	t.Cleanup(func() { signalAll(server, syscall.SIGCONT) }) // else nobody could stop it
	signalAll(server, syscall.SIGSTOP)
	i.awaitReadiness(http.StatusServiceUnavailable, "Postgres does not answer")
	accepted := f.driver.Stats().Accepted
	i.await(waitMost, "events are taken all the same", func() bool { return f.driver.Stats().Accepted > accepted+100 })
	signalAll(server, syscall.SIGCONT)
	i.awaitReadiness(http.StatusOK, "")
	i.committing()
	i.requireTold("Postgres", 4)

	objects := filepath.Join(i.data, "objects")
	require.NoError(t, os.Rename(objects, objects+".away"))
	i.awaitReadiness(http.StatusServiceUnavailable, "the folder is gone (is the disk mounted?)")
	i.await(waitMost, "it says so", func() bool { return len(i.output.lines("the object store is away")) == 1 })
	require.NoError(t, pause(t.Context(), waitSome))
	require.NoDirExists(t, objects, "nothing is written in the place of a disk that is not mounted")
	require.NoError(t, os.Rename(objects+".away", objects))
	i.awaitReadiness(http.StatusOK, "")
	i.committing()
	i.requireTold("the object store", 2)
	i.finishWhole(f)
}

// family is a process and its children.
func family(t *testing.T, pid int) []int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Skipf("this system doesn't tell a process's children: %v", err)
	}
	all := []int{pid}
	for word := range strings.FieldsSeq(string(children)) {
		child, err := strconv.Atoi(word)
		require.NoError(t, err)
		all = append(all, child)
	}
	return all
}

func signalAll(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
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
	i.await(waitMost, "it says so", func() bool { return len(i.output.lines("the object store is away")) == 1 })
	require.NoError(t, os.Remove(ballast))
	i.awaitReadiness(http.StatusOK, "")
	require.NoError(t, exec.Command("mount", "-o", "remount,size=64m", objects).Run())
	i.committing()
	i.requireTold("the object store", 2)
	i.finishWhole(f)
	require.Len(t, i.output.lines("level="), 2)
}

// started is a role that runs inside of this process.
type started struct {
	*instance // where it listens, and what it says
	stop      context.CancelFunc
	ended     chan int
}

func startRole(t *testing.T, role string, flags ...string) *started {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &started{&instance{t: t, listen: freeAddress(t), output: &transcript{}}, stop, make(chan int, 1)}
	arguments := append([]string{"run", role, "--listen", s.listen, "--log-format", "text", "--log-level", "warn"}, flags...)
	go func() { s.ended <- run(ctx, arguments, s.output, s.output) }()
	t.Cleanup(func() {
		stop()
		<-s.ended
		close(s.ended)
	})
	return s
}

// Kafka is away when the roles start, comes, goes during work, and comes back.
func TestKafkaIsAway(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	folder, objects, address := t.TempDir(), t.TempDir(), freeAddress(t)
	key := strings.Repeat("ab", 16)
	kafka := func() *embedded.Kafka {
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		k, err := embedded.StartKafka(folder, number)
		require.NoError(t, err)
		return k
	}
	broker := kafka()
	t.Cleanup(func() { _ = broker.Close() })
	places := []string{"--postgres", pool.Config().ConnString(), "--objects", objects, "--control-key", key, "--kafka", address}
	var said transcript
	require.Zero(t, run(t.Context(), append([]string{
		"migrate", "--partitions", strconv.Itoa(killedPartitions), "--spec", quickSpec(t),
		"--lateness", "1s", "--max-turn", "8s", "--batch-interval", "1s",
	}, places...), &said, &said), &said)
	token, err := auth.Create(t.Context(), pool, "test", []auth.Scope{auth.Admin})
	require.NoError(t, err)
	require.NoError(t, broker.Close())

	ingest := startRole(t, "ingest", places...)
	distill := startRole(t, "distill", append(places, "--unit-key", key)...)
	both := func(status int, reason string) {
		t.Helper()
		ingest.awaitReadiness(status, reason)
		distill.awaitReadiness(status, reason)
	}
	both(http.StatusServiceUnavailable, "connection refused")
	f := playTo(t, ingest.listen, token, newTraffic(9, time.Now(), 2*time.Minute, 8))
	require.NoError(t, pause(t.Context(), waitSome))
	require.Zero(t, f.driver.Stats().Accepted)
	committed := func() (n int64) {
		require.NoError(t, pool.QueryRow(t.Context(), `select sum(committed_offset)::bigint from partition`).Scan(&n))
		return n
	}
	for range 2 {
		broker = kafka()
		both(http.StatusOK, "")
		before := committed()
		distill.await(waitMost, "the workers commit", func() bool { return committed() > before })
		require.NoError(t, broker.Close())
		both(http.StatusServiceUnavailable, "connection refused")
		require.NoError(t, pause(t.Context(), waitSome))
	}
	broker = kafka()
	both(http.StatusOK, "")
	stats := f.finish()
	require.Positive(t, stats.SentAgain)
	ends, found := map[int32]int64{}, map[string]bool{}
	control, err := hex.DecodeString(key)
	require.NoError(t, err)
	keyring, err := eventlog.NewKeyring(map[string][]byte{"1": control}, "1")
	require.NoError(t, err)
	reader, err := eventlog.NewReader(eventlog.Config{Brokers: []string{address}, Topic: testTopic})
	require.NoError(t, err)
	defer reader.Close()
	r := &remains{reader: reader, keyring: keyring}
	for id := range r.loggedEvents(t, killedPartitions) {
		found[id] = true
	}
	require.Equal(t, f.source.ids(), found)
	for p := range int32(killedPartitions) {
		_, ends[p], err = reader.Bounds(t.Context(), p)
		require.NoError(t, err)
	}
	distill.await(waitMost, "everything is committed", func() bool { return reachedAll(committedOffsets(t.Context(), t, pool), ends) })
	requireBalanced(t, pool)
	for _, role := range []*started{ingest, distill} {
		require.Len(t, role.output.lines("Kafka is away"), 3, role.output)
		require.Len(t, role.output.lines("Kafka is back"), 3, role.output)
		require.LessOrEqual(t, len(role.output.lines("level=")), 8, "no flood: %s", role.output)
		role.output.requireClean(t)
	}
}

package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/checkpoint/experiment"
	"millrace/internal/eventlog"
	"millrace/internal/postgres"
	"millrace/schemas/event"
)

const (
	kills            = 10
	killedPartitions = 4
)

// quickSpec is the shipped reward spec with a horizon that fits into a test.
func quickSpec(t *testing.T) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "schemas", "rewardspec", "composer.yaml"))
	require.NoError(t, err)
	quick := filepath.Join(t.TempDir(), "quick.yaml")
	require.Contains(t, string(body), "settle_after: 20m\n")
	require.NoError(t, os.WriteFile(quick, []byte(strings.Replace(string(body), "settle_after: 20m\n", "settle_after: 3s\n", 1)), 0o600))
	return quick
}

// TestKillNine kills `millrace up` ten times at random moments under load, and starts it again each time on the same
// data. What it has made in the end equals, row for row, what one undisturbed run makes of the same log; and nothing is
// missing from the log that a client was told to be accepted. MILLRACE_KILL_SEED repeats a run's choices (not its timing).
func TestKillNine(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("MILLRACE_KILL_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("MILLRACE_KILL_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))

	i := newInstance(t, "--spec", quickSpec(t), "--partitions", strconv.Itoa(killedPartitions), "--lateness", "1s",
		"--max-turn", "12s", "--dedupe-window", "60s", "--batch-interval", "1s", "--batch-rows", "60")
	i.start()
	i.ready()
	adoptExperiment(t, i)
	flow := play(t, i, newTraffic(seed, time.Now(), 3*time.Minute, 24))
	for n := range kills {
		if n > 0 {
			i.start()
		}
		began := time.Now()
		how := awaitMoment(t, i, r)
		i.kill()
		t.Logf("kill %d, %s after its start: %s", n+1, time.Since(began).Round(time.Millisecond), how)
	}
	i.start()
	i.ready()
	stats := flow.finish()
	finished := time.Now()
	awaitSettled(t, i)
	t.Logf("settled %s after the last event", time.Since(finished).Round(time.Millisecond))
	require.Zero(t, i.stop(), "it said:\n%s", i.output)
	i.output.requireClean(t)
	t.Logf("%d events accepted, %d sent again, in %d requests; it said:\n%s", stats.Accepted, stats.SentAgain, stats.Requests, i.output)

	compared := time.Now()
	old := openRemains(t, i)
	logged := old.loggedEvents(t, killedPartitions)
	for id := range flow.source.ids() {
		require.Positive(t, logged[id], "an event was accepted and is not in the log: %s", id)
	}
	require.Len(t, logged, flow.source.sent)

	got := readProduct(t, old.pool, old.store)
	requireBalanced(t, old.pool)
	for _, table := range []string{"sums", "units", "turns", "records", "shards"} {
		require.NotEmpty(t, got.tables[table], table)
	}
	require.NotEmpty(t, got.samples)
	pool, store := old.undisturbed(t, got.committed)
	got.requireSame(t, readProduct(t, pool, store))
	t.Logf("%d ledger rows and %d samples in %d files are equal; the comparison took %s", len(got.rows), len(got.samples), len(got.tables["shards"]),
		time.Since(compared).Round(time.Millisecond))
}

// awaitMoment waits for the moment of a kill: any at all, the start included, or one while files are being written and
// committed.
func awaitMoment(t *testing.T, i *instance, r *rand.Rand) string {
	t.Helper()
	random := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
	if r.IntN(4) == 0 {
		require.NoError(t, pause(t.Context(), random(5*time.Second)))
		return "at any moment"
	}
	i.ready()
	require.NoError(t, pause(t.Context(), random(3*time.Second)))
	before := stagedFiles(i.data)
	late := random(25 * time.Millisecond)
	found := ""
	i.await(time.Minute, "the workers write", func() bool {
		for name := range stagedFiles(i.data) {
			if !before[name] {
				found = name
				return true
			}
		}
		return false
	})
	require.NoError(t, pause(t.Context(), late))
	return late.String() + " after the first new file of a flush, " + filepath.Base(found)
}

// adoptExperiment puts an experiment into force, so that sums and units are counted.
func adoptExperiment(t *testing.T, i *instance) {
	t.Helper()
	pool, err := postgres.Open(t.Context(), i.postgresURL(), "test")
	require.NoError(t, err)
	defer pool.Close()
	keys, err := loadSecrets(i.data)
	require.NoError(t, err)
	control, err := key("control", keys.ControlKey)
	require.NoError(t, err)
	keyring, err := eventlog.NewKeyring(map[string][]byte{"1": control}, "1")
	require.NoError(t, err)
	cfg := eventlog.Config{Brokers: []string{i.kafka}, Topic: testTopic}
	writer, err := eventlog.NewWriter(cfg, testTopic)
	require.NoError(t, err)
	defer writer.Close()
	now := time.Now()
	write := func(ctx context.Context, fn func(pgx.Tx) error) error { return postgres.InTx(ctx, pool, fn) }
	require.NoError(t, write(t.Context(), func(tx pgx.Tx) error {
		return experiment.Propose(t.Context(), tx, now, "a test's experiment", func(c *event.ConfigAdopted) error {
			c.Experiments = []*event.Experiment{{
				Id: testExperiment, StartsAt: timestamppb.New(now.Add(-time.Minute)), CountsUntil: timestamppb.New(now.Add(time.Hour)),
				EndsAt: timestamppb.New(now.Add(2 * time.Hour)), LatencyThresholdMs: 500,
			}}
			return nil
		})
	}))
	record := func(ctx context.Context, r *event.ControlRecord) error {
		return eventlog.WriteControl(ctx, writer, keyring, cfg, r, now)
	}
	require.NoError(t, experiment.WriteConfig(t.Context(), pool, record, write, now))
}

// awaitSettled waits until everything that stands in the log now is committed and no turn is open.
func awaitSettled(t *testing.T, i *instance) {
	t.Helper()
	reader, err := eventlog.NewReader(eventlog.Config{Brokers: []string{i.kafka}, Topic: testTopic})
	require.NoError(t, err)
	defer reader.Close()
	ends := map[int32]int64{}
	for p := range int32(killedPartitions) {
		_, next, err := reader.Bounds(t.Context(), p)
		require.NoError(t, err)
		ends[p] = next
	}
	pool, err := pgxpool.New(t.Context(), i.postgresURL())
	require.NoError(t, err)
	defer pool.Close()
	i.await(90*time.Second, "everything settles", func() bool {
		var halted, open int
		err := pool.QueryRow(t.Context(), `select count(halted), count(*) filter (where turns_open <> '{}') from partition`).Scan(&halted, &open)
		require.NoError(t, err)
		require.Zero(t, halted, "a partition is halted; it said:\n%s", i.output)
		return open == 0 && reachedAll(committedOffsets(t.Context(), t, pool), ends)
	})
}

package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/ledger"
	"millrace/schemas/manifest"
	"millrace/schemas/sample"
)

// The goroutine that is left waits for the Postgres of all tests, which ends with the process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("millrace/internal/embedded.spawn.func1"),
		goleak.IgnoreAnyFunction("millrace/internal/embedded.(*Postgres).keep"))
}

const topic = "events"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bundle is a database, an object store and a feed over them; distill is played by commit.
type bundle struct {
	t     *testing.T
	ctx   context.Context
	pool  *pgxpool.Pool
	store *brittle
	feed  *Feed
	term  int64
}

func setup(t *testing.T) *bundle {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	folder, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	b := &bundle{t: t, ctx: ctx, pool: postgrestest.New(t), store: &brittle{Bucket: folder}}
	b.feed = b.newFeed("here")
	term, ok, err := postgres.Elect(ctx, b.pool, publisher, "here", time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	b.term = term
	return b
}

func (b *bundle) newFeed(owner string) *Feed {
	f, err := New(Config{Owner: owner, Guard: open, Interval: 10 * time.Millisecond, Lease: time.Second}, b.pool, b.store, slog.New(slog.DiscardHandler))
	require.NoError(b.t, err)
	return f
}

func open(next http.Handler) http.Handler { return next }

// brittle is a store that can fail after a put, as if the process had died before the next step.
type brittle struct {
	objstore.Bucket
	dieAfterPut atomic.Bool
	dieAt       atomic.Int64 // after so many puts of new objects; 0: never
}

var errDied = errors.New("died")

func (s *brittle) PutIfAbsent(ctx context.Context, key string, body []byte) error {
	_, err := s.Stat(ctx, key)
	fresh := errors.Is(err, objstore.ErrNotFound)
	if err := s.Bucket.PutIfAbsent(ctx, key, body); err != nil {
		return err
	}
	if s.dieAfterPut.Load() || fresh && s.dieAt.Load() > 0 && s.dieAt.Add(-1) == 0 {
		return errDied
	}
	return nil
}

// commit is what distill does at the end of a batch: objects, then rows and the position.
func (b *bundle) commit(partition int32, first, last int64, at time.Time, versions ...string) {
	b.t.Helper()
	name := fmt.Sprintf("%s-%d-%020d-%020d", topic, partition, first, last)
	put := func(kind, version, extension string, body []byte, rows int, sum float64) {
		digest := arrowfile.SHA256(body)
		id := name + "-" + digest[:16]
		key := fmt.Sprintf("staging/%s/%d/%s.%s.%s", topic, partition, id, kind, extension)
		require.NoError(b.t, b.store.Bucket.PutIfAbsent(b.ctx, key, body))
		if kind == "state" {
			_, err := b.pool.Exec(b.ctx, `insert into partition (topic, partition, committed_offset, log_time, state_key) values ($1, $2, $3, $4, $5)
				on conflict (topic, partition) do update set committed_offset = $3, log_time = $4, state_key = $5`, topic, partition, last+1, at, key)
			require.NoError(b.t, err)
			return
		}
		_, err := b.pool.Exec(b.ctx, `insert into shard (id, kind, topic, partition, first_offset, last_offset, policy_version, key, bytes, sha256, rows,
			trained_tokens, reward_sum, reward_spec, log_time) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15)`,
			id, kind, topic, partition, first, last, version, key, len(body), digest, rows, rows, sum, "composer@1", at)
		require.NoError(b.t, err)
	}
	for _, version := range versions {
		row := sample.Row{SampleID: name, TurnID: name, PolicyVersion: version, Reward: 0.1, SettledAt: at, PolicyOrdinal: -1, LossMask: make([]uint8, 2000)}
		for i := range row.LossMask {
			row.InputIDs = binary.LittleEndian.AppendUint32(row.InputIDs, uint32(i))
		}
		row.BehaviorLogprobs = make([]byte, len(row.InputIDs))
		body, err := arrowfile.WriteShard(arrowfile.ShardMeta{ShardID: name, PolicyVersion: version, Topic: topic, Partition: partition}, []sample.Row{row}, arrowfile.None)
		require.NoError(b.t, err)
		put("sample", version, "arrow", body, 1, 0.1)
	}
	body, err := arrowfile.WriteLedger(ledgerRows(partition, first, last))
	require.NoError(b.t, err)
	put("ledger", "", "parquet", body, int(last-first+1), 0)
	put("state", "", "json", []byte(name), 0, 0)
}

func ledgerRows(partition int32, first, last int64) []ledger.Row {
	var rows []ledger.Row
	for o := first; o <= last; o++ {
		rows = append(rows, ledger.Row{
			Kind: ledger.Turn, TurnID: fmt.Sprintf("%d/%d", partition, o), Topic: topic, Partition: partition, FirstOffset: o, LastOffset: o, Disposition: ledger.Censored,
		})
	}
	return rows
}

// numbered is the sequence of a version: place in the log by number.
func (b *bundle) numbered(version string) []string {
	b.t.Helper()
	found, err := b.feed.await(b.ctx, version, 0, 1000, 0)
	require.NoError(b.t, err)
	places := []string{}
	for i, s := range found {
		require.EqualValues(b.t, i+1, s.Number, "no gaps")
		places = append(places, fmt.Sprintf("%d/%d", s.Partition, s.FirstOffset))
	}
	return places
}

func TestNumbersFollowTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.commit(1, 0, 9, start.Add(2*time.Minute), "base", "cand/1")
	b.commit(0, 0, 4, start.Add(2*time.Minute), "base")
	b.commit(2, 0, 4, start.Add(time.Minute), "base")
	require.NoError(t, b.feed.round(b.ctx, b.term))
	require.Equal(t, []string{"2/0", "0/0", "1/0"}, b.numbered("base"))
	require.Equal(t, []string{"1/0"}, b.numbered("cand/1"))

	b.commit(2, 5, 9, start.Add(90*time.Second), "base")
	require.NoError(t, b.feed.round(b.ctx, b.term))
	require.NoError(t, b.feed.round(b.ctx, b.term))
	require.Equal(t, []string{"2/0", "0/0", "1/0", "2/5"}, b.numbered("base"), "numbers never change")

	keys, err := b.store.List(b.ctx, "manifests/")
	require.NoError(t, err)
	require.Equal(t, []string{"manifests/base/1.json", "manifests/base/2.json", "manifests/base/3.json", "manifests/base/4.json", "manifests/cand%2F1/1.json"}, keys)
	body, err := b.store.Get(b.ctx, "manifests/base/4.json")
	require.NoError(t, err)
	m, err := manifest.Decode(body)
	require.NoError(t, err)
	found, err := b.feed.await(b.ctx, "base", 3, 10, 0)
	require.NoError(t, err)
	require.Equal(t, []manifest.Shard{m}, found, "the object and the API say the same")
	require.InDelta(t, 0.1, m.RewardMean, 0)
}

// A publisher that dies after a put writes the same manifest again; one that was fenced can't number or mark.
func TestPublisherDiesAndWakesUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.commit(0, 0, 9, start, "base")
	b.store.dieAfterPut.Store(true)
	require.ErrorIs(t, b.feed.round(b.ctx, b.term), errDied)
	b.store.dieAfterPut.Store(false)
	written, err := b.store.Get(b.ctx, manifest.Key("base", 1))
	require.NoError(t, err)

	zombie := b.term
	next, ok, err := postgres.Elect(b.ctx, b.pool, publisher, "here", time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, b.feed.round(b.ctx, next))
	again, err := b.store.Get(b.ctx, manifest.Key("base", 1))
	require.NoError(t, err)
	require.Equal(t, written, again)

	b.commit(0, 10, 19, start.Add(2*time.Hour), "base")
	require.ErrorIs(t, b.feed.number(b.ctx, zombie), postgres.ErrFenced)
	require.ErrorIs(t, b.feed.compact(b.ctx, zombie), postgres.ErrFenced)
	require.Equal(t, []string{"0/0"}, b.numbered("base"))
	require.NoError(t, b.feed.number(b.ctx, next))
	require.ErrorIs(t, b.feed.publish(b.ctx, zombie), postgres.ErrFenced, "it could write the manifest, which is what the next one writes")
	require.NoError(t, b.feed.round(b.ctx, next))
	report, err := Verify(b.ctx, b.pool, b.store)
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.EqualValues(t, 20, report.LedgerRows)
}

func TestRunAndFlush(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, postgres.Resign(b.ctx, b.pool, publisher, b.term))
	ctx, stop := context.WithCancel(b.ctx)
	ended := make(chan error, 2)
	for _, owner := range []string{"one", "two"} {
		f := b.newFeed(owner)
		go func() { ended <- f.Run(ctx) }()
	}
	for i := range int64(5) {
		b.commit(0, 10*i, 10*i+9, start.Add(time.Duration(i)*45*time.Minute), "base")
	}
	require.NoError(t, b.feed.Flush(b.ctx))
	require.Len(t, b.numbered("base"), 5)
	files, err := LedgerFiles(b.ctx, b.pool)
	require.NoError(t, err)
	require.Len(t, files, 4, "three whole hours, and one that isn't over")
	require.Equal(t, Commit, files[3].Span)
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)

	late, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer cancel()
	b.commit(0, 50, 59, start.Add(4*time.Hour), "base")
	require.ErrorIs(t, b.feed.Flush(late), context.DeadlineExceeded, "nobody publishes")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"no owner":          {Guard: open},
		"no guard":          {Owner: "x"},
		"can't be negative": {Owner: "x", Guard: open, Grace: -1},
		"a lease of 1ms":    {Owner: "x", Guard: open, Lease: time.Millisecond},
	} {
		_, err := New(c, nil, nil, nil)
		require.ErrorContains(t, err, want)
	}
}

package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/distill"
	"millrace/internal/arrowfile"
	"millrace/internal/embedded"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/ledger"
	"millrace/schemas/sample"
)

const testTopic = "millrace.sessions"

// product is everything that the workers of a topic have made: rows in the order of the log, and tables.
type product struct {
	rows      []ledger.Row
	samples   []sample.Row
	tables    map[string][]string
	committed map[int32]int64
}

var productTables = map[string]string{
	"shards": `select id || ' ' || kind || ' ' || policy_version || ' ' || key || ' ' || bytes || ' ' || rows || ' ' || trained_tokens || ' ' || reward_sum ||
		' ' || reward_spec || ' ' || log_time || ' ' || sha256 from shard order by id, kind`,
	"records":  `select partition || ' ' || class || ' ' || records from account_records order by 1`,
	"turns":    `select partition || ' ' || policy_version || ' ' || arm || ' ' || disposition || ' ' || turns from account_turns order by 1`,
	"sums":     `select experiment || ' ' || metric || ' ' || arm || ' ' || bucket || ' ' || num || ' ' || den from metric_sum order by 1`,
	"units":    `select experiment || ' ' || unit_hash || ' ' || arm from exposed_unit order by 1`,
	"marks":    `select cut || ' ' || partition || ' ' || "offset" from cut_mark order by 1`,
	"position": `select partition || ' ' || committed_offset || ' ' || low_watermark || ' ' || log_time || ' ' || turns_opened || ' ' || turns_open || ' ' || state_key || ' ' || state_sha256 || ' ' || log_digest from partition order by partition`,
}

// readProduct reads everything back, each file's digest checked.
func readProduct(t *testing.T, pool *pgxpool.Pool, store objstore.Store) product {
	t.Helper()
	ctx := t.Context()
	p := product{tables: map[string][]string{}, committed: map[int32]int64{}}
	rows, err := pool.Query(ctx, `select kind, key, sha256, rows from shard order by topic, partition, first_offset, kind, policy_version`)
	require.NoError(t, err)
	type file struct {
		Kind, Key, SHA256 string
		Rows              int
	}
	files, err := pgx.CollectRows(rows, pgx.RowToStructByPos[file])
	require.NoError(t, err)
	for _, f := range files {
		body, err := store.Get(ctx, f.Key)
		require.NoError(t, err, "a committed file must be there")
		require.Equal(t, f.SHA256, arrowfile.SHA256(body))
		switch f.Kind {
		case "ledger":
			r, err := arrowfile.ReadLedger(body)
			require.NoError(t, err)
			require.Len(t, r, f.Rows)
			p.rows = append(p.rows, r...)
		default:
			_, r, err := arrowfile.ReadShard(body)
			require.NoError(t, err)
			require.Len(t, r, f.Rows)
			p.samples = append(p.samples, r...)
		}
	}
	for name, query := range productTables {
		rows, err := pool.Query(ctx, query)
		require.NoError(t, err)
		p.tables[name], err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
	}
	p.committed = committedOffsets(ctx, t, pool)
	return p
}

func committedOffsets(ctx context.Context, t *testing.T, pool *pgxpool.Pool) map[int32]int64 {
	t.Helper()
	rows, err := pool.Query(ctx, `select partition, committed_offset from partition where topic = $1`, testTopic)
	require.NoError(t, err)
	committed := map[int32]int64{}
	var partition int32
	var offset int64
	_, err = pgx.ForEachRow(rows, []any{&partition, &offset}, func() error { committed[partition] = offset; return nil })
	require.NoError(t, err)
	return committed
}

// requireBalanced proves both balances: every record read has a class, every turn opened is settled or open.
func requireBalanced(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select p.partition, p.committed_offset, p.turns_opened,
			coalesce((select sum(records) from account_records r where r.topic = p.topic and r.partition = p.partition), 0)::bigint,
			coalesce((select sum(turns) from account_turns a where a.topic = p.topic and a.partition = p.partition), 0)::bigint
				+ (select coalesce(sum(value::bigint), 0) from jsonb_each_text(p.turns_open))::bigint
		from partition p`)
	require.NoError(t, err)
	var partition int32
	var read, opened, classed, accounted int64
	_, err = pgx.ForEachRow(rows, []any{&partition, &read, &opened, &classed, &accounted}, func() error {
		require.Equal(t, read, classed, "records of partition %d", partition)
		require.Equal(t, opened, accounted, "turns of partition %d", partition)
		return nil
	})
	require.NoError(t, err)
}

// requireSame compares two products, what explains most first.
func (p product) requireSame(t *testing.T, want product) {
	t.Helper()
	for _, table := range []string{"position", "records", "turns", "shards", "sums", "units", "marks"} {
		require.Equal(t, want.tables[table], p.tables[table], table)
	}
	require.Equal(t, want.committed, p.committed)
	require.Len(t, p.rows, len(want.rows))
	for i := range want.rows {
		require.Equal(t, want.rows[i], p.rows[i], "ledger row %d", i)
	}
	require.Len(t, p.samples, len(want.samples))
	for i := range want.samples {
		require.Equal(t, want.samples[i], p.samples[i], "sample %d", i)
	}
}

// remains are a stopped instance's log and tables, brought up again by themselves.
type remains struct {
	cfg     eventlog.Config
	keyring *eventlog.Keyring
	unitKey []byte
	reader  *eventlog.Reader
	pool    *pgxpool.Pool
	store   *objstore.Folder
}

// openRemains starts a broker on a copy of the instance's log, and its Postgres.
func openRemains(t *testing.T, i *instance) *remains {
	t.Helper()
	keys, err := loadSecrets(i.data)
	require.NoError(t, err)
	control, err := hex.DecodeString(keys.ControlKey)
	require.NoError(t, err)
	unit, err := hex.DecodeString(keys.UnitKey)
	require.NoError(t, err)
	r := &remains{unitKey: unit}
	r.keyring, err = eventlog.NewKeyring(map[string][]byte{"1": control}, "1")
	require.NoError(t, err)

	folder := filepath.Join(t.TempDir(), "kafka")
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(i.data, "kafka"))))
	kafka, err := embedded.StartKafka(folder, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = kafka.Close() })
	r.cfg = eventlog.Config{Brokers: kafka.Brokers(), Topic: testTopic}
	r.reader, err = eventlog.NewReader(r.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.reader.Close() })

	pg, err := embedded.StartPostgres(t.Context(), embedded.PostgresConfig{Dir: filepath.Join(i.data, "postgres")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = pg.Stop() })
	r.pool, err = postgres.Open(t.Context(), pg.URL(), "test")
	require.NoError(t, err)
	t.Cleanup(r.pool.Close)
	r.store, err = objstore.NewFolder(filepath.Join(i.data, "objects"))
	require.NoError(t, err)
	return r
}

// undisturbed runs workers over the same log, up to the given offsets, on a database and a store of their own; from the
// instance's store they have the documents only.
func (r *remains) undisturbed(t *testing.T, until map[int32]int64) (*pgxpool.Pool, *objstore.Folder) {
	t.Helper()
	pool := postgrestest.New(t)
	store, err := objstore.NewFolder(filepath.Join(t.TempDir(), "objects"))
	require.NoError(t, err)
	for _, prefix := range []string{"documents/", "tool-schemas/"} {
		keys, err := r.store.List(t.Context(), prefix)
		require.NoError(t, err)
		for _, key := range keys {
			body, err := r.store.Get(t.Context(), key)
			require.NoError(t, err)
			require.NoError(t, store.PutIfAbsent(t.Context(), key, body))
		}
	}
	dead, err := eventlog.NewWriter(r.cfg, r.cfg.DeadLetterTopic())
	require.NoError(t, err)
	defer dead.Close()
	d, err := distill.New(distill.Config{Topic: testTopic, Owner: "undisturbed", LeaseTerm: time.Minute, UnitKey: r.unitKey},
		pool, endingLog{r.reader, until}, dead, store, r.keyring, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for deadline := time.Now().Add(2 * time.Minute); !reachedAll(committedOffsets(t.Context(), t, pool), until); {
		require.True(t, time.Now().Before(deadline), "the undisturbed run got to %v of %v", committedOffsets(t.Context(), t, pool), until)
		require.NoError(t, pause(t.Context(), 20*time.Millisecond))
	}
	stop()
	require.NoError(t, <-ended)
	return pool, store
}

func reachedAll(at, until map[int32]int64) bool {
	for partition, offset := range until {
		if at[partition] < offset {
			return false
		}
	}
	return true
}

// endingLog is a log that was read only so far: of each partition up to the record that made its last batch end.
type endingLog struct {
	*eventlog.Reader
	until map[int32]int64
}

func (l endingLog) Fetch(ctx context.Context, partition int32, offset int64) ([]eventlog.Record, error) {
	end := l.until[partition] + 1
	if offset >= end {
		return nil, cmp.Or(pause(ctx, 50*time.Millisecond), ctx.Err())
	}
	records, err := l.Reader.Fetch(ctx, partition, offset)
	for n := range records {
		if records[n].Offset >= end {
			return records[:n], err
		}
	}
	return records, err
}

// loggedEvents counts the identities of all events in the log.
func (r *remains) loggedEvents(t *testing.T, partitions int) map[string]int {
	t.Helper()
	found := map[string]int{}
	for p := range int32(partitions) {
		_, next, err := r.reader.Bounds(t.Context(), p)
		require.NoError(t, err)
		for offset := int64(0); offset < next; {
			records, err := r.reader.Fetch(t.Context(), p, offset)
			require.NoError(t, err)
			for _, record := range records {
				offset = record.Offset + 1
				ev, _, reject := eventlog.Decode(record, r.keyring, partitions)
				require.Empty(t, reject)
				if ev != nil {
					found[ev.GetSource()+" "+ev.GetEventId()]++
				}
			}
		}
	}
	return found
}

// stagedFiles are the objects that workers have written so far, committed or not.
func stagedFiles(data string) map[string]bool {
	found := map[string]bool{}
	root := filepath.Join(data, "objects", "staging")
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // what isn't there yet has no files
		if err == nil && !d.IsDir() {
			found[strings.TrimPrefix(path, root)] = true
		}
		return nil
	})
	return found
}

package distill

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/distill/engine"
	"millrace/distill/engine/enginetest"
	"millrace/distill/rehearsal"
	"millrace/internal/arrowfile"
	"millrace/internal/embedded"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/sample"
)

// world is a log with everything that a random log holds, on a real broker, with tables and a store.
type world struct {
	t       *testing.T
	cfg     eventlog.Config
	keyring *eventlog.Keyring
	reader  *eventlog.Reader
	dead    *eventlog.Writer
	pool    *pgxpool.Pool
	store   *objstore.Folder
	end     int64 // the offset up to which everything can be committed: the log's last boundary
}

// sharedLog is written once for all tests over one seed.
type sharedLog struct {
	cfg     eventlog.Config
	keyring *eventlog.Keyring
	end     int64
}

func writeLog(t *testing.T, seed uint64, sessions int) sharedLog {
	t.Helper()
	return writeRecords(t, inExperiment(enginetest.WithBatches(enginetest.RandomLog(seed, sessions), 20*60*1000, 25)))
}

// writeRecords writes them as they are: an event that isn't valid becomes a record that isn't.
func writeRecords(t *testing.T, records []engine.Record) sharedLog {
	t.Helper()
	kafka, err := embedded.StartKafka(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = kafka.Close() })
	keyring, err := eventlog.NewKeyring(map[string][]byte{"1": []byte("0123456789abcdef0123456789abcdef")}, "1")
	require.NoError(t, err)
	l := sharedLog{cfg: eventlog.Config{Brokers: kafka.Brokers(), Topic: "sessions", Partitions: 1, ReplicationFactor: 1}, keyring: keyring}
	require.NoError(t, eventlog.Ensure(t.Context(), l.cfg))
	w, err := eventlog.NewWriter(l.cfg, l.cfg.Topic)
	require.NoError(t, err)
	var messages []eventlog.Message
	e := engine.New(engine.Options{Topic: "sessions", UnitKey: []byte("unit-key-unit-key")})
	for i, r := range records {
		at := time.UnixMicro(r.Time).Truncate(time.Millisecond)
		m := eventlog.Message{Partition: 0, Time: at, Key: []byte("k"), Value: []byte("\xff\xff not protobuf")}
		switch {
		case r.Event != nil:
			m, err = eventlog.EventMessage(r.Event, at)
			require.NoError(t, err)
		case r.Control != nil:
			body, err := r.Control.MarshalVT()
			require.NoError(t, err)
			m.Key, m.Value = []byte("control:"+r.Control.GetId()), body
			m.Headers = []eventlog.Header{
				{Key: "content-type", Value: []byte("application/x-protobuf; proto=millrace.events.v1.ControlRecord")},
				keyring.Sign(l.cfg.Topic, 0, m.Key, body),
			}
		}
		messages = append(messages, m)
		// Where batches end is a function of the log: the test learns it from an engine of its own.
		record := decode(eventlog.Record{Topic: l.cfg.Topic, Offset: int64(i), Time: at, Key: m.Key, Value: m.Value, Headers: m.Headers}, keyring, 1)
		if e.ClosesBefore(record) {
			e.Boundary()
			l.end = int64(i)
		}
		rehearsal.Provide(e, record)
		if e.Apply(record).Full {
			e.Boundary()
			l.end = int64(i) + 1
		}
	}
	for batch := range slices.Chunk(messages, 500) {
		for _, err := range w.Write(t.Context(), batch...) {
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return l
}

// inExperiment puts every turn into an experiment, so that the sums have something to add.
func inExperiment(log []engine.Record) []engine.Record {
	for i, r := range log {
		if c := r.Control.GetConfigAdopted(); c != nil {
			other := proto.Clone(r.Control).(*event.ControlRecord)
			other.GetConfigAdopted().Experiments = []*event.Experiment{{
				Id: "x", StartsAt: timestamppb.New(rehearsal.Epoch), CountsUntil: timestamppb.New(rehearsal.Epoch.Add(5 * time.Hour)),
				EndsAt: timestamppb.New(rehearsal.Epoch.Add(9 * time.Hour)), LatencyThresholdMs: 2000,
			}}
			log[i].Control = other
		}
		if c := r.Event.GetTurnStarted().GetContext(); c != nil {
			c.Experiment, c.Arm = "x", "control"
			if len(r.Event.GetUnitId())%2 == 0 {
				c.Arm = "candidate"
			}
		}
	}
	return log
}

func newWorld(t *testing.T, l sharedLog) *world {
	t.Helper()
	w := &world{t: t, cfg: l.cfg, keyring: l.keyring, end: l.end, pool: postgrestest.New(t)}
	var err error
	w.reader, err = eventlog.NewReader(l.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.reader.Close() })
	w.dead, err = eventlog.NewWriter(l.cfg, l.cfg.DeadLetterTopic())
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.dead.Close() })
	w.store, err = objstore.NewFolder(filepath.Join(t.TempDir(), "objects"))
	require.NoError(t, err)
	for digest, document := range rehearsal.Documents() {
		require.NoError(t, w.store.PutIfAbsent(t.Context(), DocumentKeys(digest)[0], document))
	}
	return w
}

func (w *world) distill(owner string, reached func(*Lease, string) error) *Distill {
	w.t.Helper()
	d, err := New(Config{Topic: w.cfg.Topic, Owner: owner, LeaseTerm: 30 * time.Second, UnitKey: []byte("unit-key-unit-key"), Compression: "none", reached: reached},
		w.pool, w.reader, w.dead, w.store, w.keyring, slog.New(slog.DiscardHandler), nil)
	require.NoError(w.t, err)
	require.NoError(w.t, d.prepare(w.t.Context()))
	return d
}

// runUntilEnd claims the partition again and again until everything is committed.
func (w *world) runUntilEnd(d *Distill) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for w.committed() < w.end {
		lease, err := d.leases.claim(ctx)
		if err != nil {
			var halted *string
			require.NoError(w.t, w.pool.QueryRow(ctx, `select halted from partition`).Scan(&halted))
			require.Nil(w.t, halted, "halted: %v", deref(halted))
		}
		require.NoError(w.t, err)
		held, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { d.hold(held, lease); close(done) }()
		w.awaitEnd(ctx, done)
		stop()
		<-done
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// awaitEnd returns when the worker has ended or has committed everything.
func (w *world) awaitEnd(ctx context.Context, done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(5 * time.Millisecond):
		}
		require.NoError(w.t, ctx.Err())
		if w.committed() >= w.end {
			return
		}
	}
}

func (w *world) committed() int64 {
	var offset int64
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `select committed_offset from partition where partition = 0`).Scan(&offset))
	return offset
}

// product is everything that was made, in the order of the log, wherever it lies.
type product struct {
	rows    []ledger.Row
	samples []sample.Row
	tables  map[string][]string
}

func (w *world) product() product {
	w.t.Helper()
	ctx := w.t.Context()
	p := product{tables: map[string][]string{}}
	rows, err := w.pool.Query(ctx, `select kind, key, sha256, rows from shard order by topic, partition, first_offset, kind, policy_version`)
	require.NoError(w.t, err)
	type file struct {
		Kind, Key, SHA256 string
		Rows              int
	}
	files, err := pgx.CollectRows(rows, pgx.RowToStructByPos[file])
	require.NoError(w.t, err)
	for _, f := range files {
		body, err := w.store.Get(ctx, f.Key)
		require.NoError(w.t, err, "a committed file must be there")
		require.Equal(w.t, f.SHA256, arrowfile.SHA256(body))
		if f.Kind == "ledger" {
			r, err := arrowfile.ReadLedger(body)
			require.NoError(w.t, err)
			require.Len(w.t, r, f.Rows)
			p.rows = append(p.rows, r...)
			continue
		}
		_, r, err := arrowfile.ReadShard(body)
		require.NoError(w.t, err)
		require.Len(w.t, r, f.Rows)
		p.samples = append(p.samples, r...)
	}
	for name, query := range map[string]string{
		"shards":   `select id || ' ' || kind || ' ' || policy_version || ' ' || rows || ' ' || trained_tokens || ' ' || reward_sum || ' ' || sha256 from shard order by id, kind`,
		"records":  `select class || ' ' || records from account_records order by 1`,
		"turns":    `select policy_version || ' ' || arm || ' ' || disposition || ' ' || turns from account_turns order by 1`,
		"sums":     `select experiment || ' ' || metric || ' ' || arm || ' ' || bucket || ' ' || num || ' ' || den from metric_sum order by 1`,
		"units":    `select experiment || ' ' || unit_hash || ' ' || arm from exposed_unit order by 1`,
		"settled":  `select experiment || ' ' || unit_hash || ' ' || arm from settled_unit order by 1`,
		"marks":    `select cut || ' ' || "offset" from cut_mark order by 1`,
		"position": `select committed_offset || ' ' || low_watermark || ' ' || turns_opened || ' ' || turns_open || ' ' || state_sha256 || ' ' || log_digest from partition`,
	} {
		rows, err := w.pool.Query(ctx, query)
		require.NoError(w.t, err)
		p.tables[name], err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(w.t, err)
	}
	return p
}

func (w *world) requireSame(want product, what string) {
	w.t.Helper()
	got := w.product()
	for name := range want.tables {
		require.Equal(w.t, want.tables[name], got.tables[name], "%s: %s", what, name)
	}
	require.Equal(w.t, want.rows, got.rows, what)
	require.Equal(w.t, want.samples, got.samples, what)
}

// undisturbed is what one run makes that nothing disturbs.
func undisturbed(t *testing.T, l sharedLog) product {
	t.Helper()
	w := newWorld(t, l)
	w.runUntilEnd(w.distill("undisturbed", nil))
	p := w.product()
	require.NotEmpty(t, p.rows)
	require.NotEmpty(t, p.samples)
	for _, table := range []string{"sums", "units", "turns", "records", "marks"} {
		require.NotEmpty(t, p.tables[table], table)
	}
	return p
}

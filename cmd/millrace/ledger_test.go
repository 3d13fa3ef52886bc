package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/feed"
	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/ledger"
)

// ledgerWorld is a database and an object store in which ledger rows are committed as distill does it.
type ledgerWorld struct {
	t       *testing.T
	pool    *pgxpool.Pool
	store   *objstore.Folder
	places  LedgerPlaces
	offset  int64
	wanted  []string // the turns that were committed, in their order
	objects string
}

func newLedgerWorld(t *testing.T) *ledgerWorld {
	t.Helper()
	w := &ledgerWorld{t: t, pool: postgrestest.New(t), objects: t.TempDir()}
	var err error
	w.store, err = objstore.NewFolder(w.objects)
	require.NoError(t, err)
	w.places = LedgerPlaces{Postgres: w.pool.Config().ConnString(), Objects: w.objects}
	return w
}

// commit is one commit at a log time.
func (w *ledgerWorld) commit(at time.Time, rows ...ledger.Row) {
	w.t.Helper()
	for i := range rows {
		rows[i].Topic, rows[i].FirstOffset, rows[i].LastOffset = "sessions", w.offset, w.offset
		w.wanted = append(w.wanted, rows[i].TurnID)
	}
	body, err := arrowfile.WriteLedger(rows)
	require.NoError(w.t, err)
	digest := arrowfile.SHA256(body)
	key := fmt.Sprintf("staging/sessions/0/sessions-0-%020d-%020d-%s.ledger.parquet", w.offset, w.offset, digest[:16])
	require.NoError(w.t, w.store.PutIfAbsent(w.t.Context(), key, body))
	_, err = w.pool.Exec(w.t.Context(), `insert into shard (id, kind, topic, partition, first_offset, last_offset, key, bytes, sha256, rows, log_time)
		values ($1, 'ledger', 'sessions', 0, $2, $2, $3, $4, $5, $6, $7)`, digest, w.offset, key, len(body), digest, len(rows), at)
	require.NoError(w.t, err)
	w.offset++
	_, err = w.pool.Exec(w.t.Context(), `insert into partition (topic, partition, committed_offset, log_time) values ('sessions', 0, $1, $2)
		on conflict (topic, partition) do update set committed_offset = $1, log_time = $2`, w.offset, at)
	require.NoError(w.t, err)
}

// compact lets a publisher do all that it can, and throws the sources away.
func (w *ledgerWorld) compact() {
	w.t.Helper()
	open := func(next http.Handler) http.Handler { return next }
	f, err := feed.New(feed.Config{Owner: "test", Guard: open, Interval: time.Millisecond, Grace: time.Nanosecond}, w.pool, w.store, slog.New(slog.DiscardHandler))
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	require.NoError(w.t, f.Flush(w.t.Context()))
	stop()
	require.NoError(w.t, <-ended)
	_, err = f.Collect(w.t.Context())
	require.NoError(w.t, err)
}

// pulledTurns are those of the Parquet files in a folder, in the order of the list beside them.
func pulledTurns(t *testing.T, dir string) (turns []string) {
	t.Helper()
	var list []feed.LedgerFile
	body, err := os.ReadFile(filepath.Join(dir, pulledFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &list))
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, found, len(list)+1, "nothing else lies there")
	for _, l := range list {
		body, err := os.ReadFile(filepath.Join(dir, filepath.Base(l.Key)))
		require.NoError(t, err)
		rows, err := arrowfile.ReadLedger(body)
		require.NoError(t, err)
		for _, r := range rows {
			turns = append(turns, r.TurnID)
		}
	}
	return turns
}

func TestLedgerPull(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	morning := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "ledger")
	pull := func(window Window) pulled {
		t.Helper()
		var out bytes.Buffer
		require.NoError(t, (&LedgerPull{LedgerPlaces: w.places, Window: window, Dir: dir}).Run(t.Context(), &Output{Out: &out, JSON: true}))
		var p pulled
		require.NoError(t, json.Unmarshal(out.Bytes(), &p))
		return p
	}
	for i := range 6 {
		w.commit(morning.Add(time.Duration(i)*4*time.Hour), ledger.Row{Kind: ledger.Turn, TurnID: fmt.Sprint(i)})
	}
	p := pull(Window{})
	require.Equal(t, 6, p.New)
	require.Equal(t, w.wanted, pulledTurns(t, dir))
	require.Zero(t, pull(Window{}).New, "it is there already")

	w.compact()
	p = pull(Window{})
	require.Equal(t, pulled{Files: 3, Rows: 6, Bytes: p.Bytes, New: 2, Gone: 5}, p, "a day, an hour, and one that isn't over")
	require.Equal(t, w.wanted, pulledTurns(t, dir))

	next := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	p = pull(Window{From: moment(next)})
	require.Equal(t, 1, p.Gone)
	require.Equal(t, w.wanted[4:], pulledTurns(t, dir))
	require.Equal(t, 1, pull(Window{}).New)

	// A file that broke, and one that an interrupted pull left, are put right.
	files, err := feed.LedgerFiles(t.Context(), w.pool)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(files[0].Key)), []byte("rubbish"), 0o600))
	require.Equal(t, 1, pull(Window{}).New)
	require.Equal(t, w.wanted, pulledTurns(t, dir))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.parquet"), nil, 0o600))
	err = (&LedgerPull{LedgerPlaces: w.places, Dir: dir}).Run(t.Context(), &Output{Out: &bytes.Buffer{}})
	require.ErrorContains(t, err, "mine.parquet, which no pull has left there")
	require.NoError(t, os.Remove(filepath.Join(dir, "mine.parquet")))

	require.NoError(t, w.store.Replace(t.Context(), files[0].Key, []byte("rubbish")))
	require.NoError(t, os.Remove(filepath.Join(dir, filepath.Base(files[0].Key))))
	err = (&LedgerPull{LedgerPlaces: w.places, Dir: dir}).Run(t.Context(), &Output{Out: &bytes.Buffer{}})
	require.ErrorContains(t, err, files[0].Key+" is damaged")
}

func TestLedgerFilesAndSchema(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	at := time.Date(2026, 3, 1, 8, 5, 0, 0, time.UTC)
	w.commit(at, ledger.Row{Kind: ledger.Turn, TurnID: "a"}, ledger.Row{Kind: ledger.Turn, TurnID: "b"})
	w.commit(at.Add(time.Hour), ledger.Row{Kind: ledger.Turn, TurnID: "c"})
	w.compact()
	var out bytes.Buffer
	require.NoError(t, (&LedgerFiles{LedgerPlaces: w.places}).Run(t.Context(), &Output{Out: &out, JSON: true}))
	var files []feed.LedgerFile
	require.NoError(t, json.Unmarshal(out.Bytes(), &files))
	require.Len(t, files, 2)
	require.Equal(t, []feed.Span{feed.Hour, feed.Commit}, []feed.Span{files[0].Span, files[1].Span})
	out.Reset()
	require.NoError(t, (&LedgerFiles{LedgerPlaces: w.places}).Run(t.Context(), &Output{Out: &out}))
	require.Contains(t, out.String(), files[0].Key)
	require.Contains(t, out.String(), "2 files with 3 rows")
	err := (&LedgerFiles{LedgerPlaces: w.places, Window: Window{From: moment(at), To: moment(at)}}).Run(t.Context(), &Output{Out: &out})
	require.ErrorContains(t, err, "is not before --to")

	out.Reset()
	require.NoError(t, (&LedgerSchema{}).Run(&Output{Out: &out, JSON: true}))
	var schema struct {
		Version string `json:"schema_version"`
		Columns []struct{ Name, Type, Doc string }
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &schema))
	require.Equal(t, ledger.SchemaVersion, schema.Version)
	require.Len(t, schema.Columns, len(ledger.Columns))
	require.Equal(t, "kind", schema.Columns[0].Name)
	out.Reset()
	require.NoError(t, (&LedgerSchema{}).Run(&Output{Out: &out}))
	require.Contains(t, out.String(), "edits_retention ")
}

func TestLedgerSurvival(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	run := func(c LedgerSurvival, asJSON bool) string {
		t.Helper()
		var out bytes.Buffer
		c.LedgerPlaces = w.places
		require.NoError(t, c.Run(t.Context(), &Output{Out: &out, JSON: asJSON}))
		return out.String()
	}
	for i, reward := range []float64{-.4, .1, .6, .9} {
		w.commit(at, ledger.Row{Kind: ledger.Turn, TurnID: fmt.Sprint(i), PolicyVersion: "base", Reward: ledger.Of(reward), SettledAt: at})
	}
	require.Contains(t, run(LedgerSurvival{}, false), "no edit was observed a week after its turn yet")
	require.JSONEq(t, `{"policy_versions": []}`, run(LedgerSurvival{}, true))
	for i, left := range []float64{0, .2, .1, 1} {
		signals := make([]ledger.Value, len(ledger.Signals))
		signals[ledger.SignalIndex["edits.retention"]] = ledger.Of(left)
		w.commit(at.Add(7*24*time.Hour), ledger.Row{
			Kind: ledger.Amendment, Source: "ide", EventID: fmt.Sprint("e", i), EventBody: "edit_observed", TurnID: fmt.Sprint(i), Signals: signals,
			SettledAt: at.Add(7 * 24 * time.Hour),
		})
	}
	w.compact()
	text := run(LedgerSurvival{}, false)
	require.Contains(t, strings.Join(strings.Fields(text), " "), "base 4 +0.300 0.325 +0.752 +0.800")
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, (&LedgerPull{LedgerPlaces: w.places, Dir: dir}).Run(t.Context(), &Output{Out: &bytes.Buffer{}}))
	require.Equal(t, run(LedgerSurvival{}, true), run(LedgerSurvival{LedgerSource: LedgerSource{Paths: []string{dir}}}, true), "a copy says the same")
	err := (&LedgerSurvival{LedgerSource: LedgerSource{Paths: []string{t.TempDir()}}}).Run(t.Context(), &Output{Out: &bytes.Buffer{}})
	require.ErrorContains(t, err, "holds no Parquet file")
}

func TestMoments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"2026-03-01":                time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		"2026-03-01T12:00:00Z":      time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		"2026-03-01T12:00:00+02:00": time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
	} {
		var m moment
		require.NoError(t, m.UnmarshalText([]byte(text)))
		require.Equal(t, want, time.Time(m))
	}
	var m moment
	require.ErrorContains(t, m.UnmarshalText([]byte("yesterday")), "give a day")
}

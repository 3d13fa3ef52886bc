package feed

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
)

// turns are the turn ids of every file that LedgerFiles names, in order; each must be what the list says.
func (b *bundle) turns() (ids []string, files []LedgerFile) {
	b.t.Helper()
	files, err := LedgerFiles(b.ctx, b.pool)
	require.NoError(b.t, err)
	for _, l := range files {
		body, err := b.store.Get(b.ctx, l.Key)
		require.NoError(b.t, err)
		require.Equal(b.t, l.SHA256, arrowfile.SHA256(body))
		require.Len(b.t, body, int(l.Bytes))
		rows, err := arrowfile.ReadLedger(body)
		require.NoError(b.t, err)
		require.Len(b.t, rows, int(l.Rows))
		for _, r := range rows {
			ids = append(ids, r.TurnID)
		}
	}
	return ids, files
}

func wanted(partition int32, last int64) []string {
	var ids []string
	for o := range last + 1 {
		ids = append(ids, fmt.Sprintf("%d/%d", partition, o))
	}
	return ids
}

func TestCompactionOfWholeHours(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, minute := range []int{5, 20, 59, 60, 61} {
		b.commit(0, int64(10*i), int64(10*i+9), start.Add(time.Duration(minute)*time.Minute))
		require.NoError(t, b.feed.compact(b.ctx, b.term))
		ids, _ := b.turns()
		require.Equal(t, wanted(0, int64(10*i+9)), ids, "every row once, at each moment")
	}
	b.commit(1, 0, 9, start.Add(30*time.Minute))
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	_, files := b.turns()
	require.Len(t, files, 4)
	require.Equal(t, Hour, files[0].Span)
	require.Equal(t, "ledger/events-0-2026030112-00000000000000000000-00000000000000000029.parquet", files[0].Key)
	require.EqualValues(t, 30, files[0].Rows)
	require.EqualValues(t, 29, files[0].LastOffset)
	for _, l := range files[1:] {
		require.Equal(t, Commit, l.Span, "the hour isn't over for its partition")
	}
}

func TestCompactionDiesBeforeItRegisters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.commit(0, 0, 9, start)
	b.commit(0, 10, 19, start.Add(time.Hour))
	b.store.dieAfterPut.Store(true)
	require.ErrorIs(t, b.feed.compact(b.ctx, b.term), errDied)
	b.store.dieAfterPut.Store(false)
	keys, err := b.store.List(b.ctx, "ledger/")
	require.NoError(t, err)
	require.Len(t, keys, 1)
	ids, files := b.turns()
	require.Equal(t, wanted(0, 19), ids)
	require.Equal(t, Commit, files[0].Span)
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	again, err := b.store.List(b.ctx, "ledger/")
	require.NoError(t, err)
	require.Equal(t, keys, again, "the same name")
	ids, files = b.turns()
	require.Equal(t, wanted(0, 19), ids)
	require.Equal(t, Hour, files[0].Span)
}

// A former build may have written the same rows in other bytes: they are kept, and other rows are not.
func TestCompactionFindsAnothersFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.commit(0, 0, 9, start)
	b.commit(0, 10, 19, start.Add(time.Hour))
	rows := ledgerRows(0, 0, 9)
	for i := range rows {
		rows[i].Signals = make([]ledger.Value, len(ledger.Signals))
	}
	body, err := arrowfile.WriteLedger(rows)
	require.NoError(t, err)
	key := "ledger/events-0-2026030112-00000000000000000000-00000000000000000009.parquet"
	other := append([]byte(nil), body...)
	// The version of the writer stands in the footer as text: another one is the same file otherwise.
	changed := false
	for i := range other {
		if string(other[i:min(i+7, len(other))]) == "parquet" {
			copy(other[i:], "PARQUET")
			changed = true
			break
		}
	}
	require.True(t, changed)
	require.NoError(t, b.store.Bucket.PutIfAbsent(b.ctx, key, other))
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	ids, files := b.turns()
	require.Equal(t, wanted(0, 19), ids)
	require.Equal(t, Hour, files[0].Span)

	foreign, err := arrowfile.WriteLedger(ledgerRows(0, 5, 5))
	require.NoError(t, err)
	require.NoError(t, b.store.Bucket.PutIfAbsent(b.ctx, "ledger/events-0-2026030113-00000000000000000010-00000000000000000019.parquet", foreign))
	b.commit(0, 20, 29, start.Add(2*time.Hour))
	require.ErrorContains(t, b.feed.compact(b.ctx, b.term), "with other rows")
}

func TestCompactionBoundsItsFiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed.cfg.FileRows = 25
	for i := range int64(5) {
		b.commit(0, 10*i, 10*i+9, start.Add(time.Duration(i)*time.Minute))
	}
	b.commit(0, 50, 59, start.Add(time.Hour))
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	ids, files := b.turns()
	require.Equal(t, wanted(0, 59), ids)
	require.Len(t, files, 4)
	require.EqualValues(t, 20, files[0].Rows)
	require.EqualValues(t, 10, files[2].Rows)
}

// A damaged source is named, and keeps no other hour waiting.
func TestCompactionOfADamagedSource(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.commit(0, 0, 9, start)
	b.commit(0, 10, 19, start.Add(time.Hour))
	b.commit(0, 20, 29, start.Add(2*time.Hour))
	_, files := b.turns()
	body, err := b.store.Get(b.ctx, files[0].Key)
	require.NoError(t, err)
	body[len(body)/2] ^= 1
	require.NoError(t, b.store.Replace(b.ctx, files[0].Key, body))
	err = b.feed.compact(b.ctx, b.term)
	require.ErrorContains(t, err, files[0].Key+" is damaged")
	files, err = LedgerFiles(b.ctx, b.pool)
	require.NoError(t, err)
	require.Equal(t, Commit, files[0].Span)
	require.Equal(t, Hour, files[1].Span)
	report, err := Verify(b.ctx, b.pool, b.store)
	require.NoError(t, err)
	require.Len(t, report.Problems, 1)
	require.Contains(t, report.Problems[0], "SHA-256")
}

func TestCollect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.commit(0, 0, 9, start, "base")
	b.commit(0, 10, 19, start.Add(time.Hour), "base")
	before, err := b.store.List(b.ctx, "staging/")
	require.NoError(t, err)
	for _, key := range []string{
		"staging/events/0/events-0-00000000000000000000-00000000000000000009-ffffffffffffffff.sample.arrow", // never committed
		"staging/events/0/events-0-00000000000000000005-00000000000000000019-ffffffffffffffff.state.json",
		"staging/events/0/events-0-00000000000000000020-00000000000000000020-ffffffffffffffff.sample.arrow", // may be in flight
		"staging/events/0/events-0-00000000000000000010-00000000000000000020-ffffffffffffffff.ledger.parquet",
		"staging/events/7/events-7-00000000000000000000-00000000000000000001-ffffffffffffffff.ledger.parquet", // a partition without a row
		"staging/notes.txt",
	} {
		require.NoError(t, b.store.Bucket.PutIfAbsent(b.ctx, key, []byte(key)))
	}
	deleted, err := b.feed.Collect(b.ctx)
	require.NoError(t, err)
	require.Len(t, deleted, 3, "%v", deleted)
	var states int
	for _, key := range before {
		if m := stagingName.FindStringSubmatch(key); m[4] == "state" && m[3] == "00000000000000000009" {
			require.Contains(t, deleted, key, "a state that was replaced")
			states++
		}
	}
	require.Equal(t, 1, states)
	deleted, err = b.feed.Collect(b.ctx)
	require.NoError(t, err)
	require.Empty(t, deleted)

	require.NoError(t, b.feed.compact(b.ctx, b.term))
	deleted, err = b.feed.Collect(b.ctx)
	require.NoError(t, err)
	require.Empty(t, deleted, "somebody may have listed the sources before")
	_, err = b.pool.Exec(b.ctx, "update ledger_file set compacted_at = now() - interval '61 minutes'")
	require.NoError(t, err)
	deleted, err = b.feed.Collect(b.ctx)
	require.NoError(t, err)
	require.Len(t, deleted, 1)
	ids, _ := b.turns()
	require.Equal(t, wanted(0, 19), ids)
	report, err := Verify(b.ctx, b.pool, b.store)
	require.NoError(t, err)
	require.Empty(t, report.Problems)
}

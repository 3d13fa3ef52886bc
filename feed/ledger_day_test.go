package feed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/internal/arrowfile"
	"millrace/internal/postgres"
)

var midnight = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// spans are those of the listed files, in their order.
func (b *bundle) spans() (spans []Span) {
	b.t.Helper()
	files, err := LedgerFiles(b.ctx, b.pool)
	require.NoError(b.t, err)
	for _, l := range files {
		spans = append(spans, l.Span)
	}
	return spans
}

// hours commits a part of the log in each of n hours that end with the day, and one more behind midnight.
func (b *bundle) hours(n int) {
	b.t.Helper()
	for i := range int64(n) {
		b.commit(0, 10*i, 10*i+9, midnight.Add(time.Duration(i-int64(n))*time.Hour+time.Minute))
	}
	b.commit(0, int64(10*n), int64(10*n+9), midnight)
}

func TestCompactionOfWholeDays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range int64(30) { // from noon to the next evening
		b.commit(0, 10*i, 10*i+9, start.Add(time.Duration(i)*time.Hour))
		require.NoError(t, b.feed.compact(b.ctx, b.term))
		ids, _ := b.turns()
		require.Equal(t, wanted(0, 10*i+9), ids, "every row once and in order, at each moment")
	}
	_, files := b.turns()
	require.Len(t, files, 1+17+1, "the first day, the hours of the second, and one that isn't over")
	require.Equal(t, LedgerFile{
		Key:   "ledger/events-0-20260301-00000000000000000000-00000000000000000119.parquet",
		Topic: topic, Span: Day, Start: midnight.Add(-24 * time.Hour), End: midnight, LastOffset: 119, Rows: 120,
		Bytes: files[0].Bytes, SHA256: files[0].SHA256,
	}, files[0])
	require.Equal(t, Hour, files[1].Span)

	b.commit(1, 0, 9, start)
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	_, files = b.turns()
	require.Equal(t, Commit, files[len(files)-1].Span, "a partition's day is over by its own log time")
	report, err := Verify(b.ctx, b.pool, b.store)
	require.NoError(t, err)
	require.Empty(t, report.Problems)
}

func TestDaysBoundTheirFiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed.cfg.FileRows = 25
	b.hours(5)
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	ids, files := b.turns()
	require.Equal(t, wanted(0, 59), ids)
	require.Equal(t, []Span{Day, Day, Day, Commit}, b.spans())
	require.EqualValues(t, 20, files[0].Rows)
	require.EqualValues(t, 10, files[2].Rows)
}

// A crash at each step of a day's compaction: behind the first file's put, between two files, behind the second's put.
func TestDayDiesAtEachStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.hours(4)
	b.feed.cfg.FileRows = 20
	for _, p := range b.periods(levels[0]) {
		require.NoError(t, b.feed.compactPeriod(b.ctx, b.term, levels[0], p))
	}
	require.Equal(t, []Span{Hour, Hour, Hour, Hour, Commit}, b.spans())

	b.store.dieAfterPut.Store(true)
	require.ErrorIs(t, b.feed.compact(b.ctx, b.term), errDied)
	require.Equal(t, []Span{Hour, Hour, Hour, Hour, Commit}, b.spans(), "nothing names the file yet")
	deleted, err := b.feed.Collect(b.ctx)
	require.NoError(t, err)
	for _, key := range deleted {
		require.NotContains(t, key, "ledger/", "it is on its way")
	}
	first := b.objects("ledger/events-0-20260301-")
	require.Len(t, first, 1)

	b.store.dieAfterPut.Store(false)
	b.store.dieAt.Store(1) // the first file is there already: its put writes nothing
	require.ErrorIs(t, b.feed.compact(b.ctx, b.term), errDied)
	require.Equal(t, []Span{Day, Hour, Hour, Commit}, b.spans())
	ids, _ := b.turns()
	require.Equal(t, wanted(0, 49), ids)

	zombie := b.term
	next, ok, err := postgres.Elect(b.ctx, b.pool, publisher, "here", time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	require.ErrorIs(t, b.feed.compact(b.ctx, zombie), postgres.ErrFenced)
	require.Equal(t, []Span{Day, Hour, Hour, Commit}, b.spans())
	require.NoError(t, b.feed.compact(b.ctx, next))
	require.Equal(t, []Span{Day, Day, Commit}, b.spans())
	require.Len(t, b.objects("ledger/events-0-20260301-"), 2, "the same names again")
	require.Contains(t, b.objects("ledger/events-0-20260301-"), first[0])
	ids, _ = b.turns()
	require.Equal(t, wanted(0, 49), ids)
}

// An hour that can't be read keeps its day waiting, and no other.
func TestADayWaitsForItsHours(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.hours(3)
	for i := range int64(3) {
		b.commit(0, 40+10*i, 49+10*i, midnight.Add(time.Duration(1+12*i)*time.Hour))
	}
	_, files := b.turns()
	sound, err := b.store.Get(b.ctx, files[1].Key)
	require.NoError(t, err)
	require.NoError(t, b.store.Replace(b.ctx, files[1].Key, []byte("rubbish")))
	require.ErrorContains(t, b.feed.compact(b.ctx, b.term), files[1].Key+" is damaged")
	require.Equal(t, []Span{Hour, Commit, Hour, Hour, Hour, Hour, Commit}, b.spans(), "no day before the hour is there")
	require.NoError(t, b.store.Replace(b.ctx, files[1].Key, sound))
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	require.Equal(t, []Span{Day, Day, Commit}, b.spans())
	ids, _ := b.turns()
	require.Equal(t, wanted(0, 69), ids)
}

func TestHoursGoAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.hours(3)
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	stray := "ledger/events-0-20260301-00000000000000000000-00000000000000000019.parquet" // of a publisher with another limit
	early := "ledger/events-0-20260302-00000000000000000030-00000000000000000039.parquet" // its day isn't over
	for _, key := range []string{stray, early, "ledger/notes.txt", "ledger/others-0-20260301-00000000000000000000-00000000000000000019.parquet"} {
		require.NoError(t, b.store.Bucket.PutIfAbsent(b.ctx, key, []byte(key)))
	}
	hours := b.objects("ledger/events-0-20260301", "2026030121", "2026030122", "2026030123")
	require.Len(t, hours, 3)
	deleted, err := b.feed.Collect(b.ctx)
	require.NoError(t, err)
	require.NotContains(t, deleted, early)
	require.Subset(t, deleted, []string{stray})
	require.NotSubset(t, deleted, hours[:1], "somebody may have listed them before")

	_, err = b.pool.Exec(b.ctx, "update ledger_file set compacted_at = now() - interval '61 minutes'")
	require.NoError(t, err)
	deleted, err = b.feed.Collect(b.ctx)
	require.NoError(t, err)
	require.Subset(t, deleted, hours)
	deleted, err = b.feed.Collect(b.ctx)
	require.NoError(t, err)
	require.Empty(t, deleted)
	require.Len(t, b.objects("ledger/"), 1+1+2, "the day, and what isn't known to be garbage")
	ids, _ := b.turns()
	require.Equal(t, wanted(0, 39), ids)
}

// A publisher that dies at random, collects garbage at random and is followed by one with other limits never loses a
// row and never shows one twice.
func TestRandomCrashesOfTheCompaction(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	b := setup(t)
	at := start
	for next := int64(0); at.Before(start.Add(72 * time.Hour)); {
		last := next + int64(r.IntN(5))
		at = at.Add(time.Duration(r.IntN(300)) * time.Minute)
		b.commit(0, next, last, at)
		next = last + 1
		b.feed.cfg.FileRows = int64(1 + r.IntN(20))
		b.store.dieAt.Store(int64(r.IntN(4)))
		if err := b.feed.compact(b.ctx, b.term); !errors.Is(err, errDied) {
			require.NoError(t, err)
		}
		if r.IntN(3) == 0 {
			_, err := b.pool.Exec(b.ctx, "update ledger_file set compacted_at = compacted_at - make_interval(mins => $1)", r.IntN(90))
			require.NoError(t, err)
			_, err = b.feed.Collect(b.ctx)
			require.NoError(t, err)
		}
		ids, _ := b.turns()
		require.Equal(t, wanted(0, last), ids)
	}
	b.store.dieAt.Store(0)
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	_, err := b.pool.Exec(b.ctx, "update ledger_file set compacted_at = '-infinity'")
	require.NoError(t, err)
	_, err = b.feed.Collect(b.ctx)
	require.NoError(t, err)
	files, err := LedgerFiles(b.ctx, b.pool)
	require.NoError(t, err)
	named := map[string]bool{}
	for _, l := range files {
		named[l.Key] = true
	}
	for _, key := range b.objects("ledger/") {
		o, ok := parseLedger(key)
		require.True(t, ok, key)
		require.True(t, named[key] || !o.day.Before(at.Truncate(24*time.Hour)), "%s is garbage that stays", key)
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	at := func(hour int) time.Time { return start.Add(time.Duration(hour) * time.Hour) }
	var files []LedgerFile
	for partition := range int32(2) {
		for h := range 4 {
			files = append(files, LedgerFile{Key: fmt.Sprintf("%d/%d", partition, h), Topic: topic, Partition: partition, Start: at(h), End: at(h + 1)})
		}
	}
	for name, c := range map[string]struct {
		from, to time.Time
		want     []string
	}{
		"all":             {want: []string{"0/0", "0/1", "0/2", "0/3", "1/0", "1/1", "1/2", "1/3"}},
		"from":            {from: at(3), want: []string{"0/3", "1/3"}},
		"within an hour":  {from: at(2).Add(time.Minute), want: []string{"0/2", "0/3", "1/2", "1/3"}},
		"to":              {to: at(1), want: []string{"0/0", "0/1", "1/0", "1/1"}},
		"both":            {from: at(1), to: at(2), want: []string{"0/1", "0/2", "1/1", "1/2"}},
		"behind the last": {from: at(9), want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var keys []string
			for _, l := range Between(files, c.from, c.to) {
				keys = append(keys, l.Key)
			}
			require.Equal(t, c.want, keys)
		})
	}
}

// periods are those of a level that are over.
func (b *bundle) periods(l level) (periods []period) {
	b.t.Helper()
	rows, err := b.pool.Query(b.ctx, l.over)
	require.NoError(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var p period
		require.NoError(b.t, rows.Scan(&p.Topic, &p.Partition, &p.Start))
		periods = append(periods, p)
	}
	return periods
}

// objects are the keys with a prefix; if some parts are given, only those which hold one.
func (b *bundle) objects(prefix string, parts ...string) (keys []string) {
	b.t.Helper()
	all, err := b.store.List(b.ctx, prefix)
	require.NoError(b.t, err)
	for _, key := range all {
		take := len(parts) == 0
		for _, part := range parts {
			take = take || strings.Contains(key, part)
		}
		if take {
			keys = append(keys, key)
		}
	}
	return keys
}

// A day of a minute's commits is one file whose bytes don't depend on how its hours were made.
func TestADaysBytesAreThoseOfItsRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.hours(3)
	require.NoError(t, b.feed.compact(b.ctx, b.term))
	_, files := b.turns()
	rows := ledgerRows(0, 0, 29)
	body, err := arrowfile.WriteLedger(rows)
	require.NoError(t, err)
	require.Equal(t, arrowfile.SHA256(body), files[0].SHA256)
}

package distill

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/internal/objstore"
)

// refusing is a store that never takes files of a kind.
type refusing struct {
	*objstore.Folder
	kind string
}

func (r refusing) PutIfAbsent(ctx context.Context, key string, body []byte) error {
	if strings.Contains(key, r.kind) {
		return fmt.Errorf("putting %s: %w", key, objstore.ErrExists)
	}
	return r.Folder.PutIfAbsent(ctx, key, body)
}

// TestAnErrorThatNeverPassesHalts fails at the same place again and again. The partition halts with the error; once its
// cause is mended and a person has resumed it, nothing is lost or doubled.
func TestAnErrorThatNeverPassesHalts(t *testing.T) {
	t.Parallel()
	log := writeLog(t, crashSeed, 12)
	w := newWorld(t, log)
	d := w.distill("failing", nil)
	d.cfg.pause = time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	execute := func(sql string) {
		_, err := w.pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	for _, c := range []struct {
		reason       string
		breaks, mend func()
	}{
		{
			"ledger", func() { d.store = refusing{w.store, ".ledger."} }, func() { d.store = w.store },
		},
		{
			"no room for shards", func() {
				execute(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no room for shards'; end $$`)
				execute(`create trigger refuse before insert on shard for each row execute function refuse()`)
			},
			func() { execute(`drop trigger refuse on shard`) },
		},
	} {
		c.breaks()
		var halted string
		attempts := 0
		for ; halted == ""; attempts++ {
			lease, err := d.leases.claim(ctx)
			require.NoError(t, err)
			d.hold(ctx, lease)
			require.NoError(t, ctx.Err(), c.reason)
			require.NoError(t, w.pool.QueryRow(ctx, `select coalesce(halted, '') from partition`).Scan(&halted))
		}
		require.Equal(t, mostAttempts, attempts)
		require.Contains(t, halted, "10 attempts to go on from offset ")
		require.Contains(t, halted, c.reason)
		c.mend()
		execute(`update partition set halted = null`)
	}
	w.runUntilEnd(d)
	w.requireSame(undisturbed(t, log), "after two halts")
}

// TestAHaltThatCantBeRecordedEnds holds the partition's row against the worker that wants to halt it.
func TestAHaltThatCantBeRecordedEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, writeLog(t, crashSeed, 1))
	d := w.distill("halting", nil)
	d.leases.term = time.Second
	lease, err := d.leases.claim(t.Context())
	require.NoError(t, err)
	tx, err := w.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select from partition for update`)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		d.halt(t.Context(), d.logger, lease, "for a test")
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("it waits for the row")
	}
	require.NoError(t, tx.Rollback(t.Context()))
	<-ended
}

func TestADocumentIsNamedByItsDigest(t *testing.T) {
	t.Parallel()
	for _, digest := range []string{"a//b", "", strings.Repeat("a", 62), strings.Repeat("x", 64)} {
		var stop *halted
		_, err := (&worker{}).document(t.Context(), digest)
		require.ErrorAs(t, err, &stop, digest)
	}
}

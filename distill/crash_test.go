package distill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The seed of the log that crashes are tried on.
const crashSeed = 2

// TestACrashAtEveryStepLosesAndDoublesNothing stops the worker dead the first time it reaches each step of each
// batch's flush and commit; whoever comes next goes on from what was committed. In the end everything equals one
// undisturbed run over the same log: rows, files, balances, sums.
func TestACrashAtEveryStepLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	log := writeLog(t, crashSeed, 12)
	want := undisturbed(t, log)
	w := newWorld(t, log)
	crashed := map[string]bool{}
	w.runUntilEnd(w.distill("crashing", func(_ *Lease, step string) error {
		if at := fmt.Sprintf("%d %s", w.committed(), step); !crashed[at] {
			crashed[at] = true
			return errCrash
		}
		return nil
	}))
	w.requireSame(want, "after a crash at every step")
	t.Logf("%d crashes", len(crashed))
	require.Greater(t, len(crashed), 100)
}

// TestAZombieAtEveryStepHasNoEffect lets another worker take the partition over, and commit the batch, while the first
// one sleeps at a step; then the first one wakes and goes on as if nothing had happened.
func TestAZombieAtEveryStepHasNoEffect(t *testing.T) {
	t.Parallel()
	log := writeLog(t, crashSeed, 12)
	want := undisturbed(t, log)
	w := newWorld(t, log)
	// One step a batch: a batch that was taken over never reaches the next one.
	steps := []string{
		"flush: begin", "flush: sample written", "flush: ledger written", "flush: state written", "flushed",
		"commit: position moved", "commit: files named", "commit: accounted", "commit: sums added",
		"commit: last statement done", "commit: answered",
	}
	target := map[int64]string{} // by the batch's first offset
	takeovers, locked := map[string]int{}, map[string]int{}
	other := w.distill("other", nil)
	w.runUntilEnd(w.distill("zombie", func(_ *Lease, step string) error {
		first := w.committed()
		if step == "commit: answered" || first >= w.end {
			return nil // it has committed: what sleeps now has nothing left to do wrong
		}
		if target[first] == "" {
			target[first] = steps[len(target)%len(steps)]
		}
		switch {
		case target[first] != step:
		case strings.HasPrefix(step, "commit: "):
			// The transaction under way has locked the row: nobody can take the partition over now.
			lockedOut(t, w, other)
			locked[step]++
		default:
			takeOver(t, w, other, first)
			takeovers[step]++
		}
		return nil
	}))
	w.requireSame(want, "after a zombie at every step")
	require.Len(t, takeovers, 5, "at each step of the flush")
	require.Len(t, locked, 5, "at each step of the commit")
}

// takeOver lets the lease run out in Postgres, and another worker commit one batch and give the partition back.
func takeOver(t *testing.T, w *world, other *Distill, first int64) {
	t.Helper()
	ctx := t.Context()
	_, err := w.pool.Exec(ctx, `update partition set lease_until = now() - interval '1 second'`)
	require.NoError(t, err)
	lease, err := other.leases.claim(ctx)
	require.NoError(t, err)
	other.cfg.reached = func(_ *Lease, step string) error {
		if step == "commit: answered" {
			return errCrash
		}
		return nil
	}
	if err := other.work(ctx, lease); !errors.Is(err, errCrash) {
		require.NoError(t, err)
	}
	require.Greater(t, w.committed(), first, "the other one has committed")
	require.NoError(t, other.leases.release(ctx, lease))
}

func lockedOut(t *testing.T, w *world, other *Distill) {
	t.Helper()
	_, err := other.leases.claim(t.Context())
	require.ErrorIs(t, err, pgx.ErrNoRows, "a partition in the middle of a commit can't be claimed")
}

// TestACommitOfUnknownOutcomeIsReadBack reports a failure after the transaction has gone through: the worker must not
// try it again, but take the lease and read what is true.
func TestACommitOfUnknownOutcomeIsReadBack(t *testing.T) {
	t.Parallel()
	log := writeLog(t, crashSeed, 12)
	want := undisturbed(t, log)
	w := newWorld(t, log)
	r := rand.New(rand.NewPCG(crashSeed, 3))
	lost := 0
	w.runUntilEnd(w.distill("unlucky", func(_ *Lease, step string) error {
		if step == "commit: answered" && r.IntN(3) == 0 {
			lost++
			return errors.New("the connection broke before the answer came")
		}
		return nil
	}))
	w.requireSame(want, "after commits of unknown outcome")
	require.Positive(t, lost)
}

// TestALostRecordHaltsThePartition changes the log under a committed position: the partition must stop and say why,
// and never go on over the gap.
func TestALostRecordHaltsThePartition(t *testing.T) {
	t.Parallel()
	log := writeLog(t, crashSeed, 12)
	w := newWorld(t, log)
	crash := 0
	d := w.distill("first", func(_ *Lease, step string) error {
		if step == "commit: answered" {
			if crash++; crash == 4 {
				return errCrash
			}
		}
		return nil
	})
	lease, err := d.leases.claim(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, d.work(t.Context(), lease), errCrash)
	require.NoError(t, d.leases.release(t.Context(), lease))

	cases := map[string]string{
		"the topic was recreated": `update partition set log_digest = 'other'`,
		"before the committed":    `update partition set committed_offset = 10000000, low_watermark = 10000000`,
		"SHA-256":                 `update partition set state_sha256 = 'other'`,
		"turns opened":            `update partition set turns_opened = turns_opened + 1`,
	}
	for reason, change := range cases {
		_, err := w.pool.Exec(t.Context(), `create table if not exists kept as select * from partition`)
		require.NoError(t, err)
		_, err = w.pool.Exec(t.Context(), change)
		require.NoError(t, err)
		lease, err := d.leases.claim(t.Context())
		require.NoError(t, err)
		d.hold(t.Context(), lease)
		var halted string
		require.NoError(t, w.pool.QueryRow(t.Context(), `select coalesce(halted, '') from partition`).Scan(&halted))
		require.Contains(t, halted, reason)
		_, err = d.leases.claim(t.Context())
		require.ErrorIs(t, err, pgx.ErrNoRows, "a halted partition is not claimed")
		_, err = w.pool.Exec(t.Context(), `delete from partition; insert into partition select * from kept`)
		require.NoError(t, err)
	}
	w.runUntilEnd(w.distill("second", nil))
	w.requireSame(undisturbed(t, log), "after the halts, with the cause mended")
}

// TestACommitMayTakeLongerThanATerm makes a commit slow. Given up for that, the batch would come again at the same
// length, and again.
func TestACommitMayTakeLongerThanATerm(t *testing.T) {
	t.Parallel()
	log := writeLog(t, crashSeed, 12)
	w := newWorld(t, log)
	const term = 2 * time.Second
	slow, good := 0, false
	d := w.distill("slow", func(_ *Lease, step string) error {
		if step == "commit: accounted" && w.committed() == 0 {
			slow++
			time.Sleep(term * 5 / 4)
		}
		if step == "commit: answered" && slow == 1 && !good {
			require.NoError(t, w.pool.QueryRow(t.Context(), `select lease_until > now() from partition`).Scan(&good))
			require.True(t, good, "the lease counts from the commit's end")
		}
		return nil
	})
	d.cfg.LeaseTerm, d.leases.term = term, term
	w.runUntilEnd(d)
	w.requireSame(undisturbed(t, log), "after a slow commit")
	require.Equal(t, 1, slow)
}

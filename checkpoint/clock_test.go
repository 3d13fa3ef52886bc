package checkpoint

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/schedule"
)

// again is the next process, with the configuration as the world now has it.
func (w *world) again() *Control {
	w.t.Helper()
	w.exec(`update leader set lease_until = '-infinity'`)
	w.cfg.Owner += "'"
	return w.control()
}

func (w *world) ask(who string) {
	w.t.Helper()
	w.tx(func(tx pgx.Tx) error {
		_, err := schedule.Ask(w.t.Context(), tx, who)
		return err
	})
}

// noCut says that there is none of that id.
func (w *world) noCut(id string) {
	w.t.Helper()
	_, err := cut.Get(w.t.Context(), w.pool, id)
	require.ErrorIs(w.t, err, cut.ErrNotFound)
}

// TestAClockThatIsSetRight: what was begun a day ahead neither blocks the cuts of that day nor is made twice.
func TestAClockThatIsSetRight(t *testing.T) {
	t.Parallel()
	for name, stuck := range map[string]bool{"its candidate is in training": false, "its cut is still marking": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			c := w.control()
			w.interval()
			w.frozen[1] = stuck
			w.step(c, 24, 59) // true is 0:59
			first := w.cut("cut-1")
			require.Equal(t, "schedule, caught up with 2026-03-02T03:00:00Z, 4 missed before it", first.Cause)
			w.step(c, 1, 0)
			require.Equal(t, "schedule, caught up with 2026-03-01T07:00:00Z", w.cut("cut-2").Cause)
			if stuck {
				require.Equal(t, "begun by a clock that was ahead (2026-03-02T07:59:00Z) and was turned back (2026-03-01T08:00:00Z); its rows go to the next cut", w.cut("cut-1").Reason)
			} else {
				ended, err := candidate.Get(t.Context(), w.pool, "cand-1")
				require.NoError(t, err)
				require.Equal(t, candidate.TimedOut, ended.State)
				require.Equal(t, "begun by a clock that was ahead (2026-03-02T07:59:00Z) and was turned back (2026-03-01T08:00:00Z)", ended.Reason)
			}
			for i, h := range []int{5, 10, 15} {
				w.step(c, h, 0)
				require.Equal(t, at(h, 0), w.cut([]string{"cut-3", "cut-4", "cut-5"}[i]).DueAt)
			}
			s, err := ReadStatus(t.Context(), w.pool, "events", at(16, 0))
			require.NoError(t, err)
			require.Equal(t, at(25, 0), *s.NextCut, "20:00 had its cut")
			w.step(c, 20, 0)
			w.noCut("cut-6")
			w.step(c, 25, 0)
			require.Equal(t, at(25, 0), w.cut("cut-6").DueAt)
		})
	}
}

// TestAClockThatGoesBackWhileACutIsMade: the candidate's times count from when it is packed, not from a time to come.
func TestAClockThatGoesBackWhileACutIsMade(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.interval()
	w.frozen[1] = true
	w.step(c, 24, 59)
	w.pass("cut-1", 1)
	w.step(c, -2, 0) // before the first slot: nothing else is due
	require.Equal(t, cut.Packed, w.cut("cut-1").State)
	k, err := candidate.Get(t.Context(), w.pool, "cand-1")
	require.NoError(t, err)
	require.Equal(t, at(-1, 0), k.Ladder.SubmitBy)
	w.step(c, -1, 1)
	require.Equal(t, candidate.TimedOut, w.state("cand-1"))
}

// TestTheClocksHaveToAgree: in real time nothing is decided while this process's clock is far from Postgres's.
func TestTheClocksHaveToAgree(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	require.NoError(t, c.inTime(t.Context(), time.Now()))
	for _, off := range []time.Duration{24 * time.Hour, -24 * time.Hour, time.Hour} {
		require.ErrorContains(t, c.inTime(t.Context(), time.Now().Add(off)), "nothing is decided by time until they agree within 1m0s")
	}
}

// TestAskedForBesideASlot: one cut serves the slot and everybody who asked.
func TestAskedForBesideASlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.interval()
	w.step(c, -1, 0)
	var group sync.WaitGroup
	asked := make([]string, 2)
	for i, who := range []string{"ann", "ben"} {
		group.Go(func() {
			w.tx(func(tx pgx.Tx) (err error) { asked[i], err = schedule.Ask(t.Context(), tx, who); return err })
		})
	}
	group.Wait()
	require.Equal(t, asked[0], asked[1], "both are told who asked first")
	w.step(c, 0, 0)
	require.Equal(t, "schedule, asked by "+asked[0]+" too", w.cut("cut-1").Cause)
	w.step(c, 0, 1)
	w.noCut("cut-2")

	// Just before a slot: the slot's own is skipped, with the reason.
	w.step(c, 1, 1)
	w.shard("base", 1, 1100, 110)
	w.offset = 2000
	w.ask("ann")
	w.step(c, 4, 59)
	require.Equal(t, cut.Packed, w.cut("cut-2").State)
	require.Nil(t, w.cut("cut-2").Slot)
	w.step(c, 5, 0)
	require.Equal(t, "cand-2 is still training, until 2026-03-01T16:44:00Z at the latest", w.cut("cut-3").Reason)
}

// TestAnotherPeriod counts from the last cut on; before the first one, from the start with it.
func TestAnotherPeriod(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.Anchor = time.Time{}
	w.cfg.Period = 48 * time.Hour
	c := w.control()
	w.step(c, 0, 0)
	s, err := ReadStatus(t.Context(), w.pool, "events", at(0, 0))
	require.NoError(t, err)
	require.Equal(t, at(48, 0), *s.NextCut)
	w.cfg.Period = five
	c = w.again()
	w.step(c, 1, 0)
	w.interval()
	w.step(c, 6, 0) // not only after two days
	require.Equal(t, at(6, 0), w.cut("cut-1").DueAt)
	w.cfg.Period = 7 * time.Hour
	c = w.again()
	for _, h := range []int{11, 12} {
		w.step(c, h, 59)
		w.noCut("cut-2")
	}
	w.step(c, 13, 0)
	require.Equal(t, at(13, 0), w.cut("cut-2").DueAt)
	// And before it a clock was a day ahead when the role was started first: that anchor is not waited for.
	w.exec(`update cut_schedule set anchor = anchor + interval '1 year', last_due = null`)
	w.exec(`update cut set slot = null`)
	w.step(c, 14, 0)
	s, err = ReadStatus(t.Context(), w.pool, "events", at(14, 0))
	require.NoError(t, err)
	require.Equal(t, at(21, 0), *s.NextCut)
}

// TestPostgresIsAwayForAnHour: every pass fails meanwhile; then there is one catch-up, whose steps count from then.
func TestPostgresIsAwayForAnHour(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.step(c, -1, 0)
	w.interval()
	cfg := w.pool.Config().Copy()
	away := errors.New("connection refused")
	gone := true
	cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if gone {
			return away
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	deps := w.deps()
	deps.DB = pool
	w.exec(`update leader set lease_until = '-infinity'`)
	c, err = New(w.cfg, deps)
	require.NoError(t, err)
	for m := range 60 {
		require.ErrorIs(t, c.Step(t.Context(), at(0, m)), away)
	}
	w.noCut("cut-1")
	gone = false
	w.step(c, 1, 0)
	require.Equal(t, "schedule, caught up with 2026-03-01T07:00:00Z", w.cut("cut-1").Cause)
	k, err := candidate.Get(t.Context(), w.pool, "cand-1")
	require.NoError(t, err)
	require.Equal(t, at(2, 0), k.Ladder.SubmitBy)
	w.step(c, 1, 1)
	w.noCut("cut-2")
}

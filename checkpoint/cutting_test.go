package checkpoint

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/release"
	"millrace/internal/postgres"
)

// TestACutThatIsDueWhileATestRuns: by the configuration it is skipped with that reason, or it ends the test. Either way
// control's rows carry over.
func TestACutThatIsDueWhileATestRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule      OnOpenExperiment
		cut       cut.State
		candidate candidate.State
		reason    string
	}{
		"wait":      {Wait, cut.Skipped, candidate.Testing, "cand-1 is still testing, until 2026-03-01T11:45:00Z at the latest"},
		"supersede": {Supersede, cut.Packed, candidate.TimedOut, "no verdict by 2026-03-01T10:00:00Z, when the next cut was due: the test gives way to it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.cfg.OnOpenExperiment = c.rule
			k := w.control()
			w.toTest(k)
			w.shard("base", 0, 1200, 150)
			w.shard("cand-1", 1, 1200, 140)
			w.offset = 2000
			w.ask("ann")
			w.step(k, 3, 0)
			second := w.cut("cut-2")
			require.Equal(t, c.cut, second.State)
			require.Equal(t, c.candidate, w.state("cand-1"))
			if c.rule == Wait {
				require.Equal(t, c.reason, second.Reason)
				w.traffic("exp-1", 0)
				w.committed(at(4, 40))
				w.step(k, 4, 43)
				require.Equal(t, candidate.Held, w.state("cand-1"), "the test went on")
				w.step(k, 5, 0)
				require.Equal(t, cut.Balance{InShards: 320, Taken: 180, Stale: 140}, w.cut("cut-3").Balance)
				return
			}
			ended, err := candidate.Get(t.Context(), w.pool, "cand-1")
			require.NoError(t, err)
			require.Equal(t, c.reason, ended.Reason)
			require.Equal(t, cut.Balance{InShards: 320, Taken: 180, Stale: 140}, second.Balance)
			require.Equal(t, []string{"cand-1"}, w.withdrawn(), "its arm serves nobody any more")
			require.Equal(t, candidate.Training, w.state("cand-2"))
			// A trainer's work is never superseded: there is no test yet.
			w.step(k, 3, 10)
			w.ask("ann")
			w.step(k, 3, 11)
			require.Equal(t, "cand-2 is still training, until 2026-03-01T14:45:00Z at the latest", w.cut("cut-3").Reason)
		})
	}
}

// TestCutsByRows: a small team's cut comes when there are rows enough, not before a cycle fits, and at last anyway.
func TestCutsByRows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.Anchor = time.Time{}
	w.cfg.CutAtRows, w.cfg.MaxPeriod = 200, 50*time.Hour
	c := w.control()
	w.step(c, 0, 0)
	w.shard("base", 0, 0, 199)
	w.shard("other", 0, 100, 50)
	w.step(c, 3, 0)
	w.noCut("cut-1")
	s, err := ReadStatus(t.Context(), w.pool, "events", at(3, 0))
	require.NoError(t, err)
	require.Equal(t, "at 200 rows (199 wait), not before 2026-03-01 07:00", s.ByRows.String())
	require.Equal(t, at(50, 0), *s.NextCut)
	w.shard("base", 1, 0, 1)
	w.step(c, 3, 1)
	require.Equal(t, "200 rows wait", w.cut("cut-1").Cause)
	require.Equal(t, at(3, 1), w.cut("cut-1").DueAt)
	require.EqualValues(t, 200, w.cut("cut-1").Taken)

	// Enough again, but the cycle is not over; a restart doesn't forget when it began.
	w.shard("base", 0, 1100, 250)
	w.offset = 2000
	w.step(c, 4, 2)
	w.noCut("cut-2")
	c = w.again()
	w.step(c, 8, 0)
	w.noCut("cut-2")
	w.step(c, 8, 1)
	require.EqualValues(t, 250, w.cut("cut-2").Taken)

	// One that was asked for holds the next one up without being a skip: there is no slot to miss.
	w.shard("base", 0, 2100, 110)
	w.offset = 3000
	w.step(c, 9, 2)
	w.ask("ann")
	w.step(c, 12, 0)
	require.EqualValues(t, 110, w.cut("cut-3").Taken)
	w.shard("base", 0, 3100, 205)
	w.offset = 4000
	w.step(c, 12, 59)
	w.noCut("cut-4")
	w.step(c, 13, 2) // its trainer has not submitted
	require.EqualValues(t, 205, w.cut("cut-4").Taken)

	// Few come any more: at the latest it is made all the same, once.
	w.shard("base", 0, 4100, 120)
	w.offset = 5000
	w.step(c, 63, 1)
	w.noCut("cut-5")
	w.step(c, 70, 0)
	require.Equal(t, "50h0m0s since the last cut, 120 rows wait", w.cut("cut-5").Cause)
	require.EqualValues(t, 120, w.cut("cut-5").Taken)
	w.step(c, 72, 0)
	w.noCut("cut-6")

	// Back to fixed times: whole periods from where they were.
	w.cfg.CutAtRows, w.cfg.MaxPeriod = 0, 0
	c = w.again()
	w.step(c, 72, 1)
	w.noCut("cut-6")
	w.step(c, 75, 0)
	require.Equal(t, "schedule", w.cut("cut-6").Cause)
}

// TestAPersonLetsACutGoOn: without the halted partition, whose rows go to the next cut, whatever it does meanwhile.
func TestAPersonLetsACutGoOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.interval()
	w.frozen[1] = true
	w.step(c, 0, 0)
	decide := func(id string, partition int) error {
		return postgres.InTx(t.Context(), w.pool, func(tx pgx.Tx) error {
			return cut.GoOnWithout(t.Context(), tx, id, cut.Absence{Partition: partition, Who: "ann", Why: "its disk is gone", At: at(0, 20)})
		})
	}
	require.ErrorContains(t, decide("cut-1", 0), "partition 0 has passed the mark of cut-1")
	require.ErrorContains(t, decide("cut-1", 2), "has no partition 2; they are 0 to 1")
	require.ErrorIs(t, decide("cut-9", 1), cut.ErrNotFound)
	require.NoError(t, decide("cut-1", 1))
	require.NoError(t, decide("cut-1", 1), "again: nothing new")
	w.pass("cut-1", 1) // it is back, too late for this cut
	w.step(c, 0, 21)
	k := w.cut("cut-1")
	require.Equal(t, cut.Packed, k.State)
	require.Equal(t, []cut.Absence{{Partition: 1, Who: "ann", Why: "its disk is gone", At: at(0, 20)}}, k.Without)
	require.Equal(t, k.Without, w.manifest("cut-1").Without)
	require.Equal(t, cut.Balance{InShards: 127, Taken: 120, Stale: 7}, k.Balance)
	require.ErrorIs(t, decide("cut-1", 1), cut.ErrNotWaiting)
	w.frozen[1] = false
	w.offset = 2000
	w.step(c, 5, 0)
	require.Equal(t, cut.Balance{InShards: 170, Taken: 170}, w.cut("cut-2").Balance)
	_, err := w.pool.Exec(t.Context(), `delete from cut_absence`)
	require.ErrorContains(t, err, "append-only")
}

// TestOtherRulesInTheMiddleOfPacking: a process with another configuration goes on with a cut by the rules that it was
// begun with; half of its parts are there already.
func TestOtherRulesInTheMiddleOfPacking(t *testing.T) {
	t.Parallel()
	undisturbed := setup(t)
	undisturbed.interval()
	undisturbed.step(undisturbed.control(), 0, 0)
	w := setup(t)
	w.interval()
	f := &fuse{}
	cfg := w.pool.Config().Copy()
	cfg.ConnConfig.Tracer = f
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	parts := func() (n int) {
		require.NoError(t, w.pool.QueryRow(t.Context(), `select count(*) from cut_part`).Scan(&n))
		return n
	}
	for n := 1; parts() == 0; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		f.left, f.cancel = n, cancel
		deps := w.deps()
		deps.DB = pool
		c, err := New(w.cfg, deps)
		require.NoError(t, err)
		require.Error(t, c.Step(ctx, at(0, 0)))
		f.cancel = nil
		cancel()
	}
	require.Equal(t, cut.Complete, w.cut("cut-1").State)
	w.cfg.Cut.PartBytes, w.cfg.Cut.UnitShare, w.cfg.Cut.UnitRows, w.cfg.Cut.MinRows = 1<<14, .001, 1, 10_000
	w.cfg.Cut.MemoryBytes = 1 << 20
	w.step(w.again(), 0, 1)
	require.Equal(t, undisturbed.cut("cut-1").ManifestSHA256, w.cut("cut-1").ManifestSHA256)
	w.manifest("cut-1")
}

// TestFencedInTheMiddleOfPacking: a leader whose term ends between two parts leaves nothing half, and the next one
// finishes the same cut.
func TestFencedInTheMiddleOfPacking(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.interval()
	first := w.control()
	w.step(first, -1, 0)
	w.frozen[0], w.frozen[1] = true, true
	w.step(first, 0, 0)
	w.pass("cut-1", 0)
	w.pass("cut-1", 1)
	k := w.cut("cut-1")
	require.NoError(t, first.write(t.Context(), func(tx pgx.Tx) error { return cut.Completed(t.Context(), tx, k.ID, at(0, 1)) }))
	w.exec(`update leader set term = term + 1, owner = 'there', lease_until = '-infinity'`)
	_, err := first.pack(t.Context(), w.cut("cut-1"), at(0, 2))
	require.ErrorIs(t, err, postgres.ErrFenced)
	require.Equal(t, cut.Complete, w.cut("cut-1").State)
	require.Empty(t, w.cut("cut-1").Reason)
	w.step(w.again(), 0, 3)
	require.Equal(t, cut.Packed, w.cut("cut-1").State)
	w.manifest("cut-1")
}

// TestALogThatStaysAway: the mark is given up when it would be of use to nobody, and the next slot is tried again.
func TestALogThatStaysAway(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.interval()
	w.step(c, -1, 0)
	w.broken = errors.New("no broker")
	require.ErrorContains(t, c.Step(t.Context(), at(0, 0)), "no broker")
	w.ask("ann")
	require.ErrorContains(t, c.Step(t.Context(), at(0, 1)), "no broker")
	require.Equal(t, "cut-1 is still marking, until 2026-03-01T08:00:00Z at the latest", w.cut("cut-2").Reason)
	require.ErrorContains(t, c.Step(t.Context(), at(1, 0)), "no broker")
	w.step(c, 1, 1)
	require.Equal(t, "its mark was not in the log by 2026-03-01T08:00:00Z, when a candidate had to be submitted; its rows go to the next cut", w.cut("cut-1").Reason)
	w.broken = nil
	w.step(c, 5, 0)
	require.EqualValues(t, 260, w.cut("cut-3").Taken)
}

// TestNothingIsDueBeforeTheFirstRelease: slots pass by, and the first checkpoint doesn't begin with a catch-up.
func TestNothingIsDueBeforeTheFirstRelease(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`alter table release disable trigger append_only`)
	w.exec(`truncate publication, live, release, policy_version cascade`)
	c := w.control()
	w.step(c, 0, 0)
	w.step(c, 12, 0)
	w.tx(func(tx pgx.Tx) error { return release.Init(t.Context(), tx, "base", "me", at(13, 0)) })
	w.step(c, 13, 0)
	w.noCut("cut-1")
	w.interval()
	w.step(c, 15, 0)
	require.Equal(t, "schedule", w.cut("cut-1").Cause)
	require.Equal(t, at(15, 0), w.cut("cut-1").DueAt)
}

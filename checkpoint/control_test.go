package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/experiment"
	"millrace/checkpoint/gate"
	"millrace/checkpoint/release"
	"millrace/internal/arrowfile"
	"millrace/internal/postgres"
	"millrace/schemas/event"
)

// step is one pass at a time of the cycle.
func (w *world) step(c *Control, hours, minutes int) {
	w.t.Helper()
	require.NoError(w.t, c.Step(w.t.Context(), at(hours, minutes)))
}

// toTest leads the first candidate into its test.
func (w *world) toTest(c *Control) {
	w.t.Helper()
	w.interval()
	w.step(c, 0, 0)
	require.Equal(w.t, candidate.Training, w.state("cand-1"))
	w.submit(w.submission("cut-1", "cand-1"), at(0, 30))
	w.step(c, 0, 31)
	require.Equal(w.t, candidate.Evaluating, w.state("cand-1"), "it waits for the start of its test")
	w.step(c, 1, 15)
	require.Equal(w.t, candidate.Testing, w.state("cand-1"))
}

func TestAWholeCycle(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.step(c, -1, 0)
	require.Equal(t, []string{"base"}, w.announced)
	w.toTest(c)

	k := w.cut("cut-1")
	require.Equal(t, cut.Packed, k.State)
	require.Equal(t, cut.Balance{InShards: 267, Taken: 260, Stale: 7}, k.Balance)
	require.EqualValues(t, 120, k.Units)
	require.Equal(t, "tok", k.TokenizerDigest)

	// The workers know the experiment, and the ordinals of both versions; assignment knows it too.
	config := w.controls[len(w.controls)-1].GetConfigAdopted()
	require.Equal(t, map[string]int64{"base": 1, "cand-1": 2}, config.PolicyOrdinals)
	require.Equal(t, "composer@1", config.RewardSpecName)
	require.Len(t, config.Experiments, 1)
	require.Equal(t, "exp-1", config.Experiments[0].Id)
	require.Equal(t, at(3, 55), config.Experiments[0].CountsUntil.AsTime())
	var live, salt, control, tested string
	var coverage float64
	require.NoError(t, w.pool.QueryRow(t.Context(), `select live, salt, coverage, control, candidate from assignment_ruleset`).Scan(&live, &salt, &coverage, &control, &tested))
	require.Equal(t, []any{"base", 1.0, "base", "cand-1"}, []any{live, coverage, control, tested})

	w.traffic("exp-1", .003)
	w.committed(at(4, 39))
	w.step(c, 4, 42)
	require.Equal(t, candidate.Testing, w.state("cand-1"), "the verdict waits until every partition has passed the end")
	w.committed(at(4, 40))
	w.step(c, 4, 43)
	require.Equal(t, candidate.Promoted, w.state("cand-1"))
	require.Equal(t, "cand-1", w.live().Version)
	require.Equal(t, []string{"base", "cand-1"}, w.announced)

	frozen, err := experiment.VerdictOf(t.Context(), w.pool, "cand-1")
	require.NoError(t, err)
	require.Equal(t, gate.Ship, frozen.Verdict)
	_, err = frozen.Record.Recompute()
	require.NoError(t, err, "the verdict can be made again from what was frozen")

	var pointer release.Pointer
	body, err := w.store.Get(t.Context(), release.LiveKey)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &pointer))
	require.Equal(t, "cand-1", pointer.Version)
	require.Equal(t, frozen.SHA256, pointer.Evidence)
	var m release.Manifest
	body, err = w.store.Get(t.Context(), pointer.Manifest)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &m))
	require.Equal(t, "base", m.Base)
	require.Equal(t, "weights/cand-1", m.Submission.WeightsURI)
	require.NoError(t, w.pool.QueryRow(t.Context(), `select live from assignment_ruleset where experiment is null`).Scan(&live))
	require.Equal(t, "cand-1", live)

	// The next cut is five hours after the first one, and of the new version; the old one's rows are superseded.
	w.shard("cand-1", 0, 1200, 150)
	w.offset = 3000
	w.step(c, 5, 0)
	k = w.cut("cut-2")
	require.Equal(t, "cand-1", k.Base)
	require.Equal(t, cut.Balance{InShards: 180, Taken: 150, Superseded: 30}, k.Balance)

	// A person takes it back: the former one serves again, and that is published too.
	w.tx(func(tx pgx.Tx) error {
		_, err := release.Rollback(t.Context(), tx, "ann", "users complain", at(5, 10))
		return err
	})
	w.step(c, 5, 11)
	require.Equal(t, candidate.RolledBack, w.state("cand-1"))
	require.Equal(t, []string{"base", "cand-1", "base"}, w.announced)
	require.NoError(t, w.pool.QueryRow(t.Context(), `select live from assignment_ruleset`).Scan(&live))
	require.Equal(t, "base", live)
	require.Equal(t, []string{"cand-1"}, w.withdrawn(), "no session keeps it")
	history, err := release.History(t.Context(), w.pool)
	require.NoError(t, err)
	require.Len(t, history, 3)
	require.Equal(t, release.Release{Seq: 3, Action: release.ActionRollback, Version: "base", Former: "cand-1", Candidate: "cand-1", At: at(5, 10), Who: "ann", Why: "users complain", Evidence: frozen.SHA256, Published: true}, history[2])
}

// TestPartsAreTheCut: the parts hold every row once, a turn's rows together, in an order that the seed fixes.
func TestPartsAreTheCut(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.interval()
	w.step(w.control(), 0, 0)
	body, err := w.store.Get(t.Context(), w.cut("cut-1").ManifestKey)
	require.NoError(t, err)
	require.Equal(t, w.cut("cut-1").ManifestSHA256, arrowfile.SHA256(body))
	m := w.manifest("cut-1")
	require.Greater(t, len(m.Parts), 1)
	seen, order := map[string]bool{}, []string{}
	for _, p := range m.Parts {
		body, err := w.store.Get(t.Context(), p.Key)
		require.NoError(t, err)
		require.Equal(t, p.SHA256, arrowfile.SHA256(body))
		meta, rows, err := arrowfile.ReadShard(body)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("cut-1/%d", p.Number), meta.ShardID)
		require.Len(t, rows, int(p.Rows))
		for _, r := range rows {
			require.False(t, seen[r.SampleID])
			seen[r.SampleID] = true
			order = append(order, r.TurnID)
		}
	}
	require.Len(t, seen, 260)
	require.NotEqual(t, "t-base-0-0-0", order[0])
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lift  float64
		ended bool
		state candidate.State
		live  string
	}{
		"no benefit shown":            {lift: 0, ended: true, state: candidate.Held, live: "base"},
		"harm, before the end":        {lift: -.1, state: candidate.RolledBack, live: "base"},
		"a clear win, before the end": {lift: .3, state: candidate.Promoted, live: "cand-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			k := w.control()
			w.toTest(k)
			w.traffic("exp-1", c.lift)
			w.committed(at(3, 0))
			if c.ended {
				w.committed(at(4, 41))
			}
			w.step(k, 4, 42)
			require.Equal(t, c.state, w.state("cand-1"))
			require.Equal(t, c.live, w.live().Version)
			require.Equal(t, c.state != candidate.Promoted, slices.Contains(w.withdrawn(), "cand-1"), "whoever is pinned to it is served by another one")
			frozen, err := experiment.VerdictOf(t.Context(), w.pool, "cand-1")
			require.NoError(t, err)
			require.Equal(t, &gate.Arms{Control: 1990, Candidate: 1980}, frozen.Record.Evidence.UnitsWithTelemetry)
			if c.state == candidate.Held {
				w.tx(func(tx pgx.Tx) error { return PromoteHeld(t.Context(), tx, "cand-1", "ann", "we want it", at(4, 50)) })
				require.Equal(t, "cand-1", w.live().Version)
				require.Empty(t, w.withdrawn(), "it serves again")
				require.NotEmpty(t, w.live().Evidence, "the numbers that were seen are part of the record")
			}
		})
	}
}

func TestEveryMissedTimeEndsTheCandidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(w *world, k *Control)
		at     [2]int
		reason string
	}{
		"no submission": {
			before: func(w *world, k *Control) { w.interval(); w.step(k, 0, 0) },
			at:     [2]int{1, 1}, reason: "no candidate was submitted by 2026-03-01T08:00:00Z",
		},
		"submitted, but never looked at": {
			before: func(w *world, k *Control) {
				w.interval()
				w.step(k, 0, 0)
				w.submit(w.submission("cut-1", "cand-1"), at(0, 30))
			},
			at: [2]int{1, 16}, reason: "the files were not verified by 2026-03-01T08:15:00Z",
		},
		"refused and not corrected": {
			before: func(w *world, k *Control) {
				w.interval()
				w.step(k, 0, 0)
				s := w.submission("cut-1", "cand-1")
				s.Files[0].Bytes++
				w.submit(s, at(0, 30))
				w.step(k, 0, 31)
				require.Equal(w.t, candidate.Refused, w.state("cand-1"))
			},
			at: [2]int{1, 1}, reason: "refused, and not corrected: digest_mismatch: model.safetensors has 17 bytes at weights/cand-1, declared were 18 by 2026-03-01T08:00:00Z",
		},
		"no verdict": {
			before: func(w *world, k *Control) { w.toTest(k); w.committed(at(3, 0)) },
			at:     [2]int{4, 46}, reason: "no verdict (the log is committed through 2026-03-01T10:00:00Z, the test ends at 2026-03-01T11:40:00Z) by 2026-03-01T11:45:00Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			k := w.control()
			c.before(w, k)
			w.step(k, c.at[0], c.at[1])
			got, err := candidate.Get(t.Context(), w.pool, "cand-1")
			require.NoError(t, err)
			require.Equal(t, candidate.TimedOut, got.State)
			require.Equal(t, c.reason, got.Reason)
			require.Equal(t, name == "no verdict", slices.Contains(w.withdrawn(), "cand-1"), "the version is registered, and serves nobody any more")
			// The next cut comes all the same, and has the rows of the first one's shards no more.
			w.shard("base", 1, 1100, 110)
			w.offset = 3000
			w.step(k, 5, 0)
			require.EqualValues(t, 140, w.cut("cut-2").Taken)
		})
	}
}

func TestSkippedCutsSayWhy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.shard("base", 0, 0, 20)
	w.step(c, 0, 0)
	require.Equal(t, cut.Skipped, w.cut("cut-1").State)
	require.Equal(t, "20 rows of 20 units of base, at least 100 rows of 10 units are wanted; they go to the next cut", w.cut("cut-1").Reason)

	// Three slots were missed: one catch-up, whose steps count from now, and which has the rows of the skipped one.
	w.shard("base", 1, 100, 120)
	w.step(c, 16, 0)
	require.EqualValues(t, 140, w.cut("cut-2").Taken)
	require.Equal(t, at(16, 0), w.cut("cut-2").DueAt)
	_, err := cut.Get(t.Context(), w.pool, "cut-3")
	require.ErrorIs(t, err, cut.ErrNotFound)

	// A person asks for one while a candidate is on its way.
	w.exec(`update cut_schedule set asked_by = 'ann'`)
	w.step(c, 16, 30)
	require.Equal(t, "asked by ann", w.cut("cut-3").Cause)
	require.Equal(t, "cand-2 is still training, until 2026-03-02T03:45:00Z at the latest", w.cut("cut-3").Reason)
	w.step(c, 16, 31)
	_, err = cut.Get(t.Context(), w.pool, "cut-4")
	require.ErrorIs(t, err, cut.ErrNotFound)
}

func TestACutWaitsForHaltedPartitionsByName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.interval()
	w.frozen[1] = true
	w.step(c, 0, 0)
	require.Empty(t, w.cut("cut-1").Reason)
	w.exec(`insert into partition (topic, partition, halted) values ('events', 1, 'the log lost offsets 10 to 20')`)
	w.step(c, 0, 10)
	require.Equal(t, cut.Marking, w.cut("cut-1").State)
	require.Equal(t, "waits for partition 1 (halted: the log lost offsets 10 to 20)", w.cut("cut-1").Reason)
	// Too late for a candidate: nothing is taken, and the next cut has a mark and an hour of its own.
	w.step(c, 1, 1)
	require.Equal(t, cut.Skipped, w.cut("cut-1").State)
	require.Equal(t, "waits for partition 1 (halted: the log lost offsets 10 to 20); by 2026-03-01T08:00:00Z a candidate had to be submitted; its rows go to the next cut", w.cut("cut-1").Reason)
	w.step(c, 5, 0)
	w.pass("cut-1", 1) // it has resumed
	w.pass("cut-2", 1)
	w.step(c, 5, 1)
	require.Equal(t, cut.Packed, w.cut("cut-2").State)
	require.EqualValues(t, 260, w.cut("cut-2").Taken)
}

func TestACutThatIsLateButInTimeIsPacked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.interval()
	w.frozen[1] = true
	w.step(c, 0, 0)
	w.pass("cut-1", 1)
	w.step(c, 0, 59)
	require.Equal(t, cut.Packed, w.cut("cut-1").State)
	require.Equal(t, candidate.Training, w.state("cand-1"))
}

// TestATestWhoseControlIsGoneIsInvalid: a person rolled live back while the candidate was tested against it.
func TestATestWhoseControlIsGoneIsInvalid(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.toTest(c)
	w.traffic("exp-1", .3)
	w.committed(at(4, 40))
	w.step(c, 4, 41)
	require.Equal(t, "cand-1", w.live().Version)
	w.shard("cand-1", 0, 1200, 150)
	w.offset = 3000
	w.step(c, 5, 0)
	w.submit(w.submission("cut-2", "cand-2"), at(5, 30))
	w.step(c, 6, 15)
	require.Equal(t, candidate.Testing, w.state("cand-2"))
	w.tx(func(tx pgx.Tx) error {
		_, err := release.Rollback(t.Context(), tx, "ann", "users complain", at(6, 20))
		return err
	})
	w.step(c, 6, 21)
	require.Equal(t, candidate.Invalid, w.state("cand-2"))
	require.Equal(t, []string{"cand-1", "cand-2"}, w.withdrawn())
}

// TestALogThatIsAway: nothing is lost, nothing is done twice, and the pass says what failed.
func TestALogThatIsAway(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.control()
	w.step(c, -1, 0)
	w.interval()
	w.broken = errors.New("no broker")
	err := c.Step(t.Context(), at(0, 0))
	require.ErrorContains(t, err, "mark cut-1 in the log: no broker")
	w.broken = nil
	w.step(c, 0, 1)
	require.Equal(t, cut.Packed, w.cut("cut-1").State)
}

// TestALogThatHangsHoldsUpNoRollback: what a person takes back is in live.json, although a configuration waits for a
// log that doesn't answer.
func TestALogThatHangsHoldsUpNoRollback(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stepFor time.Duration
		lead    func(ctx context.Context, w *world, c *Control)
	}{
		"in one pass": {2 * time.Second, func(_ context.Context, w *world, c *Control) {
			require.ErrorIs(w.t, c.Step(w.t.Context(), at(5, 0)), context.DeadlineExceeded)
			require.Equal(w.t, "base", w.cut("cut-2").Base, "and the other parts went on")
		}},
		"in real time": {time.Hour, func(ctx context.Context, w *world, c *Control) { require.NoError(w.t, c.Run(ctx)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			k := w.control()
			w.toTest(k)
			w.traffic("exp-1", .3)
			w.committed(at(4, 40))
			w.step(k, 4, 41)
			w.tx(func(tx pgx.Tx) error {
				_, err := release.Rollback(t.Context(), tx, "ann", "users complain", at(4, 50))
				return err
			})
			w.exec(`update config set written_at = null`)
			w.exec(`update leader set lease_until = '-infinity'`)
			deps := w.deps()
			hangs := func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}
			deps.WriteControl = func(ctx context.Context, _ *event.ControlRecord) error { return hangs(ctx) }
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			announced := 0
			deps.Announce = func(context.Context, string, []byte) error {
				announced++
				stop() // it comes after the pointer
				return nil
			}
			w.cfg.StepFor = c.stepFor
			k, err := New(w.cfg, deps)
			require.NoError(t, err)
			c.lead(ctx, w, k)
			require.Equal(t, 1, announced)
			var pointer release.Pointer
			body, err := w.store.Get(t.Context(), release.LiveKey)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(body, &pointer))
			require.Equal(t, "base", pointer.Version)
		})
	}
}

// TestOnlyTheLeaderWrites: a process that stood still while another took over can't write any more.
func TestOnlyTheLeaderWrites(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.interval()
	first := w.control()
	w.step(first, -1, 0)
	w.cfg.Owner = "there"
	second := w.control()
	w.step(second, 0, 0)
	_, err := cut.Get(t.Context(), w.pool, "cut-1")
	require.ErrorIs(t, err, cut.ErrNotFound, "the first one leads, the second one stands by")
	w.exec(`update leader set lease_until = now() - interval '1 s'`)
	w.step(second, 0, 0)
	require.Equal(t, cut.Packed, w.cut("cut-1").State)
	_, err = first.moveCandidate(t.Context(), at(1, 1))
	require.ErrorIs(t, err, postgres.ErrFenced)
	require.Equal(t, candidate.Training, w.state("cand-1"))
}

// TestRun: in real time the loop begins by itself, and gives its leadership back at the end.
func TestRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	published := make(chan string, 1)
	deps := w.deps()
	deps.Announce = func(_ context.Context, version string, _ []byte) error {
		published <- version
		return nil
	}
	c, err := New(w.cfg, deps)
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	require.Equal(t, "base", <-published)
	stop()
	require.NoError(t, <-done)
	_, leads, err := postgres.Elect(t.Context(), w.pool, Leader, "there", time.Minute)
	require.NoError(t, err)
	require.True(t, leads)
}

// TestADamagedShardIsNeverPacked: its bytes are held against what was committed before they are parsed.
func TestADamagedShardIsNeverPacked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.interval()
	keys, err := w.store.List(t.Context(), "staging/events-1-100")
	require.NoError(t, err)
	whole, err := w.store.Get(t.Context(), keys[0])
	require.NoError(t, err)
	damaged := slices.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	require.NoError(t, w.store.Replace(t.Context(), keys[0], damaged))
	c := w.control()
	require.ErrorContains(t, c.Step(t.Context(), at(0, 0)), "is damaged")
	require.Equal(t, cut.Complete, w.cut("cut-1").State)
	require.Contains(t, w.cut("cut-1").Reason, "is damaged", "the report says what the loop is at")
	require.NoError(t, w.store.Replace(t.Context(), keys[0], whole))
	w.step(c, 0, 5)
	require.Equal(t, cut.Packed, w.cut("cut-1").State)
}

// TestLittleMemoryGivesTheSameParts: a cut that does not fit into memory is packed in several readings.
func TestLittleMemoryGivesTheSameParts(t *testing.T) {
	t.Parallel()
	var sums []string
	for _, memory := range []int64{1 << 30, 1 << 13} {
		w := setup(t)
		w.cfg.Cut.PartBytes, w.cfg.Cut.MemoryBytes = 1<<13, memory
		w.interval()
		w.step(w.control(), 0, 0)
		sums = append(sums, w.cut("cut-1").ManifestSHA256)
	}
	require.Equal(t, sums[0], sums[1])
}

// TestNobodyOwnsACut: what a unit has beyond its share is counted as capped.
func TestNobodyOwnsACut(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.Cut.UnitRows, w.cfg.Cut.UnitShare = 2, .001
	w.interval() // units 0…59 have three rows each, 60…79 two, the others one
	w.step(w.control(), 0, 0)
	require.Equal(t, cut.Balance{InShards: 267, Taken: 200, Stale: 7, Capped: 60}, w.cut("cut-1").Balance)
}

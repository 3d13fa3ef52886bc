package checkpoint

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/experiment"
	"millrace/checkpoint/release"
	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/event"
	"millrace/schemas/sample"
)

// start is when the first cut is due.
var start = time.Date(2026, 3, 1, 7, 0, 0, 0, time.UTC)

// at is a time of the first cycle.
func at(hours, minutes int) time.Time {
	return start.Add(time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute)
}

// world stands for everything around the role: the workers that commit, the trainer, the traffic of a test.
type world struct {
	t         *testing.T
	pool      *pgxpool.Pool
	store     *objstore.Folder
	cfg       Config
	mu        sync.Mutex
	controls  []*event.ControlRecord // that stand in the log
	announced []string
	offset    int64        // of the next mark
	frozen    map[int]bool // partitions that don't commit
	broken    error        // what the log answers
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, pool: postgrestest.New(t), cfg: DefaultConfig(), offset: 1000, frozen: map[int]bool{}}
	var err error
	w.store, err = objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	w.cfg.Topic, w.cfg.Partitions, w.cfg.Owner, w.cfg.Anchor = "events", 2, "here", start
	w.cfg.Cut.MinRows, w.cfg.Cut.MinUnits, w.cfg.Cut.PartBytes = 100, 10, 1<<16
	w.tx(func(tx pgx.Tx) error { return release.Init(t.Context(), tx, "base", "me", at(-1, 0)) })
	w.tx(func(tx pgx.Tx) error {
		return experiment.Propose(t.Context(), tx, at(-1, 0), "first", func(c *event.ConfigAdopted) error {
			c.RewardSpecDigest, c.RewardSpecName = "digest", "composer@1"
			return nil
		})
	})
	return w
}

func (w *world) tx(fn func(pgx.Tx) error) {
	w.t.Helper()
	require.NoError(w.t, postgres.InTx(w.t.Context(), w.pool, fn))
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

func (w *world) deps() Deps {
	return Deps{DB: w.pool, Store: w.store, WriteControl: w.write, Announce: w.announce, Log: slog.New(slog.DiscardHandler)}
}

func (w *world) control() *Control {
	w.t.Helper()
	c, err := New(w.cfg, w.deps())
	require.NoError(w.t, err)
	return c
}

// write puts the record into the log, and lets the workers commit past a mark.
func (w *world) write(ctx context.Context, r *event.ControlRecord) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	w.controls = append(w.controls, r)
	if mark := r.GetCutMarked(); mark != nil {
		for p := range w.cfg.Partitions {
			if !w.frozen[p] {
				w.pass(mark.Cut, p)
			}
		}
	}
	return nil
}

func (w *world) pass(cut string, partition int) {
	w.exec(`insert into cut_mark (cut, topic, partition, "offset") values ($1, 'events', $2, $3) on conflict do nothing`, cut, partition, w.offset)
}

func (w *world) announce(_ context.Context, version string, _ []byte) error {
	w.announced = append(w.announced, version)
	return nil
}

// committed moves the log time of all partitions on.
func (w *world) committed(through time.Time) {
	w.t.Helper()
	w.exec(`insert into partition (topic, partition, log_time) select 'events', p, $1 from generate_series(0, 1) p
		on conflict (topic, partition) do update set log_time = excluded.log_time`, through)
}

// shard commits a shard of so many turns of a version, each of another unit, before the next mark.
func (w *world) shard(version string, partition int, first int64, turns int) {
	w.t.Helper()
	rows := make([]sample.Row, turns)
	for i := range rows {
		ids, logprobs := make([]byte, 16), make([]byte, 16)
		binary.LittleEndian.PutUint32(ids[4:], uint32(i))
		binary.LittleEndian.PutUint32(logprobs[8:], math.Float32bits(-.5))
		id := fmt.Sprintf("%s-%d-%d-%d", version, partition, first, i)
		rows[i] = sample.Row{
			SampleID: id, SessionID: "s-" + id, TurnID: "t-" + id, BranchesInTurn: 1, Origin: "live", InputIDs: ids, PromptLength: 2,
			LossMask: []uint8{0, 0, 1, 0}, BehaviorLogprobs: logprobs, PolicyVersion: version, PolicyOrdinal: -1, UnitHash: fmt.Sprintf("unit-%d", i),
			Reward: float64(i), Outcome: "completed", RewardSpec: "composer@1", TokenizerDigest: "tok", SettledAt: start,
			Steps: []sample.Step{{Start: 2, End: 3, StopReason: "stop"}},
		}
	}
	id := fmt.Sprintf("events-%d-%d-%d-%s", partition, first, first+99, version)
	body, err := arrowfile.WriteShard(arrowfile.ShardMeta{ShardID: id, PolicyVersion: version, RewardSpec: "composer@1", Topic: "events", Partition: int32(partition), FirstOffset: first, LastOffset: first + 99}, rows, "lz4")
	require.NoError(w.t, err)
	key := "staging/" + id + ".arrow"
	require.NoError(w.t, w.store.PutIfAbsent(w.t.Context(), key, body))
	w.exec(`insert into shard (id, kind, topic, partition, first_offset, last_offset, policy_version, key, bytes, sha256, rows, trained_tokens, reward_spec, log_time)
		values ($1, 'sample', 'events', $2, $3, $4, $5, $6, $7, $8, $9, $9, 'composer@1', $10)`,
		id, partition, first, first+99, version, key, len(body), arrowfile.SHA256(body), turns, start)
}

// interval commits what one interval brings: rows of the base, of a stale version, and of later than the mark.
func (w *world) interval() {
	w.t.Helper()
	w.shard("base", 0, 0, 120)
	w.shard("base", 1, 0, 80)
	w.shard("base", 1, 100, 60)
	w.shard("odd", 0, 200, 7)
	w.shard("base", 0, 1001, 30) // after the mark
}

// manifest reads a cut's manifest, which has to add up.
func (w *world) manifest(cutID string) (m cut.Manifest) {
	w.t.Helper()
	body, err := w.store.Get(w.t.Context(), cut.ManifestKey(cutID))
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(body, &m))
	require.NoError(w.t, m.Check())
	rows := int64(0)
	for _, p := range m.Parts {
		rows += p.Rows
	}
	require.Equal(w.t, m.Taken, rows)
	return m
}

// submission is what a trainer hands in that read the whole cut.
func (w *world) submission(cutID, version string) *candidate.Submission {
	w.t.Helper()
	m := w.manifest(cutID)
	weights := []byte("weights of " + version)
	require.NoError(w.t, w.store.PutIfAbsent(w.t.Context(), "weights/"+version+"/model.safetensors", weights))
	s := &candidate.Submission{
		Cut: cutID, Version: version, Base: m.Base, WeightsURI: "weights/" + version, Format: candidate.Safetensors, Run: "run-1", Step: 7,
		Files:       []candidate.File{{Path: "model.safetensors", SHA256: arrowfile.SHA256(weights), Bytes: int64(len(weights))}},
		RowsTrained: m.Taken, TokenizerDigest: m.TokenizerDigest,
	}
	for _, p := range m.Parts {
		s.Shards = append(s.Shards, fmt.Sprintf("%s/%d", cutID, p.Number))
	}
	s.RootDigest = candidate.RootDigest(s.Files)
	return s
}

func (w *world) submit(s *candidate.Submission, now time.Time) {
	w.t.Helper()
	w.tx(func(tx pgx.Tx) error {
		_, err := candidate.Submit(w.t.Context(), tx, s, "trainer", now)
		return err
	})
}

// traffic brings the sums of a test in which the candidate keeps more edits by lift.
func (w *world) traffic(experiment string, lift float64) {
	w.t.Helper()
	w.exec(`delete from metric_sum where experiment = $1`, experiment)
	for _, arm := range []string{"control", "candidate"} {
		gain := 0.0
		if arm == "candidate" {
			gain = lift
		}
		for metric, mean := range map[string]float64{
			"kept_edits": .6 * (1 + gain), "edit_rate": .8, "latency": 2, "slow_turns": .05, "malformed_calls": .02, "questions": .1, "aborts": .06,
			"dissatisfied": .05, "tokens": 900, "incomplete": .001, "faulted": .01, "censored": .02,
		} {
			w.exec(`insert into metric_sum (experiment, metric, arm, bucket, num, den)
				select $1, $2, $3, b, ($4::float8 * 4e6 * (1 + .05 * sin(b * 7.0 + length($3))))::bigint, 4000000 from generate_series(0, 1999) b`, experiment, metric, arm, mean)
		}
		w.exec(`insert into exposed_unit (experiment, unit_hash, arm) select $1, $2 || b, $2 from generate_series(0, 1999) b on conflict do nothing`, experiment, arm)
		w.exec(`insert into settled_unit (experiment, unit_hash, arm) select experiment, unit_hash, arm from exposed_unit
			where experiment = $1 and arm = $2 and ltrim(unit_hash, arm)::int >= case arm when 'control' then 10 else 20 end on conflict do nothing`, experiment, arm)
	}
}

func (w *world) state(id string) candidate.State {
	w.t.Helper()
	c, err := candidate.Get(w.t.Context(), w.pool, id)
	require.NoError(w.t, err)
	return c.State
}

func (w *world) cut(id string) *cut.Cut {
	w.t.Helper()
	k, err := cut.Get(w.t.Context(), w.pool, id)
	require.NoError(w.t, err)
	return k
}

// withdrawn are the versions that assignment keeps no session on.
func (w *world) withdrawn() (versions []string) {
	w.t.Helper()
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `select withdrawn from assignment_ruleset`).Scan(&versions))
	return versions
}

func (w *world) live() *release.Release {
	w.t.Helper()
	r, err := release.Live(w.t.Context(), w.pool)
	require.NoError(w.t, err)
	return r
}

// whole is everything that the role has stored, as text, to compare two worlds.
func (w *world) whole() string {
	w.t.Helper()
	var b strings.Builder
	for _, sql := range []string{
		`select to_jsonb(x) from cut x order by number`,
		`select to_jsonb(x) from cut_shard x order by shard`,
		`select to_jsonb(x) from cut_part x order by cut, number`,
		`select to_jsonb(x) from cut_schedule x`,
		`select to_jsonb(x) from policy_version x order by ordinal`,
		`select to_jsonb(x) from candidate x order by id`,
		`select to_jsonb(x) from candidate_event x order by candidate, seq`,
		`select to_jsonb(x) from experiment x order by id`,
		`select to_jsonb(x) from verdict x order by candidate`,
		`select to_jsonb(x) from release x order by seq`,
		`select to_jsonb(x) from publication x order by release`,
		`select to_jsonb(x) from live x`,
		`select jsonb_build_object('seq', seq, 'why', why, 'written', written_at is not null) from config x order by seq`,
	} {
		rows, err := w.pool.Query(w.t.Context(), sql)
		require.NoError(w.t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
		require.NoError(w.t, err)
		for _, line := range lines {
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	keys, err := w.store.List(w.t.Context(), "")
	require.NoError(w.t, err)
	for _, key := range keys {
		body, err := w.store.Get(w.t.Context(), key)
		require.NoError(w.t, err)
		fmt.Fprintln(&b, key, arrowfile.SHA256(body))
	}
	return b.String()
}

// goOnWithout is a person's decision.
func (w *world) goOnWithout(id string, partition int) {
	w.t.Helper()
	w.tx(func(tx pgx.Tx) error {
		return cut.GoOnWithout(w.t.Context(), tx, id, cut.Absence{Partition: partition, Who: "ann", Why: "its disk is gone", At: start})
	})
}

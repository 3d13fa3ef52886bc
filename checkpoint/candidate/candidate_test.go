package candidate

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// setup has one packed cut of 100 rows on version "base", and its candidate.
func setup(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := postgrestest.New(t)
	inTx(t, pool, func(tx pgx.Tx) error {
		ctx := t.Context()
		if err := Register(ctx, tx, "base", "", noon); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			insert into cut (id, number, due_at, cause, base, topic, partitions, seed, state, manifest_key, manifest_sha256, rows_in_shards, rows_taken, tokenizer_digest)
			values ('cut-1', 1, $1, 'schedule', 'base', 'events', 1, 's', 'packed', 'k', 'd', 100, 100, 'tok')`, noon)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `insert into cut_part (cut, number, key, sha256, bytes, rows, tokens) values ('cut-1', 0, 'p', 'd', 1, 100, 1)`)
		if err != nil {
			return err
		}
		return Open(ctx, tx, "cand-1", "cut-1", "base", noon, Ladder{
			SubmitBy: noon.Add(time.Hour), EvalsBy: noon.Add(75 * time.Minute), StartsAt: noon.Add(75 * time.Minute),
			EndsAt: noon.Add(280 * time.Minute), VerdictBy: noon.Add(285 * time.Minute),
		})
	})
	return pool
}

func inTx(t *testing.T, pool *pgxpool.Pool, fn func(pgx.Tx) error) {
	t.Helper()
	require.NoError(t, postgres.InTx(t.Context(), pool, fn))
}

func good() *Submission {
	s := &Submission{
		Cut: "cut-1", Version: "cand-1", Base: "base", WeightsURI: "weights/cand-1", Format: Safetensors, Run: "run", Step: 10,
		Files:  []File{{Path: "b.safetensors", SHA256: strings.Repeat("b", 64), Bytes: 2}, {Path: "a.json", SHA256: strings.Repeat("a", 64), Bytes: 1}},
		Shards: []string{"cut-1/0"}, RowsTrained: 90, RowsDropped: []Drop{{Reason: "too long", Disposition: "filtered", Rows: 10}}, TokenizerDigest: "tok",
	}
	s.RootDigest = RootDigest(s.Files)
	return s
}

func submit(ctx context.Context, pool *pgxpool.Pool, s *Submission, now time.Time) (c *Candidate, err error) {
	err = postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		c, err = Submit(ctx, tx, s, "trainer", now)
		return err
	})
	return c, err
}

// TestTransitionsAreTheDatabases: the table in Go and the CHECK are the same pairs.
func TestTransitionsAreTheDatabases(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	var check string
	require.NoError(t, pool.QueryRow(t.Context(), `select pg_get_constraintdef(oid) from pg_constraint where conname = 'candidate_event_transition'`).Scan(&check))
	var here, there []string
	for from, tos := range transitions {
		for _, to := range tos {
			here = append(here, string(from)+">"+string(to))
		}
	}
	for _, m := range regexp.MustCompile(`'([a-z_]*>[a-z_]+)'`).FindAllStringSubmatch(check, -1) {
		there = append(there, m[1])
	}
	slices.Sort(here)
	slices.Sort(there)
	require.Equal(t, here, there)
}

func TestEventsAreAFoldThatTheDatabaseKeeps(t *testing.T) {
	t.Parallel()
	pool, ctx := setup(t), t.Context()
	_, err := pool.Exec(ctx, `update candidate_event set who = 'me'`)
	require.ErrorContains(t, err, "append-only")
	_, err = pool.Exec(ctx, `delete from candidate_event`)
	require.ErrorContains(t, err, "append-only")
	_, err = pool.Exec(ctx, `insert into candidate_event (candidate, seq, from_state, state, at, who) values ('cand-1', 2, 'verified', 'evaluating', now(), 'me')`)
	require.Error(t, err, "the candidate is not verified")
	_, err = pool.Exec(ctx, `insert into candidate_event (candidate, seq, from_state, state, at, who) values ('cand-1', 2, 'training', 'promoted', now(), 'me')`)
	require.ErrorContains(t, err, "candidate_event_transition")

	var wrong *TransitionError
	err = postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		return Append(ctx, tx, "cand-1", Promoted, noon, Millrace, "", nil)
	})
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, "candidate cand-1 is training and can't become promoted")
}

func TestSubmitIsIdempotent(t *testing.T) {
	t.Parallel()
	pool, ctx := setup(t), t.Context()
	first, err := submit(ctx, pool, good(), noon.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, Submitted, first.State)
	require.Equal(t, "cand-1", first.Version)
	require.Equal(t, good(), first.Submission)
	again, err := submit(ctx, pool, good(), noon.Add(2*time.Hour))
	require.NoError(t, err, "the same again is the same, even late")
	require.Equal(t, first, again)
	byVersion, err := Get(ctx, pool, "cand-1")
	require.NoError(t, err)
	require.Equal(t, first, byVersion)
	_, err = Get(ctx, pool, "nobody")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	pool, ctx := setup(t), t.Context()
	in := noon.Add(time.Minute)
	for _, c := range []struct {
		code   Code
		field  string
		late   bool
		change func(*Submission)
	}{
		{Malformed, "version", false, func(s *Submission) { s.Version = "a/../b" }},
		{Malformed, "run", false, func(s *Submission) { s.Run = "" }},
		{Malformed, "weights_uri", false, func(s *Submission) { s.WeightsURI = "s3://key:secret@bucket/weights" }},
		{Malformed, "weights_uri", false, func(s *Submission) { s.WeightsURI = "s3://bucket/weights?endpoint=http://169.254.169.254" }},
		{Malformed, "format", false, func(s *Submission) { s.Format = "zip" }},
		{Malformed, "files", false, func(s *Submission) { s.Files = nil }},
		{Malformed, "files[0].path", false, func(s *Submission) { s.Files[0].Path = "../x" }},
		{Malformed, "files[1].path", false, func(s *Submission) { s.Files[1].Path = s.Files[0].Path }},
		{Malformed, "files[1].sha256", false, func(s *Submission) { s.Files[1].SHA256 = "abc" }},
		{UnknownCut, "cut", false, func(s *Submission) { s.Cut = "cut-9" }},
		{WrongBase, "base", false, func(s *Submission) { s.Base = "other" }},
		{DigestMismatch, "root_digest", false, func(s *Submission) { s.Files[0].SHA256 = strings.Repeat("c", 64) }},
		{ChangedTokenizer, "tokenizer_digest", false, func(s *Submission) { s.TokenizerDigest = "new" }},
		{ForeignShard, "shards_consumed[0]", false, func(s *Submission) { s.Shards[0] = "cut-1/1" }},
		{UndeclaredDrop, "rows_dropped", false, func(s *Submission) { s.RowsTrained-- }},
		{UndeclaredDrop, "rows_dropped[0]", false, func(s *Submission) { s.RowsDropped[0].Reason = "" }},
		{RowsDoNotAddUp, "rows_trained", false, func(s *Submission) { s.RowsTrained++ }},
		{VersionExists, "version", false, func(s *Submission) { s.Version = "base" }},
		{CandidateClosed, "cut", true, func(*Submission) {}},
	} {
		t.Run(string(c.code)+" "+c.field, func(t *testing.T) {
			s, now := good(), in
			c.change(s)
			if c.late {
				now = noon.Add(61 * time.Minute)
			}
			_, err := submit(ctx, pool, s, now)
			var refusal *Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, c.code, refusal.Code, refusal.Message)
			require.Equal(t, c.field, refusal.Field)
		})
	}
	got, err := Get(ctx, pool, "cand-1")
	require.NoError(t, err)
	require.Equal(t, Training, got.State, "a refusal leaves no trace")

	_, err = submit(ctx, pool, good(), in)
	require.NoError(t, err)
	other := good()
	other.Step++
	_, err = submit(ctx, pool, other, in)
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, OtherContent, refusal.Code)
}

// TestRefusedMayBeCorrected: files that were not what was declared don't cost the cycle.
func TestRefusedMayBeCorrected(t *testing.T) {
	t.Parallel()
	pool, ctx := setup(t), t.Context()
	_, err := submit(ctx, pool, good(), noon)
	require.NoError(t, err)
	inTx(t, pool, func(tx pgx.Tx) error {
		return Append(ctx, tx, "cand-1", Refused, noon, Millrace, "digest_mismatch", nil)
	})
	better := good()
	better.Version = "cand-1b"
	c, err := submit(ctx, pool, better, noon.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, Submitted, c.State)
	require.Equal(t, "cand-1b", c.Version)
	require.Len(t, c.Events, 4)
}

// TestOnlyOneOfManySubmissionsIsTaken: trainers that race with other content get one winner.
func TestOnlyOneOfManySubmissionsIsTaken(t *testing.T) {
	t.Parallel()
	pool, ctx := setup(t), t.Context()
	results := make(chan error)
	for i := range 8 {
		go func() {
			s := good()
			s.Step = int64(i)
			_, err := submit(ctx, pool, s, noon)
			results <- err
		}()
	}
	taken := 0
	for range 8 {
		var refusal *Refusal
		if err := <-results; err == nil {
			taken++
		} else {
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, OtherContent, refusal.Code)
		}
	}
	require.Equal(t, 1, taken)
}

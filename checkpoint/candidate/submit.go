package candidate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Submit takes a trainer's submission for a packed cut. It is idempotent: the same content again gives the same
// candidate. Everything that is wrong with it is a *Refusal, and then nothing is stored. The files themselves are
// checked later, by the loop (Verify). The candidate's lock makes two submissions for one cut follow each other.
func Submit(ctx context.Context, tx pgx.Tx, s *Submission, who string, now time.Time) (*Candidate, error) {
	if r := wellFormed(s); r != nil {
		return nil, r
	}
	cut, err := cutOf(ctx, tx, s.Cut)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `select 1 from candidate where cut = $1 for update`, s.Cut); err != nil {
		return nil, fmt.Errorf("lock the candidate of %s: %w", s.Cut, err)
	}
	c, err := OfCut(ctx, tx, s.Cut) // a packed cut has one
	if err != nil {
		return nil, err
	}
	if c.Submission != nil && c.State != Refused {
		if same(c.Submission, s) {
			return c, nil
		}
		return nil, refuse(OtherContent, "cut", "%s already has a submission with other content (%s, version %s, %s): one cut, one candidate", s.Cut, c.ID, c.Version, c.State)
	}
	if !c.State.May(Submitted) || now.After(c.Ladder.SubmitBy) {
		return nil, refuse(CandidateClosed, "cut", "the time to submit for %s was over at %s (%s is %s); train on the next cut", s.Cut, c.Ladder.SubmitBy.Format(time.RFC3339), c.ID, c.State)
	}
	if r := Check(s, cut); r != nil {
		return nil, r
	}
	var taken bool
	err = tx.QueryRow(ctx, `select exists (select from policy_version where version = $1)`, s.Version).Scan(&taken)
	if err != nil {
		return nil, fmt.Errorf("look for version %s: %w", s.Version, err)
	}
	if taken {
		return nil, refuse(VersionExists, "version", "there is already a checkpoint %q: give each its own name", s.Version)
	}
	if err := Append(ctx, tx, c.ID, Submitted, now, who, "", s); err != nil {
		return nil, err
	}
	return Get(ctx, tx, c.ID)
}

func cutOf(ctx context.Context, tx pgx.Tx, id string) (Cut, error) {
	c := Cut{ID: id}
	err := tx.QueryRow(ctx, `
		select base, rows_taken, tokenizer_digest, chat_template_digest,
			(select count(*) from cut_part where cut = cut.id),
			array(select shard from cut_shard where cut = cut.id and fate = 'taken' order by shard)
		from cut where id = $1 and state = 'packed'`, id).
		Scan(&c.Base, &c.Rows, &c.TokenizerDigest, &c.ChatTemplateDigest, &c.Parts, &c.Shards)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, refuse(UnknownCut, "cut", "there is no packed cut %q; `millrace cut list` names them", id)
	}
	if err != nil {
		return c, fmt.Errorf("read cut %s: %w", id, err)
	}
	return c, nil
}

// Register gives a version its ordinal: the count that trainers want as an integer. candidate is "" for the version
// that `release init` names. A *Refusal if the name belongs to another checkpoint.
func Register(ctx context.Context, tx pgx.Tx, version, candidate string, now time.Time) error {
	_, err := tx.Exec(ctx, `
		insert into policy_version (version, ordinal, candidate, registered_at)
		values ($1, (select coalesce(max(ordinal), 0) + 1 from policy_version), nullif($2, ''), $3)
		on conflict (version) do nothing`, version, candidate, now.UTC())
	if err != nil {
		return fmt.Errorf("register version %s: %w", version, err)
	}
	var owner string
	err = tx.QueryRow(ctx, `select coalesce(candidate, '') from policy_version where version = $1`, version).Scan(&owner)
	if err != nil {
		return fmt.Errorf("register version %s: %w", version, err)
	}
	if owner != candidate {
		return refuse(VersionExists, "version", "there is already a checkpoint %q: give each its own name", version)
	}
	return nil
}

// Ordinals are the ordinals of all registered versions.
func Ordinals(ctx context.Context, q querier) (map[string]int64, error) {
	rows, err := q.Query(ctx, `select version, ordinal from policy_version`)
	if err != nil {
		return nil, fmt.Errorf("read the policy versions: %w", err)
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var (
			version string
			ordinal int64
		)
		if err := rows.Scan(&version, &ordinal); err != nil {
			return nil, fmt.Errorf("read the policy versions: %w", err)
		}
		out[version] = ordinal
	}
	return out, rows.Err()
}

package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/candidate"
)

// Action is what moved the pointer.
type Action string

// The actions.
const (
	ActionInit     Action = "init"     // the first checkpoint was named
	ActionPromote  Action = "promote"  // a candidate became live
	ActionRollback Action = "rollback" // the former one became live again
)

// Release is one move of the live pointer.
type Release struct {
	Seq       int64     `json:"release"`
	Action    Action    `json:"action"`
	Version   string    `json:"version"` // live from now on
	Former    string    `json:"former,omitempty"`
	Candidate string    `json:"candidate,omitempty"` // what was promoted or rolled back
	At        time.Time `json:"at"`
	Who       string    `json:"who"`
	Why       string    `json:"why"`
	Evidence  string    `json:"evidence,omitempty"` // SHA-256 of the verdict
	Published bool      `json:"published"`
}

// What callers tell apart.
var (
	ErrNoLive       = errors.New("no checkpoint is live yet: name the one that serves now with `millrace release init VERSION`")
	ErrLiveExists   = errors.New("a checkpoint is live already")
	ErrNothingToUse = errors.New("there is nothing to go back to")
	ErrOtherBase    = errors.New("the candidate was tested against another checkpoint than the live one")
)

// Database is a pool, or a transaction.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Live reads what is live; ErrNoLive before `release init`.
func Live(ctx context.Context, db Database) (*Release, error) {
	return one(ctx, db, `where r.seq = (select release from live)`)
}

// History reads every move of the pointer, oldest first.
func History(ctx context.Context, db Database) ([]Release, error) {
	rows, err := db.Query(ctx, selectReleases+`order by r.seq`)
	if err != nil {
		return nil, fmt.Errorf("read the history of releases: %w", err)
	}
	out, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read the history of releases: %w", err)
	}
	return out, nil
}

const selectReleases = `
	select r.seq, r.action, r.version, coalesce(r.former, ''), coalesce(r.candidate, ''), r.at, r.who, r.why, r.evidence, p.release is not null
	from release r left join publication p on p.release = r.seq `

func scan(row pgx.CollectableRow) (Release, error) {
	var r Release
	err := row.Scan(&r.Seq, &r.Action, &r.Version, &r.Former, &r.Candidate, &r.At, &r.Who, &r.Why, &r.Evidence, &r.Published)
	r.At = r.At.UTC()
	return r, err
}

func one(ctx context.Context, db Database, where string, args ...any) (*Release, error) {
	rows, err := db.Query(ctx, selectReleases+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read what is live: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoLive
	}
	if err != nil {
		return nil, fmt.Errorf("read what is live: %w", err)
	}
	return &r, nil
}

// lock makes moves of the pointer follow each other, and reads what is live.
func lock(ctx context.Context, tx pgx.Tx) (*Release, error) {
	if _, err := tx.Exec(ctx, `lock table release in share row exclusive mode`); err != nil {
		return nil, fmt.Errorf("lock the live pointer: %w", err)
	}
	return Live(ctx, tx)
}

// Init names the checkpoint that serves when Millrace is set up. The same version again changes nothing; another one
// is ErrLiveExists.
func Init(ctx context.Context, tx pgx.Tx, version, who string, now time.Time) error {
	live, err := lock(ctx, tx)
	switch {
	case err == nil && live.Version == version:
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s since %s; a candidate replaces it, or `millrace release promote`", ErrLiveExists, live.Version, live.At.Format(time.RFC3339))
	case !errors.Is(err, ErrNoLive):
		return err
	}
	if err := candidate.Register(ctx, tx, version, "", now); err != nil {
		return err
	}
	return move(ctx, tx, Release{Action: ActionInit, Version: version, At: now, Who: who, Why: "the checkpoint that served before"})
}

// Promote makes a candidate live: the pointer, its history, the candidate's state and its predecessor's. evidence is
// the verdict's digest.
func Promote(ctx context.Context, tx pgx.Tx, c *candidate.Candidate, evidence, who, why string, now time.Time) error {
	live, err := lock(ctx, tx)
	if err != nil {
		return err
	}
	if live.Version != c.Base {
		return fmt.Errorf("%w: %s was made from %s, live is %s", ErrOtherBase, c.ID, c.Base, live.Version)
	}
	if err := candidate.Append(ctx, tx, c.ID, candidate.Promoted, now, who, why, nil); err != nil {
		return err
	}
	if err := follow(ctx, tx, live.Version, candidate.Superseded, now, who, c.ID+" was promoted"); err != nil {
		return err
	}
	return move(ctx, tx, Release{Action: ActionPromote, Version: c.Version, Former: live.Version, Candidate: c.ID, At: now, Who: who, Why: why, Evidence: evidence})
}

// Rollback makes the version live again that was live before the present one was promoted.
func Rollback(ctx context.Context, tx pgx.Tx, who, why string, now time.Time) (*Release, error) {
	live, err := lock(ctx, tx)
	if err != nil {
		return nil, err
	}
	promoted, err := one(ctx, tx, `where r.action = 'promote' and r.version = $1 order by r.seq desc limit 1`, live.Version)
	if errors.Is(err, ErrNoLive) {
		return nil, fmt.Errorf("%w: %s was the first checkpoint", ErrNothingToUse, live.Version)
	}
	if err != nil {
		return nil, err
	}
	if err := candidate.Append(ctx, tx, promoted.Candidate, candidate.RolledBack, now, who, why, nil); err != nil {
		return nil, err
	}
	if err := follow(ctx, tx, promoted.Former, candidate.Promoted, now, who, promoted.Candidate+" was rolled back"); err != nil {
		return nil, err
	}
	err = move(ctx, tx, Release{Action: ActionRollback, Version: promoted.Former, Former: live.Version, Candidate: promoted.Candidate, At: now, Who: who, Why: why, Evidence: promoted.Evidence})
	if err != nil {
		return nil, err
	}
	return Live(ctx, tx)
}

// follow moves on the candidate of a version, if it came from one.
func follow(ctx context.Context, tx pgx.Tx, version string, to candidate.State, now time.Time, who, why string) error {
	var id *string
	if err := tx.QueryRow(ctx, `select candidate from policy_version where version = $1`, version).Scan(&id); err != nil {
		return fmt.Errorf("find the candidate of %s: %w", version, err)
	}
	if id == nil {
		return nil
	}
	return candidate.Append(ctx, tx, *id, to, now, who, why, nil)
}

func move(ctx context.Context, tx pgx.Tx, r Release) error {
	err := tx.QueryRow(ctx, `
		insert into release (seq, action, version, former, candidate, at, who, why, evidence)
		values ((select coalesce(max(seq), 0) + 1 from release), $1, $2, nullif($3, ''), nullif($4, ''), $5, $6, $7, $8) returning seq`,
		r.Action, r.Version, r.Former, r.Candidate, r.At.UTC(), r.Who, r.Why, r.Evidence).Scan(&r.Seq)
	if err != nil {
		return fmt.Errorf("append to the history of releases: %w", err)
	}
	_, err = tx.Exec(ctx, `
		insert into live (version, release, since) values ($1, $2, $3)
		on conflict (singleton) do update set version = excluded.version, release = excluded.release, since = excluded.since`,
		r.Version, r.Seq, r.At.UTC())
	if err != nil {
		return fmt.Errorf("move the live pointer to %s: %w", r.Version, err)
	}
	return nil
}

package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/internal/arrowfile"
	"millrace/schemas/event"
	"millrace/schemas/gatepolicy"
)

// Experiment is the test of one candidate against the live checkpoint. Nothing in it changes once it is declared.
type Experiment struct {
	ID          string    `json:"id"`           // exp-N
	CandidateID string    `json:"candidate_id"` // cand-N
	Control     string    `json:"control"`      // policy versions
	Candidate   string    `json:"candidate"`
	Salt        string    `json:"salt"`
	Coverage    int       `json:"coverage"` // of 10,000 buckets; half of them in each arm
	DeclaredAt  time.Time `json:"declared_at"`
	StartsAt    time.Time `json:"starts_at"`
	CountsUntil time.Time `json:"counts_until"` // a turn counts if it started before this …
	EndsAt      time.Time `json:"ends_at"`      // … and settled by this
	SlowAfterMs float64   `json:"slow_after_ms"`
	Policy      string    `json:"policy"` // the gate policy document
}

// Buckets is the resolution of coverage.
const Buckets = 10_000

// CoverageOf turns a policy's share of units into buckets, at least one.
func CoverageOf(share float64) int {
	return max(1, int(math.Round(share*Buckets)))
}

// Salt is a fresh one for every experiment: units that were together in one test are not in the next.
func Salt(id, seed string) string {
	return id + "-" + arrowfile.SHA256([]byte(id + "\x00" + seed))[:12]
}

// GatePolicy reads the policy that the experiment was declared with.
func (e *Experiment) GatePolicy() (gatepolicy.Policy, error) {
	p, err := gatepolicy.Parse([]byte(e.Policy))
	if err != nil {
		return p, fmt.Errorf("gate policy of %s: %w", e.ID, err)
	}
	return p, nil
}

// Event is what the workers have to know of it.
func (e *Experiment) Event() *event.Experiment {
	return &event.Experiment{
		Id: e.ID, Control: e.Control, Candidate: e.Candidate, LatencyThresholdMs: e.SlowAfterMs,
		StartsAt: timestamppb.New(e.StartsAt), EndsAt: timestamppb.New(e.EndsAt), CountsUntil: timestamppb.New(e.CountsUntil),
	}
}

// Declare writes the experiment down.
func Declare(ctx context.Context, tx pgx.Tx, e Experiment) error {
	_, err := tx.Exec(ctx, `
		insert into experiment (id, candidate_id, control, candidate, salt, coverage, declared_at, starts_at, counts_until, ends_at, slow_after_ms, policy)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		e.ID, e.CandidateID, e.Control, e.Candidate, e.Salt, e.Coverage, e.DeclaredAt.UTC(), e.StartsAt.UTC(), e.CountsUntil.UTC(), e.EndsAt.UTC(), e.SlowAfterMs, e.Policy)
	if err != nil {
		return fmt.Errorf("declare %s: %w", e.ID, err)
	}
	return nil
}

// ErrNotFound is an experiment that nobody knows.
var ErrNotFound = errors.New("unknown experiment")

const selectExperiments = `
	select id, candidate_id, control, candidate, salt, coverage, declared_at, starts_at, counts_until, ends_at, slow_after_ms, policy
	from experiment `

// List reads all experiments, oldest first.
func List(ctx context.Context, db Database) ([]Experiment, error) {
	return load(ctx, db, selectExperiments+`order by declared_at, id`)
}

// Get reads one; ErrNotFound without it.
func Get(ctx context.Context, db Database, id string) (*Experiment, error) {
	found, err := load(ctx, db, selectExperiments+`where id = $1`, id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w %q; `millrace experiment list` names them", ErrNotFound, id)
	}
	return &found[0], nil
}

// OfCandidate reads the experiment of a candidate; nil without one.
func OfCandidate(ctx context.Context, db Database, candidate string) (*Experiment, error) {
	found, err := load(ctx, db, selectExperiments+`where candidate_id = $1`, candidate)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func load(ctx context.Context, db Database, sql string, args ...any) ([]Experiment, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read experiments: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Experiment, error) {
		var e Experiment
		err := row.Scan(&e.ID, &e.CandidateID, &e.Control, &e.Candidate, &e.Salt, &e.Coverage, &e.DeclaredAt, &e.StartsAt, &e.CountsUntil, &e.EndsAt, &e.SlowAfterMs, &e.Policy)
		for _, t := range []*time.Time{&e.DeclaredAt, &e.StartsAt, &e.CountsUntil, &e.EndsAt} {
			*t = t.UTC()
		}
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read experiments: %w", err)
	}
	return out, nil
}

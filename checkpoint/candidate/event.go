package candidate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Event is one step of a candidate's life.
type Event struct {
	Seq    int             `json:"seq"`
	From   State           `json:"from"`
	State  State           `json:"state"`
	At     time.Time       `json:"at"`
	Who    string          `json:"who"` // "millrace", or a person's or token's name
	Reason string          `json:"reason,omitempty"`
	Detail json.RawMessage `json:"detail,omitempty"` // of submitted: the Submission
}

// Ladder are the times of a cycle's steps, frozen when the candidate is opened.
type Ladder struct {
	SubmitBy  time.Time `json:"submit_by"`
	EvalsBy   time.Time `json:"evals_by"`
	StartsAt  time.Time `json:"starts_at"` // of the test on live traffic
	EndsAt    time.Time `json:"ends_at"`
	VerdictBy time.Time `json:"verdict_by"`
}

// Candidate is a candidate with all that happened to it.
type Candidate struct {
	ID         string      `json:"id"` // cand-N
	Cut        string      `json:"cut"`
	Base       string      `json:"base"` // the policy version that was live at the cut
	Version    string      `json:"version,omitempty"`
	State      State       `json:"state"`
	Reason     string      `json:"reason,omitempty"` // of the last event
	OpenedAt   time.Time   `json:"opened_at"`
	Ladder     Ladder      `json:"ladder"`
	Submission *Submission `json:"submission,omitempty"` // the last one
	Events     []Event     `json:"events"`
}

// ErrNotFound is a candidate that nobody knows.
var ErrNotFound = errors.New("unknown candidate")

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const selectCandidates = `
	select c.id, c.cut, c.base, c.opened_at, c.submit_by, c.evals_by, c.starts_at, c.ends_at, c.verdict_by,
		e.seq, e.from_state, e.state, e.at, e.who, e.reason, e.detail
	from candidate c join candidate_event e on e.candidate = c.id `

// List reads every candidate, oldest first.
func List(ctx context.Context, q querier) ([]Candidate, error) {
	return load(ctx, q, selectCandidates+`order by c.opened_at, c.id, e.seq`)
}

// Get reads the candidate with that id or, if none has it, with that policy version. ErrNotFound without one.
func Get(ctx context.Context, q querier, idOrVersion string) (*Candidate, error) {
	found, err := load(ctx, q, selectCandidates+`
		where c.id = coalesce(
			(select id from candidate where id = $1),
			(select candidate from policy_version where version = $1),
			(select candidate from candidate_event where detail->>'version' = $1 and state = 'submitted' order by at desc limit 1))
		order by e.seq`, idOrVersion)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w %q; `millrace candidate list` names them", ErrNotFound, idOrVersion)
	}
	return &found[0], nil
}

// OfCut reads the candidate that belongs to a cut; ErrNotFound without one: a skipped cut has none, and one that is
// still being made has none yet.
func OfCut(ctx context.Context, q querier, cut string) (*Candidate, error) {
	found, err := load(ctx, q, selectCandidates+`where c.cut = $1 order by e.seq`, cut)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w of %s", ErrNotFound, cut)
	}
	return &found[0], nil
}

// InFlight reads the candidate that is on its way to a verdict; nil without one. There is at most one: no cut begins
// before the last one's candidate has ended.
func InFlight(ctx context.Context, q querier) (*Candidate, error) {
	var open []string
	for s := range transitions {
		if s.Open() {
			open = append(open, string(s))
		}
	}
	found, err := load(ctx, q, selectCandidates+`
		where c.id in (select candidate from candidate_state where state = any($1)) order by c.opened_at, c.id, e.seq`, open)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func load(ctx context.Context, q querier, sql string, args ...any) ([]Candidate, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read candidates: %w", err)
	}
	defer rows.Close()
	var out []Candidate
	for rows.Next() {
		var (
			c Candidate
			e Event
		)
		l := &c.Ladder
		err := rows.Scan(&c.ID, &c.Cut, &c.Base, &c.OpenedAt, &l.SubmitBy, &l.EvalsBy, &l.StartsAt, &l.EndsAt, &l.VerdictBy,
			&e.Seq, &e.From, &e.State, &e.At, &e.Who, &e.Reason, &e.Detail)
		if err != nil {
			return nil, fmt.Errorf("read candidates: %w", err)
		}
		for _, t := range []*time.Time{&c.OpenedAt, &l.SubmitBy, &l.EvalsBy, &l.StartsAt, &l.EndsAt, &l.VerdictBy, &e.At} {
			*t = t.UTC()
		}
		if len(out) == 0 || out[len(out)-1].ID != c.ID {
			out = append(out, c)
		}
		last := &out[len(out)-1]
		if e.State == Submitted {
			last.Submission = &Submission{}
			if err := json.Unmarshal(e.Detail, last.Submission); err != nil {
				return nil, fmt.Errorf("read the submission of candidate %s: %w", c.ID, err)
			}
			last.Version, e.Detail = last.Submission.Version, nil
		} else if string(e.Detail) == "{}" {
			e.Detail = nil
		}
		last.Events = append(last.Events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read candidates: %w", err)
	}
	for i := range out {
		c := &out[i]
		if c.State, err = Fold(c.ID, c.Events); err != nil {
			return nil, err
		}
		c.Reason = c.Events[len(c.Events)-1].Reason
	}
	return out, nil
}

// Open opens the candidate of a packed cut: the trainer may submit from now on.
func Open(ctx context.Context, tx pgx.Tx, id, cut, base string, now time.Time, l Ladder) error {
	_, err := tx.Exec(ctx, `
		insert into candidate (id, cut, base, opened_at, submit_by, evals_by, starts_at, ends_at, verdict_by)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, id, cut, base, now.UTC(), l.SubmitBy, l.EvalsBy, l.StartsAt, l.EndsAt, l.VerdictBy)
	if err != nil {
		return fmt.Errorf("open candidate %s: %w", id, err)
	}
	return Append(ctx, tx, id, Training, now, Millrace, "cut "+cut+" is packed", nil)
}

// Millrace is the actor of everything that no person did.
const Millrace = "millrace"

// Append moves a candidate on by one event. A transition outside the table is a *TransitionError; two that race for
// the same step are told apart by the key, and the second fails.
func Append(ctx context.Context, tx pgx.Tx, id string, to State, now time.Time, who, reason string, detail any) error {
	// The lock makes a second writer see the first one's event instead of a broken key.
	if _, err := tx.Exec(ctx, `select 1 from candidate where id = $1 for update`, id); err != nil {
		return fmt.Errorf("lock candidate %s: %w", id, err)
	}
	var (
		seq  int
		from State
	)
	err := tx.QueryRow(ctx, `select seq, state from candidate_state where candidate = $1`, id).Scan(&seq, &from)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read the state of candidate %s: %w", id, err)
	}
	if !from.May(to) {
		return &TransitionError{Candidate: id, From: from, To: to}
	}
	body := []byte("{}")
	if detail != nil {
		if body, err = json.Marshal(detail); err != nil {
			return fmt.Errorf("encode the detail of candidate %s's event: %w", id, err)
		}
	}
	_, err = tx.Exec(ctx, `
		insert into candidate_event (candidate, seq, from_state, state, at, who, reason, detail) values ($1, $2, $3, $4, $5, $6, $7, $8)`,
		id, seq+1, from, to, now.UTC(), who, reason, body)
	if err != nil {
		return fmt.Errorf("move candidate %s from %s to %s: %w", id, from, to, err)
	}
	return nil
}

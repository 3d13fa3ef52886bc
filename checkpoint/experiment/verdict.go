package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/gate"
	"millrace/internal/arrowfile"
)

// Frozen is a final verdict with everything it rested on; it can be made again from Record alone.
type Frozen struct {
	Candidate  string        `json:"candidate"` // cand-N
	Experiment string        `json:"experiment"`
	Verdict    gate.Decision `json:"verdict"`
	At         time.Time     `json:"at"`
	SHA256     string        `json:"sha256"` // of the record as stored
	Record     gate.Record   `json:"record"`
}

// ErrNoVerdict means that the candidate has none (yet).
var ErrNoVerdict = errors.New("there is no verdict")

// Freeze stores the final verdict on a candidate and gives its digest. There is one for each, and it stays.
func Freeze(ctx context.Context, tx pgx.Tx, candidate string, r gate.Record, now time.Time) (string, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode the verdict on %s: %w", candidate, err)
	}
	sum := arrowfile.SHA256(body)
	_, err = tx.Exec(ctx, `insert into verdict (candidate, experiment, verdict, at, record, sha256) values ($1, $2, $3, $4, $5, $6)`,
		candidate, r.Verdict.Experiment, r.Verdict.Decision, now.UTC(), string(body), sum)
	if err != nil {
		return "", fmt.Errorf("store the verdict on %s: %w", candidate, err)
	}
	return sum, nil
}

// VerdictOf reads the frozen verdict on a candidate and checks its digest; ErrNoVerdict without one.
func VerdictOf(ctx context.Context, db Database, candidate string) (*Frozen, error) {
	var (
		f    = Frozen{Candidate: candidate}
		body string
	)
	err := db.QueryRow(ctx, `select experiment, verdict, at, record, sha256 from verdict where candidate = $1`, candidate).
		Scan(&f.Experiment, &f.Verdict, &f.At, &body, &f.SHA256)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%w on %s", ErrNoVerdict, candidate)
	}
	if err != nil {
		return nil, fmt.Errorf("read the verdict on %s: %w", candidate, err)
	}
	if got := arrowfile.SHA256([]byte(body)); got != f.SHA256 {
		return nil, fmt.Errorf("the verdict on %s was changed: SHA-256 %s, stored was %s", candidate, got, f.SHA256)
	}
	if err := json.Unmarshal([]byte(body), &f.Record); err != nil {
		return nil, fmt.Errorf("read the verdict on %s: %w", candidate, err)
	}
	f.At = f.At.UTC()
	return &f, nil
}

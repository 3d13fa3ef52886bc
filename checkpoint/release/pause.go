package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pause is a person's word that the loop stands still: no cut and no test begins, and nothing is promoted by itself. Tests
// that run go on being watched for harm; publication and rollback work as ever.
type Pause struct {
	Paused bool      `json:"paused"`
	At     time.Time `json:"at"`
	Who    string    `json:"who"`
	Why    string    `json:"why"`
}

// String reads "the loop is paused by eva: …".
func (p *Pause) String() string { return fmt.Sprintf("the loop is paused by %s: %s", p.Who, p.Why) }

// ErrPaused and ErrNotPaused are asking for what is so already.
var (
	ErrPaused    = errors.New("the loop is paused already")
	ErrNotPaused = errors.New("the loop isn't paused")
)

// Paused reads whether the loop is paused; nil if it isn't.
func Paused(ctx context.Context, db Database) (*Pause, error) {
	var p Pause
	err := db.QueryRow(ctx, `select paused, at, who, why from pause order by seq desc limit 1`).Scan(&p.Paused, &p.At, &p.Who, &p.Why)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !p.Paused {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read whether the loop is paused: %w", err)
	}
	p.At = p.At.UTC()
	return &p, nil
}

// SetPause pauses the loop, or lets it go on.
func SetPause(ctx context.Context, tx pgx.Tx, p Pause) error {
	if _, err := tx.Exec(ctx, `lock table pause in share row exclusive mode`); err != nil {
		return fmt.Errorf("lock the pause: %w", err)
	}
	now, err := Paused(ctx, tx)
	switch {
	case err != nil:
		return err
	case now != nil && p.Paused:
		return fmt.Errorf("%w, since %s by %s: %s", ErrPaused, now.At.Format(time.RFC3339), now.Who, now.Why)
	case now == nil && !p.Paused:
		return ErrNotPaused
	}
	_, err = tx.Exec(ctx, `insert into pause (seq, paused, at, who, why) values ((select coalesce(max(seq), 0) + 1 from pause), $1, $2, $3, $4)`,
		p.Paused, p.At.UTC(), p.Who, p.Why)
	if err != nil {
		return fmt.Errorf("write the pause: %w", err)
	}
	return nil
}

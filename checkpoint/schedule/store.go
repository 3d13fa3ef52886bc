package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// querier is a pool, or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// State is the schedule as it stands in Postgres.
type State struct {
	Anchored
	Last    time.Time // the slot of the last cut, zero before the first
	AskedBy string    // who asked for a cut beside the slots, "" if nobody
}

// Ensure writes the schedule at its first start, with the first slot at anchor. Another period than the stored one is
// taken over from the last cut on; a stored anchor stays.
func Ensure(ctx context.Context, tx pgx.Tx, anchor time.Time, period time.Duration) error {
	_, err := tx.Exec(ctx, `
		insert into cut_schedule (anchor, period_us) values ($1, $2)
		on conflict (singleton) do update set
			anchor = coalesce(cut_schedule.last_due, cut_schedule.anchor), period_us = excluded.period_us
		where cut_schedule.period_us <> excluded.period_us`, anchor.UTC(), period.Microseconds())
	if err != nil {
		return fmt.Errorf("write the schedule of cuts: %w", err)
	}
	return nil
}

// Upcoming is when the next cut is due: a slot that had none yet, or the next one.
func (s State) Upcoming(now time.Time) time.Time {
	if slot, due := s.Due(now, s.Last); due {
		return slot.Time
	}
	if now.Before(s.Anchor) {
		return s.Anchor
	}
	return s.Next(now)
}

// Lock reads the schedule and keeps it to the end of the transaction. ErrNotStarted without one.
func Lock(ctx context.Context, tx pgx.Tx) (State, error) { return read(ctx, tx, ` for update`) }

// Load reads the schedule. ErrNotStarted without one.
func Load(ctx context.Context, q querier) (State, error) { return read(ctx, q, ``) }

func read(ctx context.Context, q querier, lock string) (State, error) {
	var (
		s      State
		period int64
		last   *time.Time
	)
	err := q.QueryRow(ctx, `select anchor, period_us, last_due, coalesce(asked_by, '') from cut_schedule`+lock).Scan(&s.Anchor, &period, &last, &s.AskedBy)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, ErrNotStarted
	}
	if err != nil {
		return s, fmt.Errorf("read the schedule of cuts: %w", err)
	}
	s.Anchor, s.Period = s.Anchor.UTC(), time.Duration(period)*time.Microsecond
	if last != nil {
		s.Last = last.UTC()
	}
	return s, nil
}

// Done records that a cut was made or skipped: for the slot, or, with a zero one, only for who asked.
func Done(ctx context.Context, tx pgx.Tx, slot time.Time) error {
	var at *time.Time
	if !slot.IsZero() {
		slot = slot.UTC()
		at = &slot
	}
	if _, err := tx.Exec(ctx, `update cut_schedule set last_due = coalesce($1, last_due), asked_by = null`, at); err != nil {
		return fmt.Errorf("move the schedule of cuts on: %w", err)
	}
	return nil
}

// ErrNotStarted means that no checkpoint role has run yet.
var ErrNotStarted = errors.New("there is no schedule of cuts yet: start the checkpoint role first")

// Ask asks for one cut beside the slots, at the loop's next pass.
func Ask(ctx context.Context, tx pgx.Tx, who string) error {
	tag, err := tx.Exec(ctx, `update cut_schedule set asked_by = $1`, who)
	if err != nil {
		return fmt.Errorf("ask for a cut: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNotStarted
	}
	return nil
}

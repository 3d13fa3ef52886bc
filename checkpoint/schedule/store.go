package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// querier is a pool, or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// State is the schedule as it stands in Postgres, seen at a moment of the clock.
type State struct {
	Anchored
	// ByRows has Rows > 0 if cuts are due by rows instead of at the slots.
	ByRows  ByRows
	Last    time.Time // the slot of the last cut at or before the moment, zero before the first
	AskedBy string    // who asked for a cut beside the slots, "" if nobody

	made []time.Time // slots after the moment that have their cut already: the clock was ahead, and was turned back
}

// Config is what Ensure writes.
type Config struct {
	Anchor time.Time     // the first slot
	Period time.Duration // between two slots; by rows: at least between two cuts
	Rows   int64         // 0: at the slots
	Most   time.Duration // by rows: at most between two cuts
}

// Ensure writes the schedule at its first start. Another period than the stored one counts from the last cut on, or
// from the given anchor if there was none. Otherwise a stored anchor stays, unless it lies behind the given one before
// any cut was made: it was written by a clock that was ahead.
func Ensure(ctx context.Context, tx pgx.Tx, cfg Config, now time.Time) error {
	var rows, most *int64
	if cfg.Rows > 0 {
		us := cfg.Most.Microseconds()
		rows, most = &cfg.Rows, &us
	}
	_, err := tx.Exec(ctx, `
		insert into cut_schedule (anchor, period_us, at_rows, most_us) values ($1, $2, $3, $4)
		on conflict (singleton) do update set
			anchor = case
				when cut_schedule.last_due is null then excluded.anchor
				when cut_schedule.period_us = excluded.period_us then cut_schedule.anchor
				else coalesce(`+lastAt("$5")+`, cut_schedule.anchor) end,
			period_us = excluded.period_us, at_rows = excluded.at_rows, most_us = excluded.most_us
		where (cut_schedule.period_us, cut_schedule.at_rows, cut_schedule.most_us) is distinct from (excluded.period_us, excluded.at_rows, excluded.most_us)
			or cut_schedule.last_due is null and cut_schedule.anchor > excluded.anchor`,
		cfg.Anchor.UTC(), cfg.Period.Microseconds(), rows, most, now.UTC())
	if err != nil {
		return fmt.Errorf("write the schedule of cuts: %w", err)
	}
	return nil
}

// lastAt is SQL for the last slot that was passed at or before a moment. Where the clock was ahead and was turned back,
// last_due lies in what is future again; then the cuts tell.
func lastAt(moment string) string {
	return `greatest(
		case when cut_schedule.last_due <= ` + moment + ` then cut_schedule.last_due end,
		(select max(slot) from cut where slot <= ` + moment + `))`
}

// Due is the slot that is due at now with so many rows waiting, if any. However many were missed, it is one, the
// latest.
func (s State) Due(now time.Time, waiting int64) (Slot, bool) {
	if s.ByRows.Rows > 0 {
		at, due := s.ByRows.Due(now, s.begin(), s.Last, waiting)
		return Slot{Time: at}, due
	}
	return s.Anchored.Due(now, s.Last)
}

// begin is when the schedule was begun: its anchor is one period after that.
func (s State) begin() time.Time { return s.Anchor.Add(-s.Period) }

// Upcoming is when the next cut is due: a slot that had none yet, or the next one. By rows it is the latest time.
func (s State) Upcoming(now time.Time) time.Time {
	if s.ByRows.Rows > 0 {
		_, latest := s.ByRows.Between(s.begin(), s.Last)
		return latest
	}
	if slot, due := s.Anchored.Due(now, s.Last); due {
		return slot.Time
	}
	next := s.Anchor
	if !now.Before(s.Anchor) {
		next = s.Next(now)
	}
	for slices.ContainsFunc(s.made, next.Equal) {
		next = next.Add(s.Period)
	}
	return next
}

// Earliest is from when on a cut by rows may be due.
func (s State) Earliest() time.Time {
	earliest, _ := s.ByRows.Between(s.begin(), s.Last)
	return earliest
}

// Lock reads the schedule at a moment of the clock and keeps it to the end of the transaction. ErrNotStarted without
// one.
func Lock(ctx context.Context, tx pgx.Tx, now time.Time) (State, error) {
	return read(ctx, tx, now, ` for update of cut_schedule`)
}

// Load reads the schedule at a moment of the clock. ErrNotStarted without one.
func Load(ctx context.Context, q querier, now time.Time) (State, error) { return read(ctx, q, now, ``) }

func read(ctx context.Context, q querier, now time.Time, lock string) (State, error) {
	var (
		s            State
		period, most int64
		last         *time.Time
	)
	err := q.QueryRow(ctx, `
		select anchor, period_us, coalesce(at_rows, 0), coalesce(most_us, 0), `+lastAt("$1")+`, coalesce(asked_by, ''),
			array(select slot from cut where slot > $1 order by slot)
		from cut_schedule`+lock, now.UTC()).Scan(&s.Anchor, &period, &s.ByRows.Rows, &most, &last, &s.AskedBy, &s.made)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, ErrNotStarted
	}
	if err != nil {
		return s, fmt.Errorf("read the schedule of cuts: %w", err)
	}
	s.Anchor, s.Period = s.Anchor.UTC(), time.Duration(period)*time.Microsecond
	s.ByRows.Least, s.ByRows.Most = s.Period, time.Duration(most)*time.Microsecond
	if last != nil {
		s.Last = last.UTC()
	}
	return s, nil
}

// Done records that a slot has passed: a cut was made or skipped for it, or nothing could be due. With a zero one only
// who asked is served.
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

// Ask asks for one cut beside the slots, at the loop's next pass, and says who asked for it: somebody else who asked
// before is served by the same cut.
func Ask(ctx context.Context, tx pgx.Tx, who string) (askedBy string, err error) {
	err = tx.QueryRow(ctx, `update cut_schedule set asked_by = coalesce(asked_by, $1) returning asked_by`, who).Scan(&askedBy)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", ErrNotStarted
	}
	if err != nil {
		return "", fmt.Errorf("ask for a cut: %w", err)
	}
	return askedBy, nil
}

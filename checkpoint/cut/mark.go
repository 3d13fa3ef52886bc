package cut

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/schemas/event"
)

// Begin writes down the next cut, to be marked, or with a reason as skipped. Its number, and with it the id of its
// control record, is fixed from now on.
func Begin(ctx context.Context, tx pgx.Tx, c Cut) (*Cut, error) {
	err := tx.QueryRow(ctx, `select coalesce(max(number), 0) + 1 from cut`).Scan(&c.Number)
	if err != nil {
		return nil, fmt.Errorf("number the next cut: %w", err)
	}
	c.ID = fmt.Sprintf("cut-%d", c.Number)
	c.State = Marking
	if c.Reason != "" {
		c.State = Skipped
	}
	if c.Seed == "" {
		// The order of the rows has to be fixed, not secret.
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", c.Topic, c.ID, c.DueAt.UTC().Format(time.RFC3339Nano)))
		c.Seed = hex.EncodeToString(sum[:8])
	}
	_, err = tx.Exec(ctx, `
		insert into cut (id, number, due_at, slot, cause, base, topic, partitions, seed, state, reason, packing, mark_by, submit_by)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		c.ID, c.Number, c.DueAt.UTC(), c.Slot, c.Cause, c.Base, c.Topic, c.Partitions, c.Seed, c.State, c.Reason, c.Packing, c.MarkBy.UTC(), c.SubmitBy.UTC())
	if err != nil {
		return nil, fmt.Errorf("begin %s: %w", c.ID, err)
	}
	return &c, nil
}

// Record is the mark of the cut. Its id is the cut's: written twice, the first one in a partition counts.
func (c *Cut) Record() *event.ControlRecord {
	return &event.ControlRecord{
		Id:   c.ID,
		Body: &event.ControlRecord_CutMarked{CutMarked: &event.CutMarked{Cut: c.ID, Time: timestamppb.New(c.DueAt)}},
	}
}

// Marked records that the mark stands in every partition.
func Marked(ctx context.Context, tx pgx.Tx, id string, now time.Time) error {
	_, err := tx.Exec(ctx, `update cut set marked_at = $2 where id = $1 and state = 'marking' and marked_at is null`, id, now.UTC())
	if err != nil {
		return fmt.Errorf("record the mark of %s: %w", id, err)
	}
	return nil
}

// Behind names the partitions that have not committed past the cut's mark, with why they stand still if they do, but
// for those that a person let it go on without. None: the cut is complete.
func Behind(ctx context.Context, q querier, c *Cut) ([]string, error) {
	rows, err := q.Query(ctx, `
		select n, coalesce(p.halted, '')
		from generate_series(0, $2::int - 1) n
		left join cut_mark m on m.cut = $1 and m.topic = $3 and m.partition = n
		left join partition p on p.topic = $3 and p.partition = n
		where m.cut is null and not exists (select from cut_absence a where a.cut = $1 and a.partition = n) order by n`, c.ID, c.Partitions, c.Topic)
	if err != nil {
		return nil, fmt.Errorf("look for the marks of %s: %w", c.ID, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var (
			n      int
			halted string
		)
		if err := row.Scan(&n, &halted); err != nil {
			return "", err
		}
		if halted != "" {
			return fmt.Sprintf("%d (halted: %s)", n, halted), nil
		}
		return fmt.Sprint(n), nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the marks of %s: %w", c.ID, err)
	}
	return out, nil
}

// Waits says what a cut waits for.
func Waits(behind []string) string { return "waits for partition " + strings.Join(behind, ", ") }

// Wait records what the cut waits for; a report shows it.
func Wait(ctx context.Context, tx pgx.Tx, id string, behind []string) error {
	return set(ctx, tx, id, Marking, Marking, Waits(behind))
}

// Completed moves the cut on: every partition has committed past its mark.
func Completed(ctx context.Context, tx pgx.Tx, id string, now time.Time) error {
	if err := set(ctx, tx, id, Marking, Complete, ""); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `update cut set completed_at = $2 where id = $1`, id, now.UTC()); err != nil {
		return fmt.Errorf("complete %s: %w", id, err)
	}
	return nil
}

// Fails records why a complete cut could not be packed. It is tried again.
func Fails(ctx context.Context, tx pgx.Tx, id, why string) error {
	return set(ctx, tx, id, Complete, Complete, why)
}

// Skip ends a cut that is still being made without a training set. Its rows stay for the next one.
func Skip(ctx context.Context, tx pgx.Tx, id string, from State, reason string) error {
	return set(ctx, tx, id, from, Skipped, reason)
}

func set(ctx context.Context, tx pgx.Tx, id string, from, to State, reason string) error {
	tag, err := tx.Exec(ctx, `update cut set state = $3, reason = $4 where id = $1 and state = $2`, id, from, to, reason)
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", id, to, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%s is not %s any more", id, from)
	}
	return nil
}

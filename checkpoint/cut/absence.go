package cut

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Absence is a partition that a person let a cut go on without.
type Absence struct {
	Partition int       `json:"partition"`
	Who       string    `json:"who"`
	Why       string    `json:"why"`
	At        time.Time `json:"at"`
}

// ErrNotWaiting means that the cut does not wait for that partition: there is nothing to decide.
var ErrNotWaiting = errors.New("nothing waits")

// GoOnWithout records a person's decision that a cut goes on without a partition that has not passed its mark. The rows
// of the partition go to the next cut. ErrNotWaiting if the cut does not wait for it, ErrNotFound without such a cut.
// The same decision again changes nothing.
func GoOnWithout(ctx context.Context, tx pgx.Tx, id string, a Absence) error {
	c, err := Get(ctx, tx, id)
	if err != nil {
		return err
	}
	// The lock keeps the cut from being completed meanwhile.
	if err := tx.QueryRow(ctx, `select state from cut where id = $1 for update`, id).Scan(&c.State); err != nil {
		return fmt.Errorf("lock %s: %w", id, err)
	}
	if c.State != Marking {
		return fmt.Errorf("%w: %s is %s", ErrNotWaiting, id, c.State)
	}
	if a.Partition < 0 || a.Partition >= c.Partitions {
		return fmt.Errorf("%w: %s has no partition %d; they are 0 to %d", ErrNotWaiting, id, a.Partition, c.Partitions-1)
	}
	var passed bool
	err = tx.QueryRow(ctx, `select exists (select from cut_mark where cut = $1 and topic = $2 and partition = $3)`, id, c.Topic, a.Partition).Scan(&passed)
	if err != nil {
		return fmt.Errorf("look for the mark of %s: %w", id, err)
	}
	if passed {
		return fmt.Errorf("%w: partition %d has passed the mark of %s", ErrNotWaiting, a.Partition, id)
	}
	_, err = tx.Exec(ctx, `insert into cut_absence (cut, partition, who, why, at) values ($1, $2, $3, $4, $5) on conflict do nothing`,
		id, a.Partition, a.Who, a.Why, a.At.UTC())
	if err != nil {
		return fmt.Errorf("record that %s goes on without partition %d: %w", id, a.Partition, err)
	}
	return nil
}

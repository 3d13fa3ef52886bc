package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"millrace/schemas/event"
)

// Database is a pool, or a transaction.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Config reads the configuration that was adopted last; nil before the first.
func Config(ctx context.Context, db Database) (*event.ConfigAdopted, error) {
	var body []byte
	err := db.QueryRow(ctx, `select document from config order by seq desc limit 1`).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c := &event.ConfigAdopted{}
	if err := c.UnmarshalVT(body); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return c, nil
}

// Propose makes the next configuration: the last one with a change, and the next seq. change sees an empty one before
// the first. Nothing changed: nothing is written. The workers hear of it by WriteConfig.
func Propose(ctx context.Context, tx pgx.Tx, now time.Time, why string, change func(*event.ConfigAdopted) error) error {
	if _, err := tx.Exec(ctx, `lock table config in share row exclusive mode`); err != nil {
		return fmt.Errorf("lock the configuration: %w", err)
	}
	last, err := Config(ctx, tx)
	if err != nil {
		return err
	}
	next := &event.ConfigAdopted{}
	if last != nil {
		next = last.CloneVT()
	}
	if err := change(next); err != nil {
		return err
	}
	next.Seq = last.GetSeq()
	if last != nil && proto.Equal(next, last) {
		return nil
	}
	next.Seq++
	body, err := next.MarshalVT()
	if err != nil {
		return fmt.Errorf("encode configuration %d: %w", next.Seq, err)
	}
	_, err = tx.Exec(ctx, `insert into config (seq, document, why, adopted_at) values ($1, $2, $3, $4)`, int64(next.Seq), body, why, now.UTC())
	if err != nil {
		return fmt.Errorf("adopt configuration %d: %w", next.Seq, err)
	}
	return nil
}

// WriteConfig writes the newest configuration into every partition if that was not done yet. Written twice, it does
// nothing: the highest seq wins.
func WriteConfig(ctx context.Context, db Database, record func(context.Context, *event.ControlRecord) error, write func(context.Context, func(pgx.Tx) error) error, now time.Time) error {
	var written bool
	err := db.QueryRow(ctx, `select written_at is not null from config order by seq desc limit 1`).Scan(&written)
	if errors.Is(err, pgx.ErrNoRows) || written {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	c, err := Config(ctx, db)
	if err != nil {
		return err
	}
	err = record(ctx, &event.ControlRecord{Id: fmt.Sprintf("config-%d", c.Seq), Body: &event.ControlRecord_ConfigAdopted{ConfigAdopted: c}})
	if err != nil {
		return fmt.Errorf("write configuration %d into the log: %w", c.Seq, err)
	}
	return write(ctx, func(tx pgx.Tx) error {
		// The earlier ones that were never written are covered by this one.
		_, err := tx.Exec(ctx, `update config set written_at = $2 where seq <= $1 and written_at is null`, int64(c.Seq), now.UTC())
		return err
	})
}

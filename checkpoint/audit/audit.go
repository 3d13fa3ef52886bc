package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Entry is one action of a person, or of Millrace itself.
type Entry struct {
	ID     string          `json:"id"` // stays what it is: release/3, candidate/cand-1/2, …
	At     time.Time       `json:"at"`
	Who    string          `json:"who"`    // "millrace", or the name of a person's or program's token
	Type   string          `json:"type"`   // candidate.promoted, release.rollback, loop.paused, …
	Object string          `json:"object"` // what it was done to
	Why    string          `json:"why"`
	Detail json.RawMessage `json:"detail"` // the numbers seen: the verdict and the digest of its evidence, …
}

// Filter chooses entries; the zero one takes all.
type Filter struct {
	Since  time.Time
	Object string
	Who    string
	Limit  int // the newest so many; 0: all
}

// Database is a pool, or a transaction.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Read gives entries, oldest first.
func Read(ctx context.Context, db Database, f Filter) ([]Entry, error) {
	var limit *int
	if f.Limit > 0 {
		limit = &f.Limit
	}
	rows, err := db.Query(ctx, `
		select id, at, who, type, object, why, detail from (
			select * from audit where at >= $1 and ($2 = '' or object = $2) and ($3 = '' or who = $3) order by at desc, id desc limit $4) newest
		order by at, id`, f.Since.UTC(), f.Object, f.Who, limit)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Entry, err error) {
		err = row.Scan(&e.ID, &e.At, &e.Who, &e.Type, &e.Object, &e.Why, &e.Detail)
		e.At = e.At.UTC()
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return out, nil
}

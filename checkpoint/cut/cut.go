package cut

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// State is where a cut stands.
type State string

// The states.
const (
	Marking  State = "marking"  // its mark is on its way into every partition and through the workers
	Complete State = "complete" // every partition has committed past the mark
	Packed   State = "packed"   // its parts and its manifest are in the object store
	Skipped  State = "skipped"  // nothing was taken; its rows go to the next cut
)

// Open says whether the cut is still being made.
func (s State) Open() bool { return s == Marking || s == Complete }

// Cut is the frozen training set of one interval, or the reason why there is none.
type Cut struct {
	ID         string     `json:"id"` // cut-N
	Number     int64      `json:"number"`
	DueAt      time.Time  `json:"due_at"`
	Slot       *time.Time `json:"slot,omitempty"` // of the schedule; a slot has one cut. None: it was asked for
	Cause      string     `json:"cause"`          // "schedule", or who asked for it
	Base       string     `json:"base"`           // the policy version whose rows it takes
	Topic      string     `json:"topic"`
	Partitions int        `json:"partitions"`
	Seed       string     `json:"-"`
	State      State      `json:"state"`
	Reason     string     `json:"reason,omitempty"` // why skipped, or what it waits for
	Packing    *Packing   `json:"-"`                // the rules that it is packed by, as they stood when it was begun
	Without    []Absence  `json:"without,omitempty"`
	MarkBy     time.Time  `json:"mark_by"`   // partitions that have not passed the mark by then are named
	SubmitBy   time.Time  `json:"submit_by"` // a cut that is not packed by then is skipped
	MarkedAt   *time.Time `json:"marked_at,omitempty"`
	PackedAt   *time.Time `json:"packed_at,omitempty"`
	Balance
	Tokens             int64  `json:"tokens"`
	Units              int64  `json:"units"`
	TokenizerDigest    string `json:"tokenizer_digest,omitempty"`
	ChatTemplateDigest string `json:"chat_template_digest,omitempty"`
	ManifestKey        string `json:"manifest_key,omitempty"`
	ManifestSHA256     string `json:"manifest_sha256,omitempty"`
}

// Balance is where the rows of the cut's shards went; nothing may be lost between them.
type Balance struct {
	InShards   int64 `json:"rows_in_shards"`
	Taken      int64 `json:"rows"`
	Superseded int64 `json:"rows_superseded"` // of versions that were live before the base
	Stale      int64 `json:"rows_stale"`      // of other versions: held, rolled back, unknown
	Capped     int64 `json:"rows_capped"`     // over a unit's share
}

// Check is the law of the cut.
func (b Balance) Check() error {
	if sum := b.Taken + b.Superseded + b.Stale + b.Capped; sum != b.InShards {
		return fmt.Errorf("the rows of the cut don't balance: %d in shards, but %d taken + %d superseded + %d stale + %d capped = %d",
			b.InShards, b.Taken, b.Superseded, b.Stale, b.Capped, sum)
	}
	return nil
}

// OnPolicy is the share of the interval's rows that were of the base version, 0…1.
func (b Balance) OnPolicy() float64 {
	if b.InShards == 0 {
		return 0
	}
	return float64(b.Taken+b.Capped) / float64(b.InShards)
}

// ErrNotFound is a cut that nobody knows.
var ErrNotFound = errors.New("unknown cut")

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const selectCuts = `
	select id, number, due_at, slot, cause, base, topic, partitions, seed, state, reason, packing, coalesce(mark_by, due_at), coalesce(submit_by, due_at), marked_at, packed_at,
		(select jsonb_agg(jsonb_build_object('partition', a.partition, 'who', a.who, 'why', a.why, 'at', a.at) order by a.partition) from cut_absence a where a.cut = cut.id),
		rows_in_shards, rows_taken, rows_superseded, rows_stale, rows_capped, tokens, units,
		tokenizer_digest, chat_template_digest, coalesce(manifest_key, ''), coalesce(manifest_sha256, '')
	from cut `

// List reads all cuts, oldest first.
func List(ctx context.Context, q querier) ([]Cut, error) {
	return load(ctx, q, selectCuts+`order by number`)
}

// Get reads one cut; ErrNotFound without it.
func Get(ctx context.Context, q querier, id string) (*Cut, error) {
	found, err := load(ctx, q, selectCuts+`where id = $1`, id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w %q; `millrace cut list` names them", ErrNotFound, id)
	}
	return &found[0], nil
}

// Last reads the newest cut; nil before the first.
func Last(ctx context.Context, q querier) (*Cut, error) {
	found, err := load(ctx, q, selectCuts+`order by number desc limit 1`)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// InFlight reads the cut that is being made; nil without one. There is at most one.
func InFlight(ctx context.Context, q querier) (*Cut, error) {
	found, err := load(ctx, q, selectCuts+`where state in ('marking', 'complete') order by number limit 1`)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func load(ctx context.Context, q querier, sql string, args ...any) ([]Cut, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read cuts: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Cut, error) {
		var c Cut
		err := row.Scan(&c.ID, &c.Number, &c.DueAt, &c.Slot, &c.Cause, &c.Base, &c.Topic, &c.Partitions, &c.Seed, &c.State, &c.Reason, &c.Packing, &c.MarkBy, &c.SubmitBy, &c.MarkedAt, &c.PackedAt,
			&c.Without,
			&c.InShards, &c.Taken, &c.Superseded, &c.Stale, &c.Capped, &c.Tokens, &c.Units,
			&c.TokenizerDigest, &c.ChatTemplateDigest, &c.ManifestKey, &c.ManifestSHA256)
		c.DueAt, c.MarkBy, c.SubmitBy = c.DueAt.UTC(), c.MarkBy.UTC(), c.SubmitBy.UTC()
		for _, t := range []*time.Time{c.Slot, c.MarkedAt, c.PackedAt} {
			if t != nil {
				*t = t.UTC()
			}
		}
		for i := range c.Without {
			c.Without[i].At = c.Without[i].At.UTC()
		}
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read cuts: %w", err)
	}
	return out, nil
}

package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// HoldBack keeps some units on a checkpoint that was frozen days ago, against slow creep: a loss of 1 % in each cycle is none
// that a test sees, and a fifth in five days.
type HoldBack struct {
	ID      string    `json:"id"` // hold-N, as turns report it
	Seq     int64     `json:"-"`
	Version string    `json:"version"`
	Buckets int       `json:"buckets"` // of 10,000, in each of its two groups
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	Why     string    `json:"why"`
}

// HoldBackFor is how long a hold-back stays at least before another version takes its place: what is compared over days must not
// change within them.
const HoldBackFor = 7 * 24 * time.Hour

// What callers tell apart.
var (
	ErrHeldBack    = errors.New("another hold-back is too young to be replaced")
	ErrNoHoldBack  = errors.New("nothing is held back")
	ErrNeverServed = errors.New("only a version that was live can be held back on")
)

// HeldBack reads the hold-back at a time; nil if there was none.
func HeldBack(ctx context.Context, db Database, at time.Time) (*HoldBack, error) {
	var (
		h       HoldBack
		version *string
	)
	err := db.QueryRow(ctx, `select seq, version, buckets, at, who, why from hold_back where at <= $1 order by seq desc limit 1`, at.UTC()).
		Scan(&h.Seq, &version, &h.Buckets, &h.At, &h.Who, &h.Why)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && version == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the hold-back: %w", err)
	}
	h.ID, h.Version, h.At = fmt.Sprintf("hold-%d", h.Seq), *version, h.At.UTC()
	return &h, nil
}

// salt of its split; the view of the assignment has the same.
func (h *HoldBack) salt() string { return h.ID + "-" + h.Version }

// Hold begins a hold-back, or, without a version, ends the one that there is.
func Hold(ctx context.Context, tx pgx.Tx, h HoldBack) error {
	if _, err := tx.Exec(ctx, `lock table hold_back in share row exclusive mode`); err != nil {
		return fmt.Errorf("lock the hold-back: %w", err)
	}
	now, err := HeldBack(ctx, tx, h.At)
	if err != nil {
		return err
	}
	var version *string
	switch {
	case h.Version == "" && now == nil:
		return ErrNoHoldBack
	case h.Version == "":
		h.Buckets = 0
	case now != nil && h.At.Sub(now.At) < HoldBackFor:
		return fmt.Errorf("%w: %s on %s since %s, by %s; it stays for %d days, or end it first", ErrHeldBack, now.ID, now.Version, now.At.Format(time.RFC3339), now.Who, int(HoldBackFor.Hours()/24))
	default:
		var served bool
		if err := tx.QueryRow(ctx, `select exists (select 1 from release where version = $1)`, h.Version).Scan(&served); err != nil {
			return fmt.Errorf("look whether %s was live: %w", h.Version, err)
		}
		if !served {
			return fmt.Errorf("%w: %s", ErrNeverServed, h.Version)
		}
		version = &h.Version
	}
	_, err = tx.Exec(ctx, `insert into hold_back (seq, version, buckets, at, who, why) values ((select coalesce(max(seq), 0) + 1 from hold_back), $1, $2, $3, $4, $5)`,
		version, h.Buckets, h.At.UTC(), h.Who, h.Why)
	if err != nil {
		return fmt.Errorf("write the hold-back: %w", err)
	}
	return nil
}

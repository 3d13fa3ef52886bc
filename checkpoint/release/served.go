package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/internal/unithash"
)

// Served is which version the assignment gave new sessions of a unit at some time. A session that had begun before kept
// its own, unless that was withdrawn.
type Served struct {
	Unit       string    `json:"unit"`
	At         time.Time `json:"at"`
	Version    string    `json:"version"`
	Experiment string    `json:"experiment,omitempty"`
	Arm        string    `json:"arm,omitempty"`
	Release    int64     `json:"release"` // the move of the live pointer that was in force
}

// ServedAt is what served a unit at a time, from the history of the pointer, the hold-back, the declared experiments and the times at which
// their candidates were in test. ErrNoLive before the first release.
func ServedAt(ctx context.Context, db Database, unit string, at time.Time) (*Served, error) {
	s := &Served{Unit: unit, At: at.UTC()}
	err := db.QueryRow(ctx, `select version, seq from release where at <= $1 order by seq desc limit 1`, s.At).Scan(&s.Version, &s.Release)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("at %s: %w", s.At.Format(time.RFC3339), ErrNoLive)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was live: %w", err)
	}
	held, err := HeldBack(ctx, db, s.At)
	if err != nil {
		return nil, err
	}
	if held != nil {
		share := float64(2*held.Buckets) / unithash.Buckets
		switch unithash.Choose(unithash.Bucket(held.salt(), unit), unithash.Ranges(2, share, nil)) {
		case 0:
			s.Version, s.Experiment, s.Arm = held.Version, held.ID, "control"
			return s, nil
		case 1:
			s.Experiment, s.Arm = held.ID, "candidate"
			return s, nil
		}
	}
	var (
		id, salt, control, candidate string
		coverage                     float64
	)
	err = db.QueryRow(ctx, `
		select e.id, e.salt, e.coverage / 10000::double precision, e.control, e.candidate
		from experiment e join candidate_event began on began.candidate = e.candidate_id and began.state = 'testing'
			left join candidate_event ended on ended.candidate = began.candidate and ended.seq = began.seq + 1
		where began.at <= $1 and (ended.at is null or ended.at > $1) and e.starts_at <= $1 and e.ends_at > $1
		order by began.at desc limit 1`, s.At).Scan(&id, &salt, &coverage, &control, &candidate)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was in test: %w", err)
	}
	switch unithash.Choose(unithash.Bucket(salt, unit), unithash.Ranges(2, coverage, nil)) {
	case 0:
		s.Version, s.Experiment, s.Arm = control, id, "control"
	case 1:
		s.Version, s.Experiment, s.Arm = candidate, id, "candidate"
	}
	return s, nil
}

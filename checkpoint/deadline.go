package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
)

// Deadline is the step of the ladder that something waits for, and by when it has to be done.
type Deadline struct {
	Step string    `json:"step"` // "submit", "verdict", …
	By   time.Time `json:"by"`
	Left float64   `json:"left_seconds"` // below zero: it is late, and the next pass of the loop ends it
}

// String reads "submit by 06:00, 23 min left"; the day stands there if it is another one than now's.
func (d Deadline) String() string {
	left := time.Duration(d.Left * float64(time.Second))
	by := d.By.UTC().Format("15:04")
	if now := d.By.Add(-left).UTC(); now.Format(time.DateOnly) != d.By.UTC().Format(time.DateOnly) {
		by = d.By.UTC().Format("2006-01-02 15:04")
	}
	if left < 0 {
		return fmt.Sprintf("%s by %s, late by %s", d.Step, by, span(-left))
	}
	return fmt.Sprintf("%s by %s, %s left", d.Step, by, span(left))
}

// span is a length of time as people say it.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}

func until(step string, by, now time.Time) *Deadline {
	return &Deadline{Step: step, By: by, Left: by.Sub(now).Seconds()}
}

// NextOf is what a candidate waits for; nil once it has ended.
func NextOf(c *candidate.Candidate, now time.Time) *Deadline {
	l := c.Ladder
	switch c.State {
	case candidate.Training:
		return until("submit", l.SubmitBy, now)
	case candidate.Refused:
		return until("submit a corrected one", l.SubmitBy, now)
	case candidate.Submitted:
		return until("verify its files", l.EvalsBy, now)
	case candidate.Verified:
		return until("evaluate", l.EvalsBy, now)
	case candidate.Evaluating:
		return until("start the test", l.StartsAt, now)
	case candidate.Testing:
		if now.Before(l.EndsAt) {
			return until("test ends", l.EndsAt, now)
		}
		return until("verdict", l.VerdictBy, now)
	default:
		return nil
	}
}

// nextOfCut is what a cut that is being made waits for; nil once it is packed or skipped.
func nextOfCut(k *cut.Cut, now time.Time) *Deadline {
	switch {
	case k.State == cut.Marking && now.Before(k.MarkBy):
		return until("every partition past the mark", k.MarkBy, now)
	case k.State == cut.Marking:
		return until("every partition past the mark, or a person's decision,", k.SubmitBy, now)
	case k.State == cut.Complete:
		return until("packed", k.SubmitBy, now)
	default:
		return nil
	}
}

// CandidateReport is a candidate with what it waits for.
type CandidateReport struct {
	*candidate.Candidate
	Next *Deadline `json:"next,omitempty"`
}

// CutReport is a cut with its candidate's times, and what both wait for.
type CutReport struct {
	*cut.Cut
	Candidate      string            `json:"candidate,omitempty"`
	CandidateState candidate.State   `json:"candidate_state,omitempty"`
	Ladder         *candidate.Ladder `json:"ladder,omitempty"` // its candidate's
	Next           *Deadline         `json:"next,omitempty"`
}

// ReadCut reads a cut and where its candidate stands.
func ReadCut(ctx context.Context, db *pgxpool.Pool, id string, now time.Time) (*CutReport, error) {
	r := &CutReport{}
	return r, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		if r.Cut, err = cut.Get(ctx, tx, id); err != nil {
			return err
		}
		r.Next = nextOfCut(r.Cut, now)
		c, err := candidate.OfCut(ctx, tx, id)
		if errors.Is(err, candidate.ErrNotFound) {
			return nil
		}
		if err == nil {
			r.Candidate, r.CandidateState, r.Ladder, r.Next = c.ID, c.State, &c.Ladder, NextOf(c, now)
		}
		return err
	})
}

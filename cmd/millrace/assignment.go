package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/ingest"
)

// newAssigner answers which checkpoint serves a unit, from what the control plane has decided.
func newAssigner(p *parts, clock func() time.Time) (*ingest.Assigner, error) {
	return ingest.NewAssigner(ingest.AssignConfig{}, func(ctx context.Context) (ingest.Ruleset, error) {
		return readRuleset(ctx, p, clock())
	}, clock, p.logger, p.registry)
}

// readRuleset reads the live version and the test that runs now, if there is one.
func readRuleset(ctx context.Context, p *parts, now time.Time) (ingest.Ruleset, error) {
	var (
		r                                    ingest.Ruleset
		experiment, salt, control, candidate *string
		coverage                             *float64
		starts, ends                         *time.Time
	)
	err := p.pool.QueryRow(ctx, `select live, experiment, salt, coverage, control, candidate, starts_at, ends_at, withdrawn,
			array(select distinct version from release) as former from assignment_ruleset`).
		Scan(&r.Live, &experiment, &salt, &coverage, &control, &candidate, &starts, &ends, &r.Withdrawn, &r.Former)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading what is live: %w", err)
	}
	if experiment != nil && !now.Before(*starts) && now.Before(*ends) {
		r.Experiment = &ingest.Experiment{ID: *experiment, Salt: *salt, Coverage: *coverage, Control: *control, Candidate: *candidate, ValidUntil: ends.UTC()}
	}
	return r, nil
}

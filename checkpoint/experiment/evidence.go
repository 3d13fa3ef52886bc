package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/gate"
)

// Snapshots begins transactions; a pool does.
type Snapshots interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// CommittedThrough is the least committed log time over the topic's partitions: up to here everything that was
// observed is in the sums. Zero while a partition has committed nothing.
func CommittedThrough(ctx context.Context, db Database, topic string, partitions int) (time.Time, error) {
	var (
		n     int
		least *time.Time
	)
	err := db.QueryRow(ctx, `select count(log_time), min(log_time) from partition where topic = $1 and partition < $2`, topic, partitions).Scan(&n, &least)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the committed log time: %w", err)
	}
	if n < partitions || least == nil {
		return time.Time{}, nil
	}
	return least.UTC(), nil
}

// Evidence reads the sums of an experiment, its units, exposed and with a settled turn, and the log time through which they are complete, all
// in one snapshot.
func Evidence(ctx context.Context, db Snapshots, e *Experiment, topic string, partitions int, now time.Time) (gate.Evidence, error) {
	out := gate.Evidence{
		Experiment: e.ID, Control: e.Control, Candidate: e.Candidate,
		Now: now.UTC(), StartsAt: e.StartsAt, CountsUntil: e.CountsUntil, EndsAt: e.EndsAt,
		Metrics: map[string]gate.ArmSums{},
	}
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return out, fmt.Errorf("read the evidence of %s: %w", e.ID, err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if out.CommittedThrough, err = CommittedThrough(ctx, tx, topic, partitions); err != nil {
		return out, err
	}
	if err := sums(ctx, tx, e.ID, out.Metrics); err != nil {
		return out, err
	}
	if out.ExposedUnits, out.MultiExposed, err = units(ctx, tx, "exposed_unit", e.ID); err != nil {
		return out, err
	}
	settled, _, err := units(ctx, tx, "settled_unit", e.ID)
	if err != nil {
		return out, err
	}
	out.UnitsWithTelemetry = &settled
	return out, nil
}

// units counts the distinct units of each arm in a table of them, and those that are in both.
func units(ctx context.Context, tx pgx.Tx, table, id string) (arms gate.Arms, both int64, err error) {
	err = tx.QueryRow(ctx, `
		select count(*) filter (where control), count(*) filter (where candidate), count(*) filter (where control and candidate)
		from (select bool_or(arm = 'control') as control, bool_or(arm = 'candidate') as candidate
			from `+table+` where experiment = $1 group by unit_hash) unit`, id).
		Scan(&arms.Control, &arms.Candidate, &both)
	if err != nil {
		return arms, both, fmt.Errorf("count the units of %s in %s: %w", id, table, err)
	}
	return arms, both, nil
}

func sums(ctx context.Context, tx pgx.Tx, id string, into map[string]gate.ArmSums) error {
	// One row for each metric and arm: a row for each bucket would take the most of an evaluation's time.
	rows, err := tx.Query(ctx, `
		select metric, arm, array_agg(bucket order by bucket), array_agg(num order by bucket), array_agg(den order by bucket) from metric_sum
		where experiment = $1 and arm in ('control', 'candidate') group by metric, arm order by metric, arm`, id)
	if err != nil {
		return fmt.Errorf("read the sums of %s: %w", id, err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			metric, arm string
			buckets     []int32
			nums, dens  []int64
		)
		if err := rows.Scan(&metric, &arm, &buckets, &nums, &dens); err != nil {
			return fmt.Errorf("read the sums of %s: %w", id, err)
		}
		sums := make([]gate.BucketSum, len(buckets))
		for i := range sums {
			sums[i] = gate.BucketSum{Bucket: int(buckets[i]), Num: nums[i], Den: dens[i]}
		}
		m := into[metric]
		if arm == "control" {
			m.Control = sums
		} else {
			m.Candidate = sums
		}
		into[metric] = m
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the sums of %s: %w", id, err)
	}
	return nil
}

package evals

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Report is what a suite said of a policy version.
type Report struct {
	Version        string             `json:"version"`
	Suite          string             `json:"suite"`
	HarnessVersion string             `json:"harness_version"`
	Metrics        map[string]float64 `json:"metrics"`
	Seeds          []int64            `json:"seeds,omitempty"`
	Tasks          json.RawMessage    `json:"tasks,omitempty"` // per-task results: a list
	At             time.Time          `json:"at"`              // of its arrival
	Who            string             `json:"who"`
}

// Check says what is wrong with a report before it is stored.
func (r *Report) Check() error {
	switch {
	case r.Version == "" || r.Suite == "":
		return fmt.Errorf("version %q and suite %q: both are needed", r.Version, r.Suite)
	case r.HarnessVersion == "":
		return fmt.Errorf("harness_version is missing: a suite counts only on the harness that serves")
	case len(r.Metrics) == 0:
		return fmt.Errorf("metrics are missing: a mapping from name to number")
	}
	for name, v := range r.Metrics {
		if name == "" || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("metric %q is %v: a name and a finite number are needed", name, v)
		}
	}
	if len(r.Tasks) > 0 {
		var list []json.RawMessage
		if err := json.Unmarshal(r.Tasks, &list); err != nil {
			return fmt.Errorf("tasks are not a list of per-task results")
		}
	}
	return nil
}

// Store appends a report.
func Store(ctx context.Context, tx pgx.Tx, r Report) error {
	metrics, err := json.Marshal(r.Metrics)
	if err != nil {
		return fmt.Errorf("encode the report of %s: %w", r.Suite, err)
	}
	seeds, err := json.Marshal(append([]int64{}, r.Seeds...))
	if err != nil {
		return fmt.Errorf("encode the report of %s: %w", r.Suite, err)
	}
	tasks := r.Tasks
	if len(tasks) == 0 {
		tasks = json.RawMessage("[]")
	}
	_, err = tx.Exec(ctx, `insert into eval_report (version, suite, harness_version, metrics, seeds, tasks, at, who) values ($1, $2, $3, $4, $5, $6, $7, $8)`,
		r.Version, r.Suite, r.HarnessVersion, metrics, seeds, tasks, r.At.UTC(), r.Who)
	if err != nil {
		return fmt.Errorf("store the report of %s on %s: %w", r.Suite, r.Version, err)
	}
	return nil
}

// Database is a pool, or a transaction.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Newest are the reports of versions that count: the last one of each suite, without its tasks. All versions if none is named.
func Newest(ctx context.Context, db Database, versions ...string) ([]Report, error) {
	rows, err := db.Query(ctx, `
		select distinct on (version, suite) version, suite, harness_version, metrics, seeds, at, who from eval_report
		where cardinality($1::text[]) = 0 or version = any($1) order by version, suite, id desc`, append([]string{}, versions...))
	if err != nil {
		return nil, fmt.Errorf("read eval reports: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Report, err error) {
		err = row.Scan(&r.Version, &r.Suite, &r.HarnessVersion, &r.Metrics, &r.Seeds, &r.At, &r.Who)
		r.At = r.At.UTC()
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read eval reports: %w", err)
	}
	return out, nil
}

func find(reports []Report, version, suite string) *Report {
	i := slices.IndexFunc(reports, func(r Report) bool { return r.Version == version && r.Suite == suite })
	if i < 0 {
		return nil
	}
	return &reports[i]
}

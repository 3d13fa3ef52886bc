package feed

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/schemas/manifest"
)

// Report is what Verify found.
type Report struct {
	Shards      int64    `json:"shards"`
	LedgerFiles int64    `json:"ledger_files"`
	Rows        int64    `json:"rows"`        // of the sample shards
	LedgerRows  int64    `json:"ledger_rows"` // once each
	Bytes       int64    `json:"bytes"`
	Problems    []string `json:"problems"` // empty: all is well
}

// Verify reads every committed shard, manifest and ledger file and compares size, SHA-256 and row count with what was committed.
// Its error says why it couldn't; what is wrong with the files stands in the report.
func Verify(ctx context.Context, pool *pgxpool.Pool, store objstore.Store) (Report, error) {
	report := Report{Problems: []string{}}
	rows, err := pool.Query(ctx, `select id, key, bytes, sha256, rows, policy_version, coalesce(number, 0), published
		from shard where kind = 'sample' order by policy_version, number nulls last, id`)
	if err != nil {
		return report, fmt.Errorf("reading the shards: %w", err)
	}
	type committed struct {
		ID            string
		Key           string
		Bytes         int64
		SHA256        string
		Rows          int64
		PolicyVersion string
		Number        int64
		Published     bool
	}
	shards, err := pgx.CollectRows(rows, pgx.RowToStructByPos[committed])
	if err != nil {
		return report, fmt.Errorf("reading the shards: %w", err)
	}
	next := map[string]int64{}
	for _, s := range shards {
		n, err := verifyFile(ctx, store, s.Key, s.Bytes, s.SHA256, s.Rows, func(body []byte) (int, error) {
			meta, rows, err := arrowfile.ReadShard(body)
			if err == nil && meta.PolicyVersion != s.PolicyVersion {
				err = fmt.Errorf("policy version %q, committed as %q", meta.PolicyVersion, s.PolicyVersion)
			}
			return len(rows), err
		})
		if err := report.count(n, &report.Shards, &report.Rows, s.Bytes, "shard "+s.ID, err); err != nil {
			return report, err
		}
		if s.Number == 0 {
			continue
		}
		if next[s.PolicyVersion]++; s.Number != next[s.PolicyVersion] {
			report.Problems = append(report.Problems, fmt.Sprintf("policy %s: number %d where %d should follow", s.PolicyVersion, s.Number, next[s.PolicyVersion]))
			next[s.PolicyVersion] = s.Number
		}
		if !s.Published {
			continue
		}
		key := manifest.Key(s.PolicyVersion, s.Number)
		body, err := store.Get(ctx, key)
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return report, err
		}
		if m, bad := manifest.Decode(body); err != nil || bad != nil || m.ID != s.ID || m.SHA256 != s.SHA256 || m.Rows != s.Rows {
			report.Problems = append(report.Problems, fmt.Sprintf("%s is missing or says something else than shard %s", key, s.ID))
		}
	}
	files, err := LedgerFiles(ctx, pool)
	if err != nil {
		return report, err
	}
	for _, l := range files {
		n, err := verifyFile(ctx, store, l.Key, l.Bytes, l.SHA256, l.Rows, func(body []byte) (int, error) {
			rows, err := arrowfile.ReadLedger(body)
			return len(rows), err
		})
		if err := report.count(n, &report.LedgerFiles, &report.LedgerRows, l.Bytes, l.Key, err); err != nil {
			return report, err
		}
	}
	return report, nil
}

// count adds a file, or what is wrong with it; an error of the store itself comes back.
func (r *Report) count(n int64, files, rows *int64, bytes int64, what string, err error) error {
	*files++
	*rows += n
	r.Bytes += bytes
	if err != nil && objstore.Retryable(err) {
		return err
	}
	if err != nil {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: %v", what, err))
	}
	return nil
}

func verifyFile(ctx context.Context, store objstore.Store, key string, size int64, digest string, rows int64, decode func([]byte) (int, error)) (int64, error) {
	body, err := store.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	if int64(len(body)) != size {
		return 0, fmt.Errorf("%d bytes, committed were %d", len(body), size)
	}
	if got := arrowfile.SHA256(body); got != digest {
		return 0, fmt.Errorf("SHA-256 %s, committed was %s", got, digest)
	}
	n, err := decode(body)
	if err == nil && int64(n) != rows {
		err = fmt.Errorf("%d rows, committed were %d", n, rows)
	}
	return int64(n), err
}

package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
)

// LedgerFile is a Parquet file of committed ledger rows.
type LedgerFile struct {
	Key         string    `json:"key"` // in the object store
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Span        Span      `json:"span"`
	Start       time.Time `json:"start"`        // log time of the commits that it holds: from here …
	End         time.Time `json:"end"`          // … to before this
	FirstOffset int64     `json:"first_offset"` // of its first commit
	LastOffset  int64     `json:"last_offset"`
	Rows        int64     `json:"rows"`
	Bytes       int64     `json:"bytes"`
	SHA256      string    `json:"sha256"`
}

// LedgerFiles lists the files that together hold every committed ledger row once, by topic, partition and offset. A file
// that is compacted in the meantime stays readable for the grace period.
func LedgerFiles(ctx context.Context, pool *pgxpool.Pool) ([]LedgerFile, error) {
	rows, err := pool.Query(ctx, `
		select key, topic, partition, span, span_start, span_start + case span when 'day' then interval '24 hours' else interval '1 hour' end,
			first_offset, last_offset, rows, bytes, sha256
		from ledger_file where day_file is null
		union all
		select key, topic, partition, 'commit', log_time, log_time + interval '1 microsecond', first_offset, last_offset, rows, bytes, sha256
		from shard where kind = 'ledger' and ledger_file is null
		order by topic, partition, first_offset`)
	if err != nil {
		return nil, fmt.Errorf("listing the ledger's files: %w", err)
	}
	files, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LedgerFile])
	if err != nil {
		return nil, fmt.Errorf("listing the ledger's files: %w", err)
	}
	for i := range files {
		files[i].Start, files[i].End = files[i].Start.UTC(), files[i].End.UTC()
	}
	return files, nil
}

// Between leaves those of the listed files that may hold rows which settled from one time to before another; a zero
// time is no bound. A commit's rows settled before it or at it, so of each partition the first file behind the end may
// hold some too.
func Between(files []LedgerFile, from, to time.Time) []LedgerFile {
	type partition struct {
		topic  string
		number int32
	}
	var out []LedgerFile
	last := map[partition]bool{}
	for _, l := range files {
		p := partition{l.Topic, l.Partition}
		if !from.IsZero() && !l.End.After(from) || last[p] {
			continue
		}
		last[p] = !to.IsZero() && !l.Start.Before(to)
		out = append(out, l)
	}
	return out
}

// Get reads the file and checks that it is what was committed.
func (l LedgerFile) Get(ctx context.Context, store objstore.Store) ([]byte, error) {
	body, err := store.Get(ctx, l.Key)
	if err != nil {
		return nil, err
	}
	if int64(len(body)) != l.Bytes || arrowfile.SHA256(body) != l.SHA256 {
		return nil, fmt.Errorf("%s is damaged: %d bytes, not the %d with SHA-256 %s that were committed", l.Key, len(body), l.Bytes, l.SHA256)
	}
	return body, nil
}

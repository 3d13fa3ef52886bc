package feed

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/ledger"
)

// closedHours are the hours of log time that are over for their partition, and still have ledger shards of their own.
// A partition's log time never goes back, so nothing can be added to such an hour.
const closedHours = `
	select s.topic, s.partition, date_trunc('hour', s.log_time, 'UTC') as hour
	from shard s join partition p using (topic, partition)
	where s.kind = 'ledger' and s.ledger_file is null and p.log_time >= date_trunc('hour', s.log_time, 'UTC') + interval '1 hour'
	group by 1, 2, 3 order by 3, 1, 2`

// hour is one partition's hour of log time.
type hour struct {
	Topic     string
	Partition int32
	Hour      time.Time
}

// source is a ledger shard as distill committed it.
type source struct {
	ID          string
	Key         string
	SHA256      string
	Bytes       int64
	Rows        int64
	FirstOffset int64
	LastOffset  int64
}

// compact brings the ledger shards of whole hours together into files below ledger/, which so hold every committed
// row of these hours once.
func (f *Feed) compact(ctx context.Context, term int64) error {
	rows, err := f.pool.Query(ctx, closedHours)
	if err != nil {
		return fmt.Errorf("looking for whole hours of the ledger: %w", err)
	}
	hours, err := pgx.CollectRows(rows, pgx.RowToStructByPos[hour])
	if err != nil {
		return fmt.Errorf("looking for whole hours of the ledger: %w", err)
	}
	var failed error
	for _, h := range hours {
		if err := f.compactHour(ctx, term, h); err != nil {
			err = fmt.Errorf("ledger of partition %d of %s, hour %s: %w", h.Partition, h.Topic, h.Hour.UTC().Format(time.RFC3339), err)
			if ctx.Err() != nil || errors.Is(err, postgres.ErrFenced) || objstore.Retryable(err) {
				return errors.Join(failed, err)
			}
			failed = errors.Join(failed, err) // a damaged source of one hour keeps no other hour waiting
		}
	}
	return failed
}

func (f *Feed) compactHour(ctx context.Context, term int64, h hour) error {
	rows, err := f.pool.Query(ctx, `select id, key, sha256, bytes, rows, first_offset, last_offset from shard
		where kind = 'ledger' and ledger_file is null and topic = $1 and partition = $2 and log_time >= $3 and log_time < $4
		order by first_offset`, h.Topic, h.Partition, h.Hour, h.Hour.Add(time.Hour))
	if err != nil {
		return err
	}
	sources, err := pgx.CollectRows(rows, pgx.RowToStructByPos[source])
	if err != nil {
		return err
	}
	for len(sources) > 0 {
		n, size := 0, int64(0)
		for n < len(sources) && (n == 0 || size+sources[n].Rows <= f.cfg.FileRows) {
			size += sources[n].Rows
			n++
		}
		if err := f.compactSources(ctx, term, h, sources[:n]); err != nil {
			return err
		}
		sources = sources[n:]
	}
	return nil
}

// compactSources writes one file and then, in one transaction, registers it and marks its sources. A crash between the two does
// the same again: the same sources are joined into the same bytes under the same name.
func (f *Feed) compactSources(ctx context.Context, term int64, h hour, sources []source) error {
	var all []ledger.Row
	ids := make([]string, len(sources))
	for i, s := range sources {
		rows, err := f.readSource(ctx, s)
		if err != nil {
			return err
		}
		all = append(all, rows...)
		ids[i] = s.ID
	}
	body, err := arrowfile.WriteLedger(all)
	if err != nil {
		return err
	}
	first, last := sources[0], sources[len(sources)-1]
	key := fmt.Sprintf("ledger/%s-%d-%s-%020d.parquet", h.Topic, h.Partition, h.Hour.UTC().Format("2006010215"), first.FirstOffset)
	if body, err = f.putLedger(ctx, key, body, all); err != nil {
		return err
	}
	return postgres.InTx(ctx, f.pool, func(tx pgx.Tx) error {
		if err := postgres.CheckTerm(ctx, tx, publisher, term); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into ledger_file (key, topic, partition, hour, first_offset, last_offset, rows, bytes, sha256)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			key, h.Topic, h.Partition, h.Hour, first.FirstOffset, last.LastOffset, len(all), len(body), arrowfile.SHA256(body)); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `update shard set ledger_file = $1 where id = any($2) and ledger_file is null`, key, ids)
		if err == nil && tag.RowsAffected() != int64(len(ids)) {
			err = fmt.Errorf("%d of its %d sources were left", tag.RowsAffected(), len(ids))
		}
		return err
	})
}

func (f *Feed) readSource(ctx context.Context, s source) ([]ledger.Row, error) {
	body, err := f.store.Get(ctx, s.Key)
	if err != nil {
		return nil, err
	}
	if int64(len(body)) != s.Bytes || arrowfile.SHA256(body) != s.SHA256 {
		return nil, fmt.Errorf("%s is damaged: %d bytes, not the %d with SHA-256 %s that were committed", s.Key, len(body), s.Bytes, s.SHA256)
	}
	rows, err := arrowfile.ReadLedger(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Key, err)
	}
	if int64(len(rows)) != s.Rows {
		return nil, fmt.Errorf("%s has %d rows, and %d were committed", s.Key, len(rows), s.Rows)
	}
	return rows, nil
}

// putLedger writes a file and reads it back. If a former publisher wrote other bytes under the name and died before it
// registered them (another build may compress otherwise), those are kept if their rows are the same.
func (f *Feed) putLedger(ctx context.Context, key string, body []byte, rows []ledger.Row) ([]byte, error) {
	err := f.store.PutIfAbsent(ctx, key, body)
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return nil, err
	}
	there, readErr := f.store.Get(ctx, key)
	if readErr != nil {
		return nil, readErr
	}
	if err == nil {
		if arrowfile.SHA256(there) != arrowfile.SHA256(body) {
			return nil, fmt.Errorf("%s reads back with other bytes than were written", key)
		}
		return body, nil
	}
	other, readErr := arrowfile.ReadLedger(there)
	if readErr != nil {
		return nil, fmt.Errorf("%s: %w (%w)", key, err, readErr)
	}
	if !reflect.DeepEqual(other, rows) {
		return nil, fmt.Errorf("%s: %w, with other rows", key, err)
	}
	return there, nil
}

// LedgerFile is a Parquet file of committed ledger rows.
type LedgerFile struct {
	Key         string // in the object store
	Topic       string
	Partition   int32
	FirstOffset int64 // of its first commit
	LastOffset  int64
	Rows        int64
	Bytes       int64
	SHA256      string
	Compacted   bool // a whole hour below ledger/; else one commit's file, in an hour that isn't over
}

// LedgerFiles lists the files that together hold every committed ledger row once, by topic, partition and offset. A file
// that is compacted in the meantime stays readable for the grace period.
func LedgerFiles(ctx context.Context, pool *pgxpool.Pool) ([]LedgerFile, error) {
	rows, err := pool.Query(ctx, `
		select key, topic, partition, first_offset, last_offset, rows, bytes, sha256, true from ledger_file
		union all
		select key, topic, partition, first_offset, last_offset, rows, bytes, sha256, false from shard where kind = 'ledger' and ledger_file is null
		order by topic, partition, first_offset`)
	if err != nil {
		return nil, fmt.Errorf("listing the ledger's files: %w", err)
	}
	files, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LedgerFile])
	if err != nil {
		return nil, fmt.Errorf("listing the ledger's files: %w", err)
	}
	return files, nil
}

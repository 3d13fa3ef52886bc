package feed

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"

	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/ledger"
)

// compact brings what distill committed together into files of whole hours below ledger/, and those into files of whole
// days. At each moment LedgerFiles names every committed row once.
func (f *Feed) compact(ctx context.Context, term int64) error {
	var failed error
	for _, l := range levels {
		rows, err := f.pool.Query(ctx, l.over+` order by start, topic, partition`)
		if err != nil {
			return errors.Join(failed, fmt.Errorf("looking for whole %ss of the ledger: %w", l.span, err))
		}
		periods, err := pgx.CollectRows(rows, pgx.RowToStructByPos[period])
		if err != nil {
			return errors.Join(failed, fmt.Errorf("looking for whole %ss of the ledger: %w", l.span, err))
		}
		for _, p := range periods {
			if err := f.compactPeriod(ctx, term, l, p); err != nil {
				err = fmt.Errorf("%s: %w", l.of(p), err)
				if ctx.Err() != nil || errors.Is(err, postgres.ErrFenced) || objstore.Retryable(err) {
					return errors.Join(failed, err)
				}
				failed = errors.Join(failed, err) // a damaged source of one period keeps no other period waiting
			}
		}
	}
	return failed
}

func (f *Feed) compactPeriod(ctx context.Context, term int64, l level, p period) error {
	rows, err := f.pool.Query(ctx, l.sources, p.Topic, p.Partition, p.Start, p.Start.Add(l.length))
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
		if err := f.compactSources(ctx, term, l, p, sources[:n]); err != nil {
			return err
		}
		sources = sources[n:]
	}
	return nil
}

// compactSources writes one file and then, in one transaction, registers it and marks its sources. A crash between the two does
// the same again: the same sources are joined into the same bytes under the same name. Rows keep their order, and a
// chain, which one commit wrote, stays together.
func (f *Feed) compactSources(ctx context.Context, term int64, l level, p period, sources []source) error {
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
	key := l.key(p, first.FirstOffset, last.LastOffset)
	if body, err = f.putLedger(ctx, key, body, all); err != nil {
		return err
	}
	return postgres.InTx(ctx, f.pool, func(tx pgx.Tx) error {
		if err := postgres.CheckTerm(ctx, tx, publisher, term); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into ledger_file (key, topic, partition, span, span_start, first_offset, last_offset, rows, bytes, sha256)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			key, p.Topic, p.Partition, l.span, p.Start, first.FirstOffset, last.LastOffset, len(all), len(body), arrowfile.SHA256(body)); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, l.mark, key, ids)
		if err == nil && tag.RowsAffected() != int64(len(ids)) {
			err = fmt.Errorf("%d of its %d sources were left", tag.RowsAffected(), len(ids))
		}
		return err
	})
}

func (f *Feed) readSource(ctx context.Context, s source) ([]ledger.Row, error) {
	body, err := LedgerFile{Key: s.Key, Bytes: s.Bytes, SHA256: s.SHA256}.Get(ctx, f.store)
	if err != nil {
		return nil, err
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

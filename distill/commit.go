package distill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"millrace/distill/account"
	"millrace/distill/engine"
	"millrace/internal/postgres"
)

// commit is THE transaction. It moves the partition's position and makes the batch's files visible, together or
// not at all:
//
//  1. the fence: the row of the partition must still have our epoch and the offset that the batch begins at;
//  2. the files, which exist for everybody else only from now on;
//  3. the accounting of records and turns;
//  4. the A/B sums and the units that took part;
//  5. the cut marks that the batch passed.
//
// ErrFenced: somebody else has the partition; everything is dropped. Any other error, but one that the server has
// answered with, may come after the commit has happened: the caller takes the lease again and reads what is true, and
// never tries the transaction twice.
func (w *worker) commit(ctx context.Context, b *batch, files []object, state object, counts account.Balance, eng *engine.Engine) error {
	asked := time.Now()
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := w.fence(ctx, tx, b, state, eng); err != nil {
			return err
		}
		if err := w.insertFiles(ctx, tx, b, files, eng); err != nil {
			return err
		}
		if err := w.addCounts(ctx, tx, counts); err != nil {
			return err
		}
		if err := w.addSums(ctx, tx, b); err != nil {
			return err
		}
		if err := w.insertMarks(ctx, tx, b); err != nil {
			return err
		}
		if err := w.reached("commit: last statement done"); err != nil {
			return err
		}
		return w.prolongLate(ctx, tx, asked)
	})
	if err != nil {
		return fmt.Errorf("committing offsets %d to %d of partition %d: %w", b.first, b.last, w.lease.Partition, err)
	}
	w.lease.prolong(asked, w.leases.term)
	return w.reached("commit: answered")
}

// fence moves the position if, and only if, we still hold the partition at the place where the batch began.
func (w *worker) fence(ctx context.Context, tx pgx.Tx, b *batch, state object, eng *engine.Engine) error {
	balance := eng.Account()
	tag, err := tx.Exec(ctx, `update partition set
			committed_offset = $5, low_watermark = $6, log_time = $7, state_key = $8, state_sha256 = $9, log_digest = $10,
			turns_opened = $11, turns_open = $12, lease_until = now() + make_interval(secs => $13)
		where topic = $1 and partition = $2 and epoch = $3 and committed_offset = $4`,
		w.lease.Topic, w.lease.Partition, w.lease.Epoch, b.first,
		b.last+1, eng.LowWatermark(b.last+1), time.UnixMicro(eng.LogTime()).UTC(), state.key, state.sha256, b.logDigest,
		balance.Opened, balance.Open, w.leases.term.Seconds())
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return ErrFenced
	}
	return w.reached("commit: position moved")
}

// prolongLate gives a transaction that took long a lease from its end on: the fence's counts from its beginning.
func (w *worker) prolongLate(ctx context.Context, tx pgx.Tx, asked time.Time) error {
	if time.Since(asked) < w.leases.term/4 {
		return nil
	}
	_, err := tx.Exec(ctx, `update partition set lease_until = clock_timestamp() + make_interval(secs => $3)
		where topic = $1 and partition = $2`, w.lease.Topic, w.lease.Partition, w.leases.term.Seconds())
	return err
}

func (w *worker) insertFiles(ctx context.Context, tx pgx.Tx, b *batch, files []object, eng *engine.Engine) error {
	for _, o := range files {
		_, err := tx.Exec(ctx, `insert into shard (id, kind, topic, partition, first_offset, last_offset, policy_version,
				key, bytes, sha256, rows, trained_tokens, reward_sum, reward_spec, log_time)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
			o.id, o.kind, w.lease.Topic, w.lease.Partition, b.first, b.last, o.policyVersion,
			o.key, o.bytes, o.sha256, o.rows, o.trainedTokens, o.rewardSum, o.rewardSpec, time.UnixMicro(eng.LogTime()).UTC())
		if err != nil {
			return fmt.Errorf("shard %s: %w", o.id, err)
		}
	}
	return w.reached("commit: files named")
}

func (w *worker) addCounts(ctx context.Context, tx pgx.Tx, counts account.Balance) error {
	for _, class := range account.Classes {
		if n := counts.Records[class]; n > 0 {
			if _, err := tx.Exec(ctx, `insert into account_records (topic, partition, class, records) values ($1, $2, $3, $4)
				on conflict (topic, partition, class) do update set records = account_records.records + excluded.records`,
				w.lease.Topic, w.lease.Partition, class, n); err != nil {
				return fmt.Errorf("accounting of records: %w", err)
			}
		}
	}
	for key, n := range counts.Settled {
		if _, err := tx.Exec(ctx, `insert into account_turns (topic, partition, policy_version, arm, disposition, turns)
			values ($1, $2, $3, $4, $5, $6)
			on conflict (topic, partition, policy_version, arm, disposition) do update set turns = account_turns.turns + excluded.turns`,
			w.lease.Topic, w.lease.Partition, key.PolicyVersion, key.Arm, string(key.Disposition), n); err != nil {
			return fmt.Errorf("accounting of turns: %w", err)
		}
	}
	return w.reached("commit: accounted")
}

// addSums writes the rows that all partitions share, each kind in one statement and in key order, so that commits
// can't deadlock.
func (w *worker) addSums(ctx context.Context, tx pgx.Tx, b *batch) error {
	if keys := b.sumsInOrder(); len(keys) > 0 {
		n := len(keys)
		experiments, metrics, arms := make([]string, n), make([]string, n), make([]string, n)
		buckets, nums, dens := make([]int32, n), make([]int64, n), make([]int64, n)
		for i, k := range keys {
			experiments[i], metrics[i], arms[i], buckets[i] = k.experiment, k.metric, k.arm, int32(k.bucket)
			nums[i], dens[i] = b.sums[k].num, b.sums[k].den
		}
		if _, err := tx.Exec(ctx, `insert into metric_sum (experiment, metric, arm, bucket, num, den)
			select * from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::bigint[], $6::bigint[])
			on conflict (experiment, metric, arm, bucket) do update set num = metric_sum.num + excluded.num, den = metric_sum.den + excluded.den`,
			experiments, metrics, arms, buckets, nums, dens); err != nil {
			return fmt.Errorf("sums: %w", err)
		}
	}
	for _, units := range []struct {
		table string
		keys  []engine.Exposure
	}{{"exposed_unit", inOrder(b.exposed)}, {"settled_unit", inOrder(b.settled)}} {
		n := len(units.keys)
		experiments, hashes, arms := make([]string, n), make([]string, n), make([]string, n)
		for i, k := range units.keys {
			experiments[i], hashes[i], arms[i] = k.Experiment, k.UnitHash, k.Arm
		}
		if _, err := tx.Exec(ctx, `insert into `+units.table+` (experiment, unit_hash, arm)
			select * from unnest($1::text[], $2::text[], $3::text[]) on conflict do nothing`, experiments, hashes, arms); err != nil {
			return fmt.Errorf("units of %s: %w", units.table, err)
		}
	}
	return w.reached("commit: sums added")
}

func (w *worker) insertMarks(ctx context.Context, tx pgx.Tx, b *batch) error {
	for _, m := range b.marks {
		// The first mark of a cut counts: a late retry of the same record moves nothing.
		if _, err := tx.Exec(ctx, `insert into cut_mark (cut, topic, partition, "offset") values ($1, $2, $3, $4) on conflict do nothing`,
			m.cut, w.lease.Topic, w.lease.Partition, m.offset); err != nil {
			return fmt.Errorf("mark of %s: %w", m.cut, err)
		}
	}
	return nil
}

// refused says whether the server has answered that it did not take the transaction: nothing of it has happened. One
// that is going down, or gone, may have taken it all the same.
func refused(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && !postgres.Away(err)
}

// lostHold says whether the partition is no longer ours, so that nothing may be tried again.
func lostHold(err error) bool { return errors.Is(err, ErrFenced) || errors.Is(err, ErrLeaseLost) }

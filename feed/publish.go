package feed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"millrace/internal/postgres"
	"millrace/schemas/manifest"
	"millrace/schemas/sample"
)

// channel is where Postgres tells every feed that there is something new.
const channel = "millrace_shards"

// number gives the next numbers of their policy version's sequence to committed shards: by log time, then by their
// place in the log, among those that are visible now. A number is never changed, and there are no gaps.
func (f *Feed) number(ctx context.Context, term int64) error {
	var waiting bool
	if err := f.pool.QueryRow(ctx, `select exists (select from shard where kind = 'sample' and number is null)`).Scan(&waiting); err != nil {
		return fmt.Errorf("looking for new shards: %w", err)
	}
	if !waiting {
		return nil
	}
	err := postgres.InTx(ctx, f.pool, func(tx pgx.Tx) error {
		if err := postgres.CheckTerm(ctx, tx, publisher, term); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			with fresh as (
				select id, policy_version,
					row_number() over (partition by policy_version order by log_time, topic, partition, first_offset, id) as place
				from shard where kind = 'sample' and number is null
			)
			update shard s set number = fresh.place + coalesce((select max(number) from shard l where l.policy_version = fresh.policy_version), 0)
			from fresh where s.id = fresh.id`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `select pg_notify($1, '')`, channel)
		return err
	})
	if err != nil {
		return fmt.Errorf("numbering shards: %w", err)
	}
	return nil
}

// publish writes the manifests of numbered shards into the object store, in order, and then remembers that it did. A crash between the
// two writes them again: a manifest is made of its row alone, and an equal object is success.
func (f *Feed) publish(ctx context.Context, term int64) error {
	for {
		rows, err := f.pool.Query(ctx, shardQuery+` where number is not null and not published order by policy_version, number limit 500`)
		if err != nil {
			return fmt.Errorf("reading numbered shards: %w", err)
		}
		shards, err := pgx.CollectRows(rows, scanShard)
		if err != nil {
			return fmt.Errorf("reading numbered shards: %w", err)
		}
		if len(shards) == 0 {
			return nil
		}
		ids := make([]string, len(shards))
		for i, s := range shards {
			body, err := s.Encode()
			if err != nil {
				return err
			}
			if err := f.store.PutIfAbsent(ctx, manifest.Key(s.PolicyVersion, s.Number), body); err != nil {
				return fmt.Errorf("publishing shard %s: %w", s.ID, err)
			}
			ids[i] = s.ID
		}
		err = postgres.InTx(ctx, f.pool, func(tx pgx.Tx) error {
			if err := postgres.CheckTerm(ctx, tx, publisher, term); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `update shard set published = true where id = any($1)`, ids)
			return err
		})
		if err != nil {
			return fmt.Errorf("marking shards as published: %w", err)
		}
	}
}

const shardQuery = `select policy_version, number, id, key, bytes, sha256, rows, trained_tokens, reward_sum,
	topic, partition, first_offset, last_offset, reward_spec, log_time from shard`

func scanShard(row pgx.CollectableRow) (manifest.Shard, error) {
	s := manifest.Shard{APIVersion: manifest.APIVersion, Kind: manifest.Kind, Schema: sample.SchemaVersion}
	var sum float64
	err := row.Scan(&s.PolicyVersion, &s.Number, &s.ID, &s.URI, &s.Bytes, &s.SHA256, &s.Rows, &s.TrainedTokens, &sum,
		&s.Topic, &s.Partition, &s.FirstOffset, &s.LastOffset, &s.RewardSpec, &s.LogTime)
	if s.Rows > 0 {
		s.RewardMean = sum / float64(s.Rows)
	}
	s.LogTime = s.LogTime.UTC()
	return s, err
}

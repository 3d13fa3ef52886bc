package cut

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Fate is what a shard is to the cut that counts it.
type Fate string

// The fates.
const (
	Taken      Fate = "taken"      // of the base version: in the parts, but for what is capped
	Superseded Fate = "superseded" // of a version that was live before the base
	Stale      Fate = "stale"      // of any other version
)

// Shard is a sample shard that the cut counts.
type Shard struct {
	ID            string `json:"id"`
	PolicyVersion string `json:"policy_version"`
	Partition     int32  `json:"partition"`
	FirstOffset   int64  `json:"first_offset"`
	LastOffset    int64  `json:"last_offset"`
	Key           string `json:"key"`
	SHA256        string `json:"sha256"`
	Bytes         int64  `json:"bytes"`
	Rows          int64  `json:"rows"`
	RewardSpec    string `json:"reward_spec"`
	Fate          Fate   `json:"fate"`
}

// Select finds every sample shard that was committed before the cut's marks and that no cut has counted yet, in the
// order of the log. Since every partition has committed past its mark, the answer is final; of a partition that a person
// let the cut go on without there is nothing, whether it has passed its mark by now or not.
func Select(ctx context.Context, q querier, c *Cut) ([]Shard, error) {
	former, err := formerlyLive(ctx, q, c.Base)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, `
		select s.id, s.policy_version, s.partition, s.first_offset, s.last_offset, s.key, s.sha256, s.bytes, s.rows, s.reward_spec
		from shard s
		join cut_mark m on m.cut = $1 and m.topic = s.topic and m.partition = s.partition and s.last_offset < m."offset"
		where s.kind = 'sample' and s.topic = $2 and not exists (select from cut_shard x where x.shard = s.id)
			and not exists (select from cut_absence a where a.cut = $1 and a.partition = s.partition)
		order by s.partition, s.first_offset, s.id`, c.ID, c.Topic)
	if err != nil {
		return nil, fmt.Errorf("select the shards of %s: %w", c.ID, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Shard, error) {
		var s Shard
		err := row.Scan(&s.ID, &s.PolicyVersion, &s.Partition, &s.FirstOffset, &s.LastOffset, &s.Key, &s.SHA256, &s.Bytes, &s.Rows, &s.RewardSpec)
		switch {
		case s.PolicyVersion == c.Base:
			s.Fate = Taken
		case former[s.PolicyVersion]:
			s.Fate = Superseded
		default:
			s.Fate = Stale
		}
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("select the shards of %s: %w", c.ID, err)
	}
	return out, nil
}

// Waiting is how many rows of a version wait for a cut.
func Waiting(ctx context.Context, tx pgx.Tx, topic, version string) (rows int64, err error) {
	err = tx.QueryRow(ctx, `
		select coalesce(sum(s.rows), 0)::bigint from shard s
		where s.kind = 'sample' and s.topic = $1 and s.policy_version = $2 and not exists (select from cut_shard x where x.shard = s.id)`, topic, version).Scan(&rows)
	if err != nil {
		return 0, fmt.Errorf("count the rows of %s that wait for a cut: %w", version, err)
	}
	return rows, nil
}

// formerlyLive are the versions that were live before the base was, the last time it became live.
func formerlyLive(ctx context.Context, q querier, base string) (map[string]bool, error) {
	rows, err := q.Query(ctx, `
		select distinct version from release
		where seq < (select max(seq) from release where version = $1) and version <> $1 and action <> 'rollback'
			and not exists (select from release r where r.action = 'rollback' and r.former = release.version)`, base)
	if err != nil {
		return nil, fmt.Errorf("read which versions were live before %s: %w", base, err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read which versions were live before %s: %w", base, err)
	}
	out := map[string]bool{}
	for _, v := range versions {
		out[v] = true
	}
	return out, nil
}

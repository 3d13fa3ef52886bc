package feed

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// stagingName is how distill names what it writes: topic, partition, the commit's first and last offset, digest, kind.
var stagingName = regexp.MustCompile(`^staging/([^/]+)/(\d+)/[^/]+-\d+-(\d+)-[0-9a-f]+\.(sample|ledger|state)\.[a-z]+$`)

// stagedObject is an object below staging/, as its name tells.
type stagedObject struct {
	key        string
	topic      string
	partition  int32
	lastOffset int64
}

// Collect deletes the objects below staging/ that nothing names and nothing ever will: those whose commit would have
// ended below their partition's committed offset, but that have no row (a crash or a lost lease came before the commit);
// states that a later commit replaced; and ledger shards that were compacted longer than the grace period ago. What lies above the
// committed offset may be in flight. It returns the keys that it deleted. Objects with other names are left alone.
func (f *Feed) Collect(ctx context.Context) ([]string, error) {
	keys, err := f.store.List(ctx, "staging/")
	if err != nil {
		return nil, fmt.Errorf("garbage collection: %w", err)
	}
	// The positions are read after the list: whatever is listed and lies below them can't be committed any more.
	var objects []stagedObject
	for _, key := range keys {
		if o, ok := parseStaged(key); ok {
			objects = append(objects, o)
		}
	}
	var deleted []string
	for len(objects) > 0 {
		n := min(len(objects), 1000)
		garbage, err := f.garbage(ctx, objects[:n])
		if err != nil {
			return deleted, fmt.Errorf("garbage collection: %w", err)
		}
		for _, key := range garbage {
			if err := f.store.Delete(ctx, key); err != nil {
				return deleted, fmt.Errorf("garbage collection: %w", err)
			}
			deleted = append(deleted, key)
		}
		objects = objects[n:]
	}
	if len(deleted) > 0 {
		f.log.Info("garbage collected", "objects", len(deleted))
	}
	return deleted, nil
}

func parseStaged(key string) (stagedObject, bool) {
	m := stagingName.FindStringSubmatch(key)
	if m == nil {
		return stagedObject{}, false
	}
	partition, bad1 := strconv.ParseInt(m[2], 10, 32)
	last, bad2 := strconv.ParseInt(m[3], 10, 64)
	return stagedObject{key, m[1], int32(partition), last}, errors.Join(bad1, bad2) == nil
}

func (f *Feed) garbage(ctx context.Context, objects []stagedObject) ([]string, error) {
	n := len(objects)
	keys, topics, partitions, lasts := make([]string, n), make([]string, n), make([]int32, n), make([]int64, n)
	for i, o := range objects {
		keys[i], topics[i], partitions[i], lasts[i] = o.key, o.topic, o.partition, o.lastOffset
	}
	rows, err := f.pool.Query(ctx, `
		select o.key
		from unnest($1::text[], $2::text[], $3::int[], $4::bigint[]) as o (key, topic, partition, last_offset)
		join partition p on p.topic = o.topic and p.partition = o.partition
		left join shard s on s.key = o.key
		left join ledger_file l on l.key = s.ledger_file
		where o.last_offset < p.committed_offset and o.key is distinct from p.state_key
			and (s.key is null or l.compacted_at < now() - $5::interval)
		order by o.key`, keys, topics, partitions, lasts, f.cfg.Grace)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

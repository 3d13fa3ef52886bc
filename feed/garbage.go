package feed

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	// stagingName is how distill names what it writes: topic, partition, the commit's first and last offset, digest, kind.
	stagingName = regexp.MustCompile(`^staging/([^/]+)/(\d+)/[^/]+-\d+-(\d+)-[0-9a-f]+\.(sample|ledger|state)\.[a-z]+$`)
	// ledgerName is how the compaction names what it writes: topic, partition, day with or without an hour, offsets.
	ledgerName = regexp.MustCompile(`^ledger/([^/]+)-(\d+)-(\d{8})(?:\d{2})?-\d{20}(?:-\d{20})?\.parquet$`)
)

// named is an object as its name tells.
type named struct {
	key        string
	topic      string
	partition  int32
	lastOffset int64
	day        time.Time // of a ledger file
}

// collection is one of the places in which garbage can lie.
type collection struct {
	prefix  string
	parse   func(key string) (named, bool)
	garbage string // the keys among $1 that may go; $2 topics, $3 partitions, $4 last offsets, $5 days, $6 grace
}

const listed = `from unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::timestamptz[]) as o (key, topic, partition, last_offset, day)
	join partition p on p.topic = o.topic and p.partition = o.partition`

var collections = []collection{
	{
		prefix: "staging/", parse: parseStaged,
		garbage: `select o.key ` + listed + `
			left join shard s on s.key = o.key
			left join ledger_file l on l.key = s.ledger_file
			where o.last_offset < p.committed_offset and o.key is distinct from p.state_key
				and (s.key is null or l.compacted_at < now() - $6::interval)
			order by o.key`,
	},
	{
		// A file that no row names may still be on its way to one, of whichever publisher: until all that it could
		// hold stands in files of the day.
		prefix: "ledger/", parse: parseLedger,
		garbage: `select o.key ` + listed + `
			left join ledger_file l on l.key = o.key
			left join ledger_file d on d.key = l.day_file
			where d.compacted_at < now() - $6::interval
				or l.key is null and p.log_time >= o.day + interval '24 hours'
					and not exists (select from shard s where s.kind = 'ledger' and s.ledger_file is null and s.topic = o.topic
						and s.partition = o.partition and s.log_time < o.day + interval '24 hours')
					and not exists (select from ledger_file h where h.span = 'hour' and h.day_file is null and h.topic = o.topic
						and h.partition = o.partition and h.span_start < o.day + interval '24 hours')
			order by o.key`,
	},
}

// Collect deletes what nothing names and nothing ever will. In staging/: objects whose commit would have ended below
// their partition's committed offset, but that have no row (a crash or a lost lease came before the commit); states that
// a later commit replaced; and ledger shards that were compacted longer than the grace period ago. What lies above the
// committed offset may be in flight. In ledger/: hours that became part of a day longer than the grace period ago, and
// files of whole days that were never registered. It returns the keys that it deleted. Objects with other names are left
// alone.
func (f *Feed) Collect(ctx context.Context) ([]string, error) {
	var deleted []string
	for _, c := range collections {
		gone, err := f.collect(ctx, c)
		deleted = append(deleted, gone...)
		if err != nil {
			return deleted, fmt.Errorf("garbage collection: %w", err)
		}
	}
	if len(deleted) > 0 {
		f.log.Info("garbage collected", "objects", len(deleted))
	}
	return deleted, nil
}

func (f *Feed) collect(ctx context.Context, c collection) (deleted []string, err error) {
	keys, err := f.store.List(ctx, c.prefix)
	if err != nil {
		return nil, err
	}
	// The tables are read after the list: whatever is listed and lies below the positions can't be committed any more.
	var objects []named
	for _, key := range keys {
		if o, ok := c.parse(key); ok {
			objects = append(objects, o)
		}
	}
	for len(objects) > 0 {
		n := min(len(objects), 1000)
		garbage, err := f.garbage(ctx, c, objects[:n])
		if err != nil {
			return deleted, err
		}
		for _, key := range garbage {
			if err := f.store.Delete(ctx, key); err != nil {
				return deleted, err
			}
			deleted = append(deleted, key)
		}
		objects = objects[n:]
	}
	return deleted, nil
}

func parseStaged(key string) (named, bool) {
	m := stagingName.FindStringSubmatch(key)
	if m == nil {
		return named{}, false
	}
	partition, bad1 := strconv.ParseInt(m[2], 10, 32)
	last, bad2 := strconv.ParseInt(m[3], 10, 64)
	return named{key: key, topic: m[1], partition: int32(partition), lastOffset: last}, errors.Join(bad1, bad2) == nil
}

func parseLedger(key string) (named, bool) {
	m := ledgerName.FindStringSubmatch(key)
	if m == nil {
		return named{}, false
	}
	partition, bad1 := strconv.ParseInt(m[2], 10, 32)
	day, bad2 := time.Parse("20060102", m[3])
	return named{key: key, topic: m[1], partition: int32(partition), day: day}, errors.Join(bad1, bad2) == nil
}

func (f *Feed) garbage(ctx context.Context, c collection, objects []named) ([]string, error) {
	n := len(objects)
	keys, topics, partitions := make([]string, n), make([]string, n), make([]int32, n)
	lasts, days := make([]int64, n), make([]time.Time, n)
	for i, o := range objects {
		keys[i], topics[i], partitions[i], lasts[i], days[i] = o.key, o.topic, o.partition, o.lastOffset, o.day
	}
	rows, err := f.pool.Query(ctx, c.garbage, keys, topics, partitions, lasts, days, f.cfg.Grace)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

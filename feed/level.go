package feed

import (
	"fmt"
	"time"
)

// Span says how much log time a ledger file covers.
type Span string

// The spans of ledger files.
const (
	Commit Span = "commit" // what distill wrote at one commit; its hour isn't over
	Hour   Span = "hour"   // a partition's whole hour; its day isn't over
	Day    Span = "day"    // a partition's whole day, UTC
)

// level is one step of the compaction: what becomes one file when a span of log time is over.
type level struct {
	span   Span
	length time.Duration
	layout string // of the span's start in the file's name

	// over lists the spans that are over for their partition and still have sources. A partition's log time never
	// goes back, so nothing can be added to such a span.
	over string
	// sources are a span's, in the order of the log: $1 topic, $2 partition, from $3 to before $4.
	sources string
	// mark says of the sources $2 that their rows are in the file $1.
	mark string
}

// levels in the order in which they follow each other.
var levels = []level{
	{
		span: Hour, length: time.Hour, layout: "2006010215",
		over: `select s.topic, s.partition, date_trunc('hour', s.log_time, 'UTC') as start
			from shard s join partition p using (topic, partition)
			where s.kind = 'ledger' and s.ledger_file is null and p.log_time >= date_trunc('hour', s.log_time, 'UTC') + interval '1 hour'
			group by 1, 2, 3`,
		sources: `select id, key, sha256, bytes, rows, first_offset, last_offset from shard
			where kind = 'ledger' and ledger_file is null and topic = $1 and partition = $2 and log_time >= $3 and log_time < $4
			order by first_offset`,
		mark: `update shard set ledger_file = $1 where id = any($2) and ledger_file is null`,
	},
	{
		// A day waits for all its hours: a file that came later would stand behind rows that settled after its own.
		span: Day, length: 24 * time.Hour, layout: "20060102",
		over: `select l.topic, l.partition, date_trunc('day', l.span_start, 'UTC') as start
			from ledger_file l join partition p using (topic, partition)
			where l.span = 'hour' and l.day_file is null and p.log_time >= date_trunc('day', l.span_start, 'UTC') + interval '24 hours'
				and not exists (select from shard s where s.kind = 'ledger' and s.ledger_file is null and s.topic = l.topic
					and s.partition = l.partition and s.log_time < date_trunc('day', l.span_start, 'UTC') + interval '24 hours')
			group by 1, 2, 3`,
		sources: `select key, key, sha256, bytes, rows, first_offset, last_offset from ledger_file
			where span = 'hour' and day_file is null and topic = $1 and partition = $2 and span_start >= $3 and span_start < $4
			order by first_offset`,
		mark: `update ledger_file set day_file = $1 where key = any($2) and day_file is null`,
	},
}

// period is one partition's span of log time.
type period struct {
	Topic     string
	Partition int32
	Start     time.Time
}

// source is a file whose rows go into a longer one.
type source struct {
	ID          string
	Key         string
	SHA256      string
	Bytes       int64
	Rows        int64
	FirstOffset int64
	LastOffset  int64
}

// key names a file by where its rows stand in the log: the same sources give the same name, and others, as after a
// change of Config.FileRows, another one.
func (l level) key(p period, firstOffset, lastOffset int64) string {
	return fmt.Sprintf("ledger/%s-%d-%s-%020d-%020d.parquet", p.Topic, p.Partition, p.Start.UTC().Format(l.layout), firstOffset, lastOffset)
}

// of names a period as messages do.
func (l level) of(p period) string {
	return fmt.Sprintf("ledger of partition %d of %s, %s %s", p.Partition, p.Topic, l.span, p.Start.UTC().Format(time.RFC3339))
}

package eventlog

import "time"

// Header is a named value beside a record's key and value.
type Header struct {
	Key   string
	Value []byte
}

// Record is what was read from the log. Its bytes are the caller's own.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time // the writer's clock in UTC, to the millisecond; not monotonic along the offsets
	Key       []byte
	Value     []byte // nil: a tombstone
	Headers   []Header
}

// Header returns the value of the first header named key, and whether there is one.
func (r Record) Header(key string) ([]byte, bool) {
	for _, h := range r.Headers {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// Message is what is to be written.
type Message struct {
	Partition int32     // AnyPartition: by the key
	Time      time.Time // becomes the record's timestamp; zero: now
	Key       []byte
	Value     []byte
	Headers   []Header
}

// AnyPartition lets the message's key choose its partition (see PartitionOf).
const AnyPartition int32 = -1

// Limits on a message's size in bytes, key, value and headers together, before compression.
const (
	MaxMessageBytes    = 16<<20 - batchOverhead
	maxDeadLetterBytes = 17<<20 - batchOverhead // a dead letter keeps the whole record and adds headers
	batchOverhead      = 32 << 10               // of a Kafka batch, and what doesn't compress grows a little in Snappy's frames
	recordOverhead     = 32                     // of a record in a batch: lengths, deltas
	headerOverhead     = 10
)

func (m *Message) size() int {
	n := recordOverhead + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += headerOverhead + len(h.Key) + len(h.Value)
	}
	return n
}

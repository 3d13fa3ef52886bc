package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// What one fetch asks for: the broker answers with the first record, however large, or after maxWait.
const (
	maxWait    = 500 * time.Millisecond
	fetchBytes = 4 << 20
)

// Reader reads the topic of events from offsets that the caller keeps. It is safe for concurrent use; several
// partitions are polled in parallel.
type Reader struct {
	topic  string
	client *kafka.Client
	gone   absence
}

// NewReader makes a reader of cfg.Topic. It doesn't connect yet.
func NewReader(cfg Config) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Reader{topic: cfg.Topic, client: cfg.client(readTimeout, cfg.Topic)}, nil
}

// Fetch returns records of a partition from offset on, in order: some megabytes, fewer, or none if nothing new came
// within half a second. An offset that the log doesn't hold is ErrPositionLost. Whether another try makes sense says
// Retryable. The records' bytes are the caller's own.
func (r *Reader) Fetch(ctx context.Context, partition int32, offset int64) ([]Record, error) {
	if offset < 0 {
		return nil, fmt.Errorf("topic %s partition %d: offset %d is negative", r.topic, partition, offset)
	}
	response, err := r.client.Fetch(ctx, &kafka.FetchRequest{
		Topic:     r.topic,
		Partition: int(partition),
		Offset:    offset,
		MinBytes:  1,
		MaxBytes:  fetchBytes,
		MaxWait:   maxWait,
	})
	if err != nil {
		return nil, r.failed(ctx, partition, err)
	}
	records, err := r.collect(partition, offset, response)
	if errors.Is(response.Error, kafka.OffsetOutOfRange) {
		held := "bounds unknown"
		if first, next, err := r.Bounds(ctx, partition); err == nil {
			held = fmt.Sprintf("the log holds %d up to %d", first, next)
		}
		return nil, fmt.Errorf("topic %s partition %d: %w: offset %d, %s", r.topic, partition, ErrPositionLost, offset, held)
	}
	if response.Error != nil {
		return nil, r.failed(ctx, partition, response.Error)
	}
	if err != nil {
		return nil, r.failed(ctx, partition, err)
	}
	r.gone.present()
	return records, nil
}

// collect copies the records and closes kafka-go's buffers. A batch may begin before the wanted offset.
func (r *Reader) collect(partition int32, offset int64, response *kafka.FetchResponse) ([]Record, error) {
	if closer, ok := response.Records.(io.Closer); ok {
		defer closer.Close()
	}
	var records []Record
	for {
		in, err := response.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading a record: %w", err)
		}
		if in.Offset < offset {
			closeBytes(in.Key)
			closeBytes(in.Value)
			continue
		}
		key, value, err := copyKeyValue(in.Key, in.Value)
		if err != nil {
			return nil, fmt.Errorf("reading offset %d: %w", in.Offset, err)
		}
		out := Record{Topic: r.topic, Partition: partition, Offset: in.Offset, Time: in.Time.UTC(), Key: key, Value: value}
		if len(in.Headers) > 0 {
			out.Headers = make([]Header, len(in.Headers))
			for i, h := range in.Headers {
				out.Headers[i] = Header(h)
			}
		}
		records = append(records, out)
	}
}

// copyKeyValue takes one allocation for both; nil stays nil, since a nil value is a tombstone.
func copyKeyValue(key, value protocol.Bytes) (k, v []byte, err error) {
	defer closeBytes(key)
	defer closeBytes(value)
	nk, nv := 0, 0
	if key != nil {
		nk = key.Len()
	}
	if value != nil {
		nv = value.Len()
	}
	buffer := make([]byte, nk+nv)
	if key != nil {
		k = buffer[:nk:nk]
		if _, err := io.ReadFull(key, k); err != nil {
			return nil, nil, err
		}
	}
	if value != nil {
		v = buffer[nk:]
		if _, err := io.ReadFull(value, v); err != nil {
			return nil, nil, err
		}
	}
	return k, v, nil
}

func closeBytes(b protocol.Bytes) {
	if b != nil {
		_ = b.Close() // gives pages back; cannot fail
	}
}

// Bounds returns the first offset that a partition holds and the one that its next record will get.
func (r *Reader) Bounds(ctx context.Context, partition int32) (first, next int64, err error) {
	response, err := r.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{
			r.topic: {kafka.FirstOffsetOf(int(partition)), kafka.LastOffsetOf(int(partition))},
		},
	})
	if err != nil {
		return 0, 0, r.failed(ctx, partition, err)
	}
	for _, p := range response.Topics[r.topic] {
		if p.Partition != int(partition) {
			continue
		}
		if p.Error != nil { // looked at first: a failed partition keeps its zero offsets
			return 0, 0, r.failed(ctx, partition, p.Error)
		}
		return p.FirstOffset, p.LastOffset, nil
	}
	return 0, 0, r.failed(ctx, partition, protocol.ErrNoPartition)
}

// Reachable asks the partitions' leaders, and fails if none of them answers. (kafka-go goes on answering from what it
// knows of the topic while every broker is away: Partitions doesn't tell.)
func (r *Reader) Reachable(ctx context.Context) error {
	n, err := r.Partitions(ctx)
	if err != nil {
		return err
	}
	ends := make([]kafka.OffsetRequest, n)
	for p := range ends {
		ends[p] = kafka.LastOffsetOf(p)
	}
	response, err := r.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{r.topic: ends}})
	if err != nil {
		return fmt.Errorf("topic %s: no partition's leader answers: %w", r.topic, err)
	}
	for _, p := range response.Topics[r.topic] {
		if p.Error == nil {
			return nil
		}
		err = p.Error
	}
	return fmt.Errorf("topic %s: no partition has a leader that answers: %w", r.topic, err)
}

// Partitions is the topic's number of partitions, as it was when a broker last said so.
func (r *Reader) Partitions(ctx context.Context) (int, error) {
	n, err := countPartitions(ctx, r.client, r.topic)
	if err != nil {
		return 0, fmt.Errorf("topic %s: %w", r.topic, r.gone.explain(ctx, r.client, r.topic, err))
	}
	r.gone.present()
	return n, nil
}

// CommitLowWatermark tells Kafka, under Group, where a partition stands, so that lag tools see it; nothing reads it
// back. The position that counts is in Postgres.
func (r *Reader) CommitLowWatermark(ctx context.Context, partition int32, offset int64) error {
	wait := newBackoff()
	for attempt := 0; ; attempt++ {
		err := r.commitOnce(ctx, partition, offset)
		if err == nil {
			return nil
		}
		// A group's first use finds its coordinator loading.
		if attempt == 4 || !Retryable(err) || !wait.sleep(ctx, ctx) {
			return fmt.Errorf("topic %s partition %d: telling group %s the offset %d: %w", r.topic, partition, Group, offset, err)
		}
	}
}

func (r *Reader) commitOnce(ctx context.Context, partition int32, offset int64) error {
	response, err := r.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID:      Group,
		GenerationID: -1, // outside of any generation; the zero value would be refused
		Topics:       map[string][]kafka.OffsetCommit{r.topic: {{Partition: int(partition), Offset: offset}}},
	})
	if err != nil {
		return err
	}
	for _, p := range response.Topics[r.topic] {
		if p.Error != nil {
			return p.Error
		}
	}
	return nil
}

// Close closes the connections.
func (r *Reader) Close() error {
	closeClient(r.client)
	return nil
}

func (r *Reader) failed(ctx context.Context, partition int32, err error) error {
	return fmt.Errorf("topic %s partition %d: %w", r.topic, partition, r.gone.explain(ctx, r.client, r.topic, err))
}

func countPartitions(ctx context.Context, c *kafka.Client, topic string) (int, error) {
	response, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, err
	}
	for _, t := range response.Topics {
		if t.Name != topic {
			continue
		}
		if t.Error != nil {
			return 0, t.Error
		}
		if len(t.Partitions) > 0 {
			return len(t.Partitions), nil
		}
	}
	return 0, protocol.NewErrNoTopic(topic)
}

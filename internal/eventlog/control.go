package eventlog

import (
	"context"
	"fmt"
	"time"

	"millrace/schemas/event"
)

// controlKey is the record key of a control record.
func controlKey(id string) []byte { return []byte("control:" + id) }

// WriteControl appends one signed record to every partition. It may be repeated after an error: the record's id
// tells a repeat.
func WriteControl(ctx context.Context, w *Writer, k *Keyring, cfg Config, record *event.ControlRecord, t time.Time) error {
	partitions, err := w.Partitions(ctx)
	if err != nil {
		return fmt.Errorf("control record %s: %w", record.GetId(), err)
	}
	all := make([]int32, partitions)
	for p := range all {
		all[p] = int32(p)
	}
	return writeControl(ctx, w, k, cfg, all, record, t)
}

// WriteControlTo appends one signed record to one partition.
func WriteControlTo(ctx context.Context, w *Writer, k *Keyring, cfg Config, partition int32, record *event.ControlRecord, t time.Time) error {
	return writeControl(ctx, w, k, cfg, []int32{partition}, record, t)
}

func writeControl(ctx context.Context, w *Writer, k *Keyring, cfg Config, partitions []int32, record *event.ControlRecord, t time.Time) error {
	if w.topic != cfg.Topic {
		return fmt.Errorf("control record %s: it belongs in topic %s, the writer is of %s", record.GetId(), cfg.Topic, w.topic)
	}
	if record.GetId() == "" || record.GetBody() == nil {
		return fmt.Errorf("control record %q: it needs an id and a body", record.GetId())
	}
	value, err := record.MarshalVT()
	if err != nil {
		return fmt.Errorf("control record %s: %w", record.GetId(), err)
	}
	key := controlKey(record.GetId())
	messages := make([]Message, len(partitions))
	for i, p := range partitions {
		messages[i] = Message{
			Partition: p, Time: t, Key: key, Value: value,
			Headers: []Header{{ContentTypeHeader, []byte(controlContentType)}, k.Sign(cfg.Topic, p, key, value)},
		}
	}
	failed := 0
	for _, e := range w.Write(ctx, messages...) {
		if e != nil {
			failed++
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("control record %s: not in %d of %d partitions: %w", record.GetId(), failed, len(partitions), err)
	}
	return nil
}

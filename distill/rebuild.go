package distill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"

	"millrace/distill/engine"
	"millrace/internal/arrowfile"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
)

// rebuild makes the engine as it was at the committed offset: the state object, the documents that it rests on, and
// the payloads of open turns, read again from the low watermark on. Nothing is decided twice. If the log is no
// longer the one that was read, or no longer holds what is needed, the partition halts and says so.
func (w *worker) rebuild(ctx context.Context) error {
	l := w.lease
	w.batch = newBatch(l.CommittedOffset)
	opts := engine.Options{Topic: l.Topic, Partition: l.Partition, UnitKey: w.cfg.UnitKey}
	var first, next int64
	err := w.patiently(ctx, "asking the log for its bounds", func() (err error) {
		first, next, err = w.log.Bounds(ctx, l.Partition)
		return err
	}, eventlog.Retryable)
	if err != nil {
		return err
	}
	switch {
	case next < l.CommittedOffset:
		return halt("the log ends at offset %d, before the committed %d: the topic was recreated or restored", next, l.CommittedOffset)
	case first > l.LowWatermark:
		return halt("the log begins at offset %d, but %d is still needed: retention has deleted it", first, l.LowWatermark)
	case l.StateKey == "":
		w.engine = engine.New(opts)
		return nil
	}
	restored, err := w.loadState(ctx, opts)
	if err != nil {
		return err
	}
	if err := w.reread(ctx, restored, first); err != nil {
		return err
	}
	eng, err := restored.Engine()
	if err != nil {
		return halt("%v", err)
	}
	if found := eng.Account(); found.Opened != l.TurnsOpened || !maps.Equal(found.Open, l.TurnsOpen) {
		return halt("the state holds %d turns opened and %v open, the last commit %d and %v", found.Opened, found.Open, l.TurnsOpened, l.TurnsOpen)
	}
	w.engine = eng
	return nil
}

func (w *worker) loadState(ctx context.Context, opts engine.Options) (*engine.Restored, error) {
	data, err := w.read(ctx, w.lease.StateKey)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, halt("the state object %s is not in the object store", w.lease.StateKey)
	}
	if err != nil {
		return nil, err
	}
	if got := arrowfile.SHA256(data); got != w.lease.StateSHA256 {
		return nil, halt("the state object %s has SHA-256 %s, committed was %s", w.lease.StateKey, got, w.lease.StateSHA256)
	}
	restored, err := engine.Load(opts, data)
	if err != nil {
		return nil, halt("%v", err)
	}
	for _, digest := range restored.Needs() {
		document, err := w.document(ctx, digest)
		if err != nil {
			return nil, err
		}
		restored.Provide(digest, document)
	}
	return restored, nil
}

// reread reads the log from the low watermark up to the committed offset: it puts the payloads of open turns back,
// and proves by the last record's digest that this still is the same log.
func (w *worker) reread(ctx context.Context, restored *engine.Restored, first int64) error {
	l := w.lease
	from := l.LowWatermark
	if restored.Missing() == 0 {
		from = max(first, l.CommittedOffset-1)
	}
	for offset := from; offset < l.CommittedOffset; {
		records, err := w.fetch(ctx, offset)
		if err != nil {
			return err
		}
		if err := l.Trusted(); err != nil {
			return err
		}
		for _, record := range records {
			if record.Offset >= l.CommittedOffset {
				return nil
			}
			offset = record.Offset + 1
			if restored.Wanted(record.Offset) {
				r := decode(record, w.keyring, w.partitions)
				if r.Event == nil {
					return halt("offset %d was an event of an open turn and now can't be read: %s", record.Offset, r.Reject)
				}
				restored.Reread(record.Offset, r.Event)
			}
			if offset == l.CommittedOffset && digestOf(record) != l.LogDigest {
				return halt("the record at offset %d is not the one that was committed: the topic was recreated", record.Offset)
			}
		}
	}
	return nil
}

// provide gives the engine the documents that the next record needs.
func (w *worker) provide(ctx context.Context, digests []string) error {
	for _, digest := range digests {
		if w.engine.Has(digest) {
			continue
		}
		document, err := w.document(ctx, digest)
		if err != nil {
			return err
		}
		w.engine.Provide(digest, document)
	}
	return nil
}

// document reads a document by its digest; a missing one halts the partition by name, because only the control
// plane and the gateway write references, and they write the document first.
func (w *worker) document(ctx context.Context, digest string) ([]byte, error) {
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
		return nil, halt("the document %q is not named by a SHA-256", digest)
	}
	for _, key := range DocumentKeys(digest) {
		data, err := w.read(ctx, key)
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if got := arrowfile.SHA256(data); got != digest {
			return nil, halt("the document %s has SHA-256 %s", key, got)
		}
		return data, nil
	}
	return nil, halt("the document %s is not in the object store", digest)
}

// DocumentKeys are the places at which a document may lie, by its SHA-256.
func DocumentKeys(digest string) []string {
	return []string{objstore.DocumentKey(digest), "tool-schemas/" + digest + ".json"}
}

func (w *worker) read(ctx context.Context, key string) (data []byte, err error) {
	err = w.patiently(ctx, "reading "+key, func() error {
		data, err = w.store.Get(ctx, key)
		return err
	}, objstore.Retryable)
	return data, err
}

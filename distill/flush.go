package distill

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"millrace/internal/arrowfile"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/schemas/sample"
)

// object is a file that was written but that nothing names yet.
type object struct {
	id            string
	kind          string // sample, ledger, state
	policyVersion string
	key           string
	bytes         int64
	sha256        string
	rows          int64
	trainedTokens int64
	rewardSum     float64
	rewardSpec    string
}

// flush writes what a batch made: a shard for each policy version, the ledger rows, the state. Objects are named by
// the commit's range and their content, so a repeat writes the same ones again; until the commit nothing names
// them. Dead letters go out before the commit too: at least once, under their identity in the log.
func (w *worker) flush(ctx context.Context, b *batch, state []byte) (files []object, stateObject object, err error) {
	if err := w.reached("flush: begin"); err != nil {
		return nil, object{}, err
	}
	if err := w.writeDeadLetters(ctx, b.deadLetters); err != nil {
		return nil, object{}, err
	}
	for _, version := range slices.Sorted(maps.Keys(b.samples)) {
		o, err := w.writeShard(ctx, b, version, b.samples[version])
		if err != nil {
			return nil, object{}, err
		}
		files = append(files, o)
	}
	if len(b.rows) > 0 {
		body, err := arrowfile.WriteLedger(b.rows)
		if err != nil {
			return nil, object{}, fmt.Errorf("writing %d ledger rows: %w", len(b.rows), err)
		}
		o := w.name(b, "ledger", "parquet", body)
		o.rows = int64(len(b.rows))
		if err := w.put(ctx, o, body); err != nil {
			return nil, object{}, err
		}
		files = append(files, o)
	}
	stateObject = w.name(b, "state", "json", state)
	return files, stateObject, w.put(ctx, stateObject, state)
}

func (w *worker) writeShard(ctx context.Context, b *batch, version string, rows []sample.Row) (object, error) {
	// The shard's id inside the file is its range: the digest in its name can't stand in what it is a digest of.
	meta := arrowfile.ShardMeta{
		ShardID: w.rangeName(b), PolicyVersion: version, RewardSpec: rows[0].RewardSpec,
		Topic: w.lease.Topic, Partition: w.lease.Partition, FirstOffset: b.first, LastOffset: b.last,
	}
	body, err := arrowfile.WriteShard(meta, rows, w.cfg.Compression)
	if err != nil {
		return object{}, fmt.Errorf("writing a shard of %d rows of %s: %w", len(rows), version, err)
	}
	o := w.name(b, "sample", "arrow", body)
	o.policyVersion, o.rows, o.rewardSpec = version, int64(len(rows)), rows[0].RewardSpec
	for i := range rows {
		o.rewardSum += rows[i].Reward
		for _, trained := range rows[i].LossMask {
			o.trainedTokens += int64(trained)
		}
	}
	return o, w.put(ctx, o, body)
}

func (w *worker) rangeName(b *batch) string {
	return fmt.Sprintf("%s-%d-%020d-%020d", w.lease.Topic, w.lease.Partition, b.first, b.last)
}

func (w *worker) name(b *batch, kind, extension string, body []byte) object {
	digest := arrowfile.SHA256(body)
	id := w.rangeName(b) + "-" + digest[:16]
	return object{
		id: id, kind: kind, bytes: int64(len(body)), sha256: digest,
		key: "staging/" + w.lease.Topic + "/" + strconv.Itoa(int(w.lease.Partition)) + "/" + id + "." + kind + "." + extension,
	}
}

// put writes an object and reads it back: a manifest must never name bytes that are not there.
func (w *worker) put(ctx context.Context, o object, body []byte) error {
	err := w.patiently(ctx, "writing "+o.key, func() error {
		if err := w.store.PutIfAbsent(ctx, o.key, body); err != nil {
			return err
		}
		back, err := w.store.Get(ctx, o.key)
		if err != nil {
			return err
		}
		if got := arrowfile.SHA256(back); got != o.sha256 {
			return fmt.Errorf("%s reads back with SHA-256 %s, not %s", o.key, got, o.sha256)
		}
		return nil
	}, objstore.Retryable)
	if err != nil {
		return err
	}
	return w.reached("flush: " + o.kind + " written")
}

// writeDeadLetters keeps the originals byte for byte, with why and where they stood.
func (w *worker) writeDeadLetters(ctx context.Context, letters []eventlog.DeadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	messages := make([]eventlog.Message, len(letters))
	for i, l := range letters {
		messages[i] = l.Message()
	}
	return w.patiently(ctx, "writing dead letters", func() error {
		for _, err := range w.deadLetters.Write(ctx, messages...) {
			if err != nil {
				return err
			}
		}
		return nil
	}, eventlog.Retryable)
}

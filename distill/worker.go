package distill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/distill/engine"
	"millrace/internal/eventlog"
)

// worker holds one partition: it rebuilds the engine, applies the log's records to it, and commits what they caused
// batch by batch. It ends when the lease is lost, when the partition must halt, or when ctx is done; what was not
// committed by then is dropped, and read again by whoever comes next.
type worker struct {
	cfg         Config
	pool        *pgxpool.Pool
	log         Log
	deadLetters DeadLetters
	store       Store
	keyring     *eventlog.Keyring
	leases      *leases
	lease       *Lease
	logger      *slog.Logger
	metrics     *metrics

	partitions int
	engine     *engine.Engine
	batch      *batch
}

// halted is why a partition can't go on without a person.
type halted struct{ reason string }

func (h *halted) Error() string { return "halted: " + h.reason }

func halt(format string, args ...any) error { return &halted{fmt.Sprintf(format, args...)} }

// ambiguous is a commit of which we don't know whether it happened.
type ambiguous struct{ err error }

func (a *ambiguous) Error() string { return "outcome unknown: " + a.err.Error() }
func (a *ambiguous) Unwrap() error { return a.err }

func (w *worker) run(ctx context.Context) error {
	if err := w.rebuild(ctx); err != nil {
		return err
	}
	next := w.batch.first
	for {
		records, err := w.fetch(ctx, next)
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := w.apply(ctx, record); err != nil {
				return err
			}
			next = record.Offset + 1
		}
	}
}

// fetch reads on, and waits while the log is away.
func (w *worker) fetch(ctx context.Context, offset int64) (records []eventlog.Record, err error) {
	err = w.patiently(ctx, "reading the log", func() error {
		records, err = w.log.Fetch(ctx, w.lease.Partition, offset)
		return err
	}, eventlog.Retryable)
	if errors.Is(err, eventlog.ErrPositionLost) {
		return nil, halt("the log no longer holds offset %d: %v", offset, err)
	}
	return records, err
}

// apply gives one record to the engine. Where the log says that a batch ends, it is closed first.
func (w *worker) apply(ctx context.Context, record eventlog.Record) error {
	if err := w.lease.Trusted(); err != nil {
		return err
	}
	r := decode(record, w.keyring, w.partitions)
	if w.engine.ClosesBefore(r) {
		if err := w.close(ctx); err != nil {
			return err
		}
	}
	if err := w.provide(ctx, w.engine.Needs(r)); err != nil {
		return err
	}
	effects := w.engine.Apply(r)
	if effects.Halt != "" {
		return halt("%s", effects.Halt)
	}
	w.batch.add(record, effects)
	if effects.Full {
		return w.close(ctx)
	}
	return nil
}

// decode is the engine's view of a record. An event that can't be taken, but can be read who it is, leaves its stub: its
// turn must not miss it. The record is a dead letter all the same.
func decode(record eventlog.Record, keyring *eventlog.Keyring, partitions int) engine.Record {
	r := engine.Record{Offset: record.Offset, Time: record.Time.UnixMicro()}
	r.Event, r.Control, r.Reject = eventlog.Decode(record, keyring, partitions)
	if r.Reject != "" {
		r.Event = eventlog.Stub(record, partitions, r.Reject)
	}
	return r
}

// close ends the batch: flush, then commit, in this order. It takes as long as it takes while the lease is ours: where
// batches end is in the log, so one that was given up for its length would come again at the same length. When the
// process is told to stop, it has one more term to finish.
func (w *worker) close(ctx context.Context) error {
	ctx, cancel := outlive(ctx, w.leases.term)
	defer cancel()
	began := time.Now()
	counts := w.engine.Boundary()
	state, err := w.engine.Save()
	if err != nil {
		return err
	}
	files, stateObject, err := w.flush(ctx, w.batch, state)
	if err != nil {
		return err
	}
	if err := w.reached("flushed"); err != nil {
		return err
	}
	answer, giveUp := w.whileWorthIt(ctx)
	defer giveUp()
	if err := w.commit(answer, w.batch, files, stateObject, counts, w.engine); err != nil {
		if lostHold(err) || errors.Is(err, errCrash) {
			return err
		}
		if why := context.Cause(answer); why != nil {
			err = fmt.Errorf("%w: %v", err, why) //nolint:errorlint // whether the lease is lost, taking it again tells
		}
		if refused(err) {
			return err
		}
		return &ambiguous{err}
	}
	w.metrics.committed(w.lease.Partition, w.batch, files, counts, w.engine, time.Since(began))
	w.forgetState(ctx, stateObject.key)
	w.lag(ctx)
	w.batch = newBatch(w.batch.last + 1)
	w.lease.CommittedOffset = w.batch.first
	return nil
}

// forgetState deletes the state object that the commit has replaced. One that stays behind is garbage and is
// collected; a worker that still wants to load it has been fenced.
func (w *worker) forgetState(ctx context.Context, current string) {
	if old := w.lease.StateKey; old != "" && old != current {
		if err := w.store.Delete(ctx, old); err != nil {
			w.logger.Debug("deleting the replaced state", "partition", w.lease.Partition, "error", err)
		}
	}
	w.lease.StateKey = current
}

// outlive is a context that ends so long after the given one.
func outlive(ctx context.Context, extra time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(extra):
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}

// whileWorthIt is a context for the commit, which a server that is cut off never answers: it ends when the commit has
// stalled, and until the returned function is called.
func (w *worker) whileWorthIt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w.lease.begin()
	go func() {
		every := time.NewTicker(w.leases.term / 16)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			if err := w.lease.stalled(w.leases.term); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() { w.lease.end(); cancel(nil) }
}

// lag tells Kafka where we are, so that ordinary lag tools see it. Nothing reads it back, so a failure costs
// nothing but the display.
func (w *worker) lag(ctx context.Context) {
	low := w.engine.LowWatermark(w.batch.last + 1)
	if err := w.log.CommitLowWatermark(ctx, w.lease.Partition, low); err != nil {
		w.logger.Debug("telling Kafka the position", "partition", w.lease.Partition, "error", err)
	}
}

// patiently tries until it works, as long as the error may pass and the lease is ours.
func (w *worker) patiently(ctx context.Context, what string, try func() error, mayPass func(error) bool) error {
	const most = 2 * time.Second
	for wait, tries := 50*time.Millisecond, 0; ; wait, tries = min(2*wait, most), tries+1 {
		err := try()
		if err == nil {
			if tries > 0 {
				w.logger.Debug("works again: "+what, "partition", w.lease.Partition, "tries", tries+1)
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !mayPass(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if lost := w.lease.Trusted(); lost != nil {
			return fmt.Errorf("%s: %w (and: %w)", what, err, lost)
		}
		if tries == 0 {
			w.logger.Warn("waiting: "+what, "partition", w.lease.Partition, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// errCrash is what a test's step returns to stop a worker dead.
var errCrash = errors.New("crashed here")

// reached is called at every step of flush and commit; only tests listen.
func (w *worker) reached(step string) error {
	if w.cfg.reached == nil {
		return nil
	}
	return w.cfg.reached(w.lease, step)
}

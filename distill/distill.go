package distill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/arrowfile"
	"millrace/internal/eventlog"
)

// Config of the distill role.
type Config struct {
	Topic       string
	Owner       string        // unique among all workers, for instance host and process id
	LeaseTerm   time.Duration // how long a silent owner keeps its partitions
	UnitKey     []byte        // of the units' pseudonyms; changing it parts a unit from its past
	Compression arrowfile.Compression

	reached func(*Lease, string) error // tests stop or hold a worker at a step
	pause   time.Duration              // before the second attempt at the same offset; doubles up to 50-fold
}

// mostAttempts is how often a worker fails at the same offset before the partition halts: an error that may pass has
// had a minute to.
const mostAttempts = 10

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Topic == "" || c.Owner == "" {
		return errors.New("distill: topic and owner must be set")
	}
	if c.LeaseTerm == 0 {
		c.LeaseTerm = 15 * time.Second
	}
	if c.pause == 0 {
		c.pause = 100 * time.Millisecond
	}
	if c.Compression == "" {
		c.Compression = "lz4"
	}
	return nil
}

// Log is what a worker reads.
type Log interface {
	Fetch(ctx context.Context, partition int32, offset int64) ([]eventlog.Record, error)
	Bounds(ctx context.Context, partition int32) (first, next int64, err error)
	Partitions(ctx context.Context) (int, error)
	CommitLowWatermark(ctx context.Context, partition int32, offset int64) error
}

// DeadLetters is where records go that could not be taken.
type DeadLetters interface {
	Write(ctx context.Context, messages ...eventlog.Message) []error
}

// Store is where files and documents lie.
type Store interface {
	PutIfAbsent(ctx context.Context, key string, body []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error
}

// Distill runs a worker for each partition that this process holds.
type Distill struct {
	cfg         Config
	pool        *pgxpool.Pool
	log         Log
	deadLetters DeadLetters
	store       Store
	keyring     *eventlog.Keyring
	leases      *leases
	logger      *slog.Logger
	metrics     *metrics
	partitions  int

	mu       sync.Mutex
	workers  map[int32]*hold
	failures map[int32]failures
	running  sync.WaitGroup
}

// failures are a partition's, all at one offset.
type failures struct {
	offset int64
	n      int
}

// hold is one worker's time on a partition.
type hold struct{ stop context.CancelFunc }

// New makes the role; nothing runs before Run.
func New(cfg Config, pool *pgxpool.Pool, log Log, deadLetters DeadLetters, store Store, keyring *eventlog.Keyring,
	logger *slog.Logger, registry prometheus.Registerer,
) (*Distill, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Distill{
		cfg: cfg, pool: pool, log: log, deadLetters: deadLetters, store: store, keyring: keyring, logger: logger,
		leases:  &leases{pool: pool, topic: cfg.Topic, owner: cfg.Owner, term: cfg.LeaseTerm},
		metrics: newMetrics(registry), workers: map[int32]*hold{}, failures: map[int32]failures{},
	}, nil
}

// Run holds this worker's share of the partitions until ctx is done, then gives them back.
func (d *Distill) Run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer d.leave(ctx)
	every := time.NewTicker(d.cfg.LeaseTerm / 5)
	defer every.Stop()
	failing := false
	for {
		if err := d.balance(ctx); err != nil && ctx.Err() == nil {
			if !failing {
				d.logger.Warn("can't claim partitions", "error", err)
			}
			failing = true
		} else {
			failing = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// prepare learns how many partitions there are, as soon as the log and Postgres answer.
func (d *Distill) prepare(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		n, err := d.log.Partitions(ctx)
		if err == nil {
			d.partitions = n
			err = Register(ctx, d.pool, d.cfg.Topic, n)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.logger.Warn("waiting for the log and Postgres", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// leave waits until every partition has been given back, and takes this worker out of the count.
func (d *Distill) leave(ctx context.Context) {
	d.running.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := d.leases.leave(ctx); err != nil {
		d.logger.Debug("leaving", "error", err) // it is counted until its last sign of life is a lease old
	}
}

// balance claims partitions up to our fair share, and gives surplus back.
func (d *Distill) balance(ctx context.Context) error {
	share, err := d.leases.share(ctx)
	if err != nil {
		return err
	}
	for d.held() < share {
		lease, err := d.leases.claim(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("claiming a partition: %w", err)
		}
		d.start(ctx, lease)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for partition, h := range d.workers {
		if len(d.workers) <= share {
			break
		}
		h.stop()
		delete(d.workers, partition)
	}
	return nil
}

func (d *Distill) held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.workers)
}

func (d *Distill) start(ctx context.Context, lease *Lease) {
	ctx, cancel := context.WithCancel(ctx)
	h := &hold{cancel}
	d.mu.Lock()
	d.workers[lease.Partition] = h
	d.mu.Unlock()
	d.running.Go(func() {
		defer cancel()
		d.hold(ctx, lease)
		d.ended(lease.Partition, h)
	})
}

// ended takes a hold out of the list, unless the partition was claimed anew while its worker was on its way out.
func (d *Distill) ended(partition int32, h *hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.workers[partition] == h {
		delete(d.workers, partition)
	}
}

// hold runs the partition until it is lost or given back. After a commit whose outcome is not known it takes the
// lease again and goes on from what is true.
func (d *Distill) hold(ctx context.Context, lease *Lease) {
	logger := d.logger.With("partition", lease.Partition)
	for unanswered := 0; ; {
		logger.Debug("partition taken", "epoch", lease.Epoch, "offset", lease.CommittedOffset)
		err := d.work(ctx, lease)
		var stop *halted
		var unknown *ambiguous
		switch {
		case errors.As(err, &stop):
			d.halt(ctx, logger, lease, stop.reason)
			return
		case errors.As(err, &unknown):
			logger.Warn("commit with an unknown outcome: taking the lease again", "error", err)
			again, err := d.reclaim(ctx, lease)
			if err != nil {
				logger.Warn("partition given up", "error", err)
				return
			}
			unanswered++
			if again.CommittedOffset > lease.CommittedOffset {
				unanswered = 0
			}
			d.rest(ctx, unanswered)
			lease = again
			continue
		case lostHold(err):
			d.metrics.fenced.Inc()
			level := slog.LevelWarn
			if !errors.Is(err, ErrFenced) {
				level = slog.LevelInfo // we were cut off or asleep, and stopped in time
			}
			logger.Log(ctx, level, "partition lost", "error", err)
			return
		}
		n := 0
		if err != nil && ctx.Err() == nil && !errors.Is(err, errCrash) {
			if n = d.failed(lease); n >= mostAttempts {
				d.halt(ctx, logger, lease, fmt.Sprintf("%d attempts to go on from offset %d failed: %v", n, lease.CommittedOffset, err))
				return
			}
			logger.Error("partition stopped; it is tried again", "attempts", n, "error", err)
		}
		d.release(ctx, logger, lease)
		d.rest(ctx, n)
		return
	}
}

// failed counts an attempt that came to nothing, and gives the number of them since the position last moved.
func (d *Distill) failed(lease *Lease) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.failures[lease.Partition]
	if f.offset != lease.CommittedOffset {
		f = failures{offset: lease.CommittedOffset}
	}
	f.n++
	d.failures[lease.Partition] = f
	return f.n
}

// rest is the pause after so many attempts that failed, shorter than a lease lasts.
func (d *Distill) rest(ctx context.Context, attempts int) {
	if attempts == 0 {
		return
	}
	wait := d.cfg.pause * time.Duration(min(50, 1<<min(attempts-1, 10)))
	select {
	case <-ctx.Done():
	case <-time.After(min(wait, d.leases.term/4)):
	}
}

// halt puts the reason on record. If that fails, the next one who claims the partition will do it.
func (d *Distill) halt(ctx context.Context, logger *slog.Logger, lease *Lease, reason string) {
	logger.Error("partition halted; `millrace partition show` says more", "reason", reason)
	d.metrics.halted.Inc()
	d.mu.Lock()
	delete(d.failures, lease.Partition) // a person who resumes it has changed something
	d.mu.Unlock()
	ctx, cancel := d.parting(ctx)
	defer cancel()
	if err := d.leases.halt(ctx, lease, reason); err != nil {
		logger.Error("recording the halt", "error", err)
	}
}

func (d *Distill) release(ctx context.Context, logger *slog.Logger, lease *Lease) {
	ctx, cancel := d.parting(ctx)
	defer cancel()
	if err := d.leases.release(ctx, lease); err != nil {
		logger.Debug("releasing the lease", "error", err)
	}
}

// parting is a context for a last word on a partition: also when the process is told to stop, and short.
func (d *Distill) parting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), min(2*time.Second, d.leases.term))
}

func (d *Distill) reclaim(ctx context.Context, lease *Lease) (*Lease, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		again, err := d.leases.reclaim(ctx, lease)
		if err == nil || errors.Is(err, ErrFenced) || ctx.Err() != nil {
			return again, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// work runs a worker beside the renewal of its lease.
func (d *Distill) work(ctx context.Context, lease *Lease) error {
	w := &worker{
		cfg: d.cfg, pool: d.pool, log: d.log, deadLetters: d.deadLetters, store: d.store, keyring: d.keyring,
		leases: d.leases, lease: lease, logger: d.logger, metrics: d.metrics, partitions: d.partitions,
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var renewing sync.WaitGroup
	renewing.Go(func() { d.renew(ctx, lease, cancel) })
	err := w.run(ctx)
	if cause := context.Cause(ctx); cause != nil && lostHold(cause) {
		err = cause
	}
	cancel(nil)
	renewing.Wait()
	return err
}

// renew keeps the lease alive while the worker is busy or waiting; it stops the worker once somebody else has the
// partition. Postgres being away is not that: the worker stops by its own clock.
func (d *Distill) renew(ctx context.Context, lease *Lease, stop context.CancelCauseFunc) {
	every := time.NewTicker(d.cfg.LeaseTerm / 4)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if err := d.leases.renew(ctx, lease); errors.Is(err, ErrFenced) {
			stop(err)
			return
		}
	}
}

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
}

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Topic == "" || c.Owner == "" {
		return errors.New("distill: topic and owner must be set")
	}
	if c.LeaseTerm == 0 {
		c.LeaseTerm = 15 * time.Second
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

	mu      sync.Mutex
	workers map[int32]*hold
	running sync.WaitGroup
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
		metrics: newMetrics(registry), workers: map[int32]*hold{},
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
	for {
		logger.Debug("partition taken", "epoch", lease.Epoch, "offset", lease.CommittedOffset)
		err := d.work(ctx, lease)
		var stop *halted
		var unknown *ambiguous
		switch {
		case errors.As(err, &stop):
			logger.Error("partition halted; `millrace partition show` says more", "reason", stop.reason)
			d.metrics.halted.Inc()
			if err := d.leases.halt(context.WithoutCancel(ctx), lease, stop.reason); err != nil {
				logger.Error("recording the halt", "error", err)
			}
			return
		case errors.As(err, &unknown):
			logger.Warn("commit with an unknown outcome: taking the lease again", "error", err)
			again, err := d.reclaim(ctx, lease)
			if err != nil {
				logger.Warn("partition given up", "error", err)
				return
			}
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
		case err != nil && ctx.Err() == nil:
			logger.Error("partition stopped", "error", err)
		}
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := d.leases.release(release, lease); err != nil {
			logger.Debug("releasing the lease", "error", err)
		}
		return
	}
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

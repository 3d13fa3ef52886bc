package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"millrace/internal/objstore"
	"millrace/internal/postgres"
)

// publisher is the name of the leader's job.
const publisher = "publisher"

// Feed publishes shards and serves them.
type Feed struct {
	cfg    Config
	pool   *pgxpool.Pool
	store  objstore.Bucket
	log    *slog.Logger
	leader *postgres.Leader
	news   *news
	asked  chan struct{} // somebody waits in Flush: look now
}

// New makes a feed. The store is where distill writes.
func New(cfg Config, pool *pgxpool.Pool, store objstore.Bucket, log *slog.Logger) (*Feed, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	leader, err := postgres.NewLeader(postgres.LeaderConfig{Name: publisher, Owner: cfg.Owner, Lease: cfg.Lease}, pool)
	if err != nil {
		return nil, err
	}
	return &Feed{cfg: cfg, pool: pool, store: store, log: log, leader: leader, news: newNews(), asked: make(chan struct{}, 1)}, nil
}

// Run publishes whenever this process is the leader, and passes news on to waiting readers, until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.leader.Run(ctx, f.lead) })
	g.Go(func() error { f.news.listen(ctx, f.pool, f.log); return nil })
	return g.Wait()
}

// lead does rounds for as long as the term lasts. What fails is tried again with longer and longer pauses: nothing is
// lost meanwhile, readers only wait.
func (f *Feed) lead(ctx context.Context, term int64) error {
	f.log.Info("publisher: elected", "term", term)
	collected := time.Now()
	pause := f.cfg.Interval
	failing := false
	for {
		err := f.round(ctx, term)
		if err == nil && f.cfg.CollectEvery > 0 && time.Since(collected) >= f.cfg.CollectEvery {
			collected = time.Now()
			_, err = f.Collect(ctx)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, postgres.ErrFenced):
			return err
		case err != nil:
			pause = min(max(2*pause, time.Second), 30*time.Second)
			f.log.Error("publisher: trying again", "error", err, "in", pause)
			failing = true
		case failing:
			f.log.Info("publisher: works again")
			failing = false
			fallthrough
		default:
			pause = f.cfg.Interval
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-f.asked:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// round publishes and compacts everything that can be now. One step's trouble doesn't hold up the others.
func (f *Feed) round(ctx context.Context, term int64) error {
	return errors.Join(f.number(ctx, term), f.publish(ctx, term), f.compact(ctx, term))
}

// Flush waits until everything that is committed now is published, and all whole log-hours and days are compacted; rows
// of an hour that isn't over stay in staging (see LedgerFiles). Somebody's Run must be at work.
func (f *Feed) Flush(ctx context.Context) error {
	for {
		select {
		case f.asked <- struct{}{}:
		default:
		}
		var left bool
		err := f.pool.QueryRow(ctx, `select exists (select from shard where kind = 'sample' and not published)
			or exists (`+levels[0].over+`) or exists (`+levels[1].over+`)`).Scan(&left)
		if err == nil && !left {
			return nil
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for the publisher: %w", errors.Join(ctx.Err(), err))
		case <-timer.C:
		}
	}
}

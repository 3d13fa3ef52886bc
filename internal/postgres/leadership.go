package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// LeaderConfig says what is led, by whom.
type LeaderConfig struct {
	Name  string        // of the job, for instance "publisher"
	Owner string        // of this process; no two may have the same
	Lease time.Duration // how long a dead leader is waited for. Default 10 s, at least 100 ms
}

// Validate checks the configuration.
func (c LeaderConfig) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("leader: no name of a job given")
	case c.Owner == "":
		return fmt.Errorf("leader of %s: no owner given", c.Name)
	case c.Lease != 0 && c.Lease < 100*time.Millisecond:
		return fmt.Errorf("leader of %s: a lease of %s is too short; give at least 100ms", c.Name, c.Lease)
	}
	return nil
}

// Leader competes for a job and does it while elected.
type Leader struct {
	cfg  LeaderConfig
	pool *pgxpool.Pool
}

// NewLeader makes a candidate.
func NewLeader(cfg LeaderConfig, pool *pgxpool.Pool) (*Leader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Lease == 0 {
		cfg.Lease = 10 * time.Second
	}
	return &Leader{cfg, pool}, nil
}

// Run tries to be elected until ctx ends, and calls lead for every term that it wins. lead's context ends with the term:
// by a renewal that says so, or by this process's own monotonic clock when a fifth of the lease is left, whatever the
// database says or doesn't. lead checks the term in each transaction (CheckTerm) and returns nil to be elected anew; an
// error other than ErrFenced or its context's ends Run. Errors of the database are tried again.
func (l *Leader) Run(ctx context.Context, lead func(ctx context.Context, term int64) error) error {
	for ctx.Err() == nil {
		asked := time.Now()
		term, ok, err := Elect(ctx, l.pool, l.cfg.Name, l.cfg.Owner, l.cfg.Lease)
		if err == nil && ok {
			if err := l.term(ctx, term, asked, lead); err != nil {
				return err
			}
		}
		wait(ctx, l.cfg.Lease/3)
	}
	return nil
}

// term leads until the term ends, and resigns.
func (l *Leader) term(ctx context.Context, term int64, asked time.Time, lead func(context.Context, int64) error) error {
	trusted, end := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		defer end(ErrFenced)
		l.renew(trusted, term, asked)
	}()
	err := lead(trusted, term)
	over := trusted.Err() != nil
	end(nil)
	<-renewed

	// What is being given up is given up in order, also when ctx has ended.
	resigning, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(l.cfg.Lease, 2*time.Second))
	defer cancel()
	_ = Resign(resigning, l.pool, l.cfg.Name, term) // if it fails the lease runs out
	if errors.Is(err, ErrFenced) || over && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// renew returns when the term can't be trusted any more.
func (l *Leader) renew(ctx context.Context, term int64, asked time.Time) {
	for {
		expiry := asked.Add(l.cfg.Lease - l.cfg.Lease/5) // monotonic
		wait(ctx, min(l.cfg.Lease/3, time.Until(expiry)))
		if ctx.Err() != nil || !time.Now().Before(expiry) {
			return
		}
		now := time.Now()
		attempt, cancel := context.WithDeadline(ctx, expiry)
		err := Renew(attempt, l.pool, l.cfg.Name, term, l.cfg.Lease)
		cancel()
		if err == nil {
			asked = now
		} else if errors.Is(err, ErrFenced) {
			return
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

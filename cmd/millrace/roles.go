package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/checkpoint"
	"millrace/distill"
	"millrace/feed"
	"millrace/ingest"
	"millrace/internal/auth"
	"millrace/internal/eventlog"
	"millrace/schemas/event"
)

// role is one part of the house at work: what it does until it is told to stop, and what it answers over HTTP.
type role struct {
	name    string
	run     func(context.Context) error
	ready   func(context.Context) error // may it take work now?
	handler map[string]http.Handler     // by the prefix of its routes
	reads   bool                        // the log: only once its topics are found to be as they should be
}

// onTopics makes the role end, with everything that is wrong in sentences, if the topics aren't configured as the
// pipeline needs: one writer's wrong clock would settle everything, or large events would be lost. Kafka may be away at
// first; what doesn't read the log works meanwhile.
func (r role) onTopics(p *parts) role {
	run := r.run
	r.run = func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		right := make(chan struct{})
		group.Go(func() error {
			err := patiently(ctx, p.logger, "Kafka does not answer", eventlog.Retryable, func() error { return checkTopics(ctx, p.cfg) })
			if err == nil {
				close(right)
			}
			return unlessStopped(ctx, err)
		})
		group.Go(func() error {
			if r.reads {
				select {
				case <-right:
				case <-ctx.Done():
					return nil
				}
			}
			return run(ctx)
		})
		return group.Wait()
	}
	return r
}

// checkTopics is an error if anything is wrong with the topics' configuration.
func checkTopics(ctx context.Context, cfg eventlog.Config) error {
	wrong, err := eventlog.Check(ctx, cfg)
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("the topics are not as they must be; mend them (kafka-configs.sh --alter), then start again:\n  %s", strings.Join(wrong, "\n  "))
	}
	return err
}

// writer opens a writer of a topic; it is closed with the parts.
func (p *parts) writer(topic string) (*eventlog.Writer, error) {
	w, err := eventlog.NewWriter(p.cfg, topic)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func() { _ = w.Close() })
	return w, nil
}

func (p *parts) reader() (*eventlog.Reader, error) {
	r, err := eventlog.NewReader(p.cfg)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func() { _ = r.Close() })
	return r, nil
}

// answers says whether Postgres does.
func (p *parts) answers(ctx context.Context) error {
	if err := p.pool.Ping(ctx); err != nil {
		return errors.New("Postgres does not answer")
	}
	return nil
}

// usable says whether Postgres and the object store are there for work.
func (p *parts) usable(ctx context.Context) error {
	if err := p.answers(ctx); err != nil {
		return err
	}
	return p.store.Check(ctx)
}

// guard lets requests through by their bearer tokens.
func (p *parts) guard() *auth.Guard { return auth.NewGuard(p.pool, 0) }

// newIngest is the gateway, the assignment that backends ask, and the tokens. What a simulated clock has to move by
// itself is left in moved, which may be nil.
func newIngest(p *parts, clock func() time.Time, tickEvery time.Duration, moved *hands) (role, error) {
	writer, err := p.writer(p.cfg.Topic)
	if err != nil {
		return role{}, err
	}
	reader, err := p.reader()
	if err != nil {
		return role{}, err
	}
	guard := p.guard()
	gateway, err := ingest.New(ingest.Config{Name: p.owner, TickEvery: tickEvery}, ingest.Deps{
		Log: writer,
		Control: func(ctx context.Context, record *event.ControlRecord, at time.Time) error {
			return eventlog.WriteControl(ctx, writer, p.keyring, p.cfg, record, at)
		},
		Probe:   reader.Reachable,
		Schemas: p.store, Guard: guard, Clock: clock, Stopping: p.stopping, Logger: p.logger, Registerer: p.registry,
	})
	if err != nil {
		return role{}, err
	}
	assigner, err := newAssigner(p, clock)
	if err != nil {
		return role{}, err
	}
	if moved != nil {
		moved.gateway, moved.assigner = gateway, assigner
	}
	assigned, tokens := assigner.Handler(guard), auth.Handler(p.pool, guard)
	return role{
		name: "ingest", ready: gateway.Ready,
		run: func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return gateway.Run(ctx) })
			group.Go(func() error { return assigner.Run(ctx) })
			return group.Wait()
		},
		handler: map[string]http.Handler{
			"/": gateway.Handler(), "/ofrep/": assigned, "/v1/ruleset": assigned, "/v1/ruleset/": assigned, "/v1/tokens": tokens, "/v1/tokens/": tokens,
		},
	}, nil
}

// newDistill is the workers.
func newDistill(p *parts, leaseTerm time.Duration) (role, error) {
	reader, err := p.reader()
	if err != nil {
		return role{}, err
	}
	deadLetters, err := p.writer(p.cfg.DeadLetterTopic())
	if err != nil {
		return role{}, err
	}
	d, err := distill.New(distill.Config{Topic: p.cfg.Topic, Owner: p.owner, LeaseTerm: leaseTerm, UnitKey: p.unitKey},
		p.pool, reader, deadLetters, p.store, p.keyring, p.logger, p.registry)
	if err != nil {
		return role{}, err
	}
	return role{name: "distill", reads: true, run: d.Run, ready: func(ctx context.Context) error {
		if err := reader.Reachable(ctx); err != nil {
			return err
		}
		return p.usable(ctx)
	}}, nil
}

// newFeed is the publisher and what trainers pull.
func newFeed(p *parts) (role, error) {
	f, err := feed.New(feed.Config{Owner: p.owner, Stopping: p.stopping, Guard: p.guard().Middleware(auth.ShardsRead)}, p.pool, p.store, p.logger)
	if err != nil {
		return role{}, err
	}
	h := f.Handler()
	return role{name: "feed", run: f.Run, ready: p.usable, handler: map[string]http.Handler{
		"/v1/policies": h, "/v1/policies/": h, "/v1/shards/": h,
	}}, nil
}

// newCheckpoint is the loop from the cut to the live pointer, and its API.
func newCheckpoint(p *parts, cfg checkpoint.Config, now func() time.Time) (role, *checkpoint.Control, error) {
	writer, err := p.writer(p.cfg.Topic)
	if err != nil {
		return role{}, nil, err
	}
	announcements, err := p.writer(p.cfg.CheckpointTopic())
	if err != nil {
		return role{}, nil, err
	}
	cfg.Topic, cfg.Partitions, cfg.Owner = p.cfg.Topic, p.cfg.Partitions, p.owner
	control, err := checkpoint.New(cfg, checkpoint.Deps{
		DB: p.pool, Store: p.store, Log: p.logger,
		WriteControl: func(ctx context.Context, r *event.ControlRecord) error {
			return eventlog.WriteControl(ctx, writer, p.keyring, p.cfg, r, now())
		},
		Announce: func(ctx context.Context, version string, body []byte) error {
			for _, err := range announcements.Write(ctx, eventlog.Message{Partition: -1, Key: []byte(version), Value: body, Time: now()}) {
				if err != nil {
					return fmt.Errorf("announcing %s: %w", version, err)
				}
			}
			return nil
		},
	})
	if err != nil {
		return role{}, nil, err
	}
	api := &checkpoint.API{
		DB: p.pool, Store: p.store, Now: now, Guard: p.guard().Middleware, Topic: p.cfg.Topic, Partitions: p.cfg.Partitions, Log: p.logger,
		Suites: cfg.Suites, Webhooks: cfg.Webhooks,
	}
	h := api.Handler()
	return role{name: "checkpoint", run: control.Run, ready: p.answers, handler: map[string]http.Handler{
		"/v1/cuts": h, "/v1/cuts/": h, "/v1/candidates": h, "/v1/candidates/": h, "/v1/experiments": h, "/v1/experiments/": h, "/v1/release": h, "/v1/release/": h, "/v1/reward": h, "/v1/reward/": h,
		"/v1/audit": h, "/v1/evals": h, "/v1/webhooks/": h,
	}}, control, nil
}

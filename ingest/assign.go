package ingest

import (
	"container/list"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/assignment"
)

// AssignConfig says how assignments are kept. The zero value of a field is its default, where it has one.
type AssignConfig struct {
	RefreshEvery time.Duration      // how often the ruleset is read. Default 2 s
	Sessions     int                // how many sessions' assignments are remembered. Default 200,000
	ValidFor     time.Duration      // how long a backend may use a signed ruleset without hearing from us. Default 10 min
	Key          ed25519.PrivateKey // signs rulesets, the same for all gateways
}

// Assigner answers from memory which checkpoint serves a unit, whatever else is down. A unit's session keeps the
// checkpoint that it began with: as long as it is remembered here, and beyond that if the backend says which it is on.
type Assigner struct {
	cfg    AssignConfig
	load   func(context.Context) (assignment.Ruleset, error)
	clock  func() time.Time
	logger *slog.Logger
	served map[assignment.Variant]prometheus.Counter
	failed prometheus.Counter

	mu     sync.Mutex
	rules  *assignment.Ruleset // nil: never read so far
	read   time.Time           // when it was read last
	pins   map[unitSession]*list.Element
	order  *list.List // of pin, the last used first
	signed signedRuleset
}

// unitSession is a session of one unit: backends may give the same session id to several.
type unitSession struct{ unit, session string }

type pin struct {
	unitSession
	assignment assignment.Assignment
}

var errNothingRead = fmt.Errorf("%w: the control plane could not be read yet, or nothing is live (`millrace release init VERSION`)", assignment.ErrNoRuleset)

// NewAssigner makes an assigner that reads its ruleset by load; a nil clock is the system's.
func NewAssigner(cfg AssignConfig, load func(context.Context) (assignment.Ruleset, error), clock func() time.Time, logger *slog.Logger, registerer prometheus.Registerer) (*Assigner, error) {
	switch {
	case cfg.RefreshEvery < 0 || cfg.Sessions < 0 || cfg.ValidFor < 0:
		return nil, fmt.Errorf("assignment: refresh every %s, %d sessions and valid for %s must not be negative", cfg.RefreshEvery, cfg.Sessions, cfg.ValidFor)
	case len(cfg.Key) != ed25519.PrivateKeySize:
		return nil, fmt.Errorf("assignment: a signing key of %d bytes, want %d", len(cfg.Key), ed25519.PrivateKeySize)
	}
	setDefault(&cfg.RefreshEvery, 2*time.Second)
	setDefault(&cfg.Sessions, 200_000)
	setDefault(&cfg.ValidFor, 10*time.Minute)
	if clock == nil {
		clock = time.Now
	}
	a := &Assigner{
		cfg: cfg, load: load, clock: clock, logger: logger, pins: map[unitSession]*list.Element{}, order: list.New(),
		served: map[assignment.Variant]prometheus.Counter{},
	}
	served := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_assignments_total", Help: "Evaluations answered, by variant."}, []string{"variant"})
	for _, variant := range assignment.Variants {
		a.served[variant] = served.WithLabelValues(string(variant))
	}
	a.failed = served.WithLabelValues("error")
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "millrace_assignment_ruleset_age_seconds", Help: "Time since the ruleset was read last; -1: never.",
	}, a.age)
	for _, c := range []prometheus.Collector{served, age} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("assignment metrics: %w", err)
		}
	}
	return a, nil
}

func (a *Assigner) age() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rules == nil {
		return -1
	}
	return a.clock().Sub(a.read).Seconds()
}

// Refresh reads the ruleset once. When it can't, the last one stays in force.
func (a *Assigner) Refresh(ctx context.Context) error {
	rules, err := a.load(ctx)
	if err == nil && rules.Live == "" {
		err = errors.New("nothing is live yet; `millrace release init VERSION` says what is")
	}
	if err != nil {
		return fmt.Errorf("read the ruleset: %w", err)
	}
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read = now
	if a.rules == nil || !reflect.DeepEqual(*a.rules, rules) {
		a.rules = &rules
	}
	return nil
}

// Run reads the ruleset again and again until ctx ends.
func (a *Assigner) Run(ctx context.Context) error {
	ticker := time.NewTicker(a.cfg.RefreshEvery)
	defer ticker.Stop()
	failing := false
	for {
		switch err := a.Refresh(ctx); {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			a.logger.Warn("assignment goes on with the last ruleset", "error", err)
			failing = true
		case err == nil && failing:
			a.logger.Info("assignment has a current ruleset again")
			failing = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Evaluate says which checkpoint serves the unit; with a session it is the one that the session began with, unless nothing
// serves that one any more. What the query says of the session counts where it isn't remembered here. The last ruleset
// holds however old it is: assignment.ErrNoRuleset if there was none so far.
func (a *Assigner) Evaluate(q assignment.Query, session string) (assignment.Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rules == nil {
		return assignment.Assignment{}, errNothingRead
	}
	now := a.clock()
	if session == "" {
		return a.rules.Decide(q, now)
	}
	key := unitSession{q.Unit, session}
	if e, ok := a.pins[key]; ok {
		p := e.Value.(*pin)
		if a.rules.Serves(q.Unit, p.assignment.Version) {
			a.order.MoveToFront(e)
			return p.assignment, nil
		}
		a.forget(e)
	}
	decided, err := a.rules.Decide(q, now)
	if err != nil {
		return decided, err
	}
	a.pins[key] = a.order.PushFront(&pin{key, decided})
	if a.order.Len() > a.cfg.Sessions {
		a.forget(a.order.Back())
	}
	return decided, nil
}

func (a *Assigner) forget(e *list.Element) {
	delete(a.pins, e.Value.(*pin).unitSession)
	a.order.Remove(e)
}

package ingest

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/unithash"
)

// Ruleset is what decides which checkpoint serves a unit.
type Ruleset struct {
	Live       string      // the live policy version
	Experiment *Experiment // the test under way, if there is one
	Former     []string    // versions that were live: a session may still run out on one
	Withdrawn  []string    // versions of candidates that have ended and aren't live: no session keeps them
}

// Experiment is a test of a candidate against the live version. Inside the coverage the arms are half and half; raising
// it only adds units.
type Experiment struct {
	ID         string
	Salt       string    // fresh for every experiment
	Coverage   float64   // share of all units that are in the test, 0 … 1
	Control    string    // policy versions
	Candidate  string    //
	ValidUntil time.Time // after it nobody is assigned by this experiment
}

// Assignment is the answer for a unit.
type Assignment struct {
	Version    string
	Variant    string // "live", "control" or "candidate"
	Experiment string // empty: served outside any experiment
	Arm        string // "control" or "candidate", with an experiment
	ValidUntil time.Time
}

// The variants of an assignment.
const (
	variantLive      = "live"
	variantControl   = "control"
	variantCandidate = "candidate"
)

// HashVersion names how a unit's arm is computed (unithash.Bucket), for backends that compute it themselves.
const HashVersion = 2

// assign is the pure part: experiment, then live.
func (r *Ruleset) assign(unit string, now time.Time) Assignment {
	if x := r.Experiment; x != nil && (x.ValidUntil.IsZero() || now.Before(x.ValidUntil)) {
		a := Assignment{Experiment: x.ID, ValidUntil: x.ValidUntil}
		switch unithash.Choose(unithash.Bucket(x.Salt, unit), unithash.Ranges(2, x.Coverage, nil)) {
		case 0:
			a.Version, a.Variant, a.Arm = x.Control, variantControl, "control"
			return a
		case 1:
			a.Version, a.Variant, a.Arm = x.Candidate, variantCandidate, "candidate"
			return a
		}
	}
	return Assignment{Version: r.Live, Variant: variantLive}
}

// keeps is the assignment of a session that is on the version current already; false if it can't stay there. A candidate
// is kept for units of its arm only.
func (r *Ruleset) keeps(unit, current string, now time.Time) (Assignment, bool) {
	if current == "" || slices.Contains(r.Withdrawn, current) {
		return Assignment{}, false
	}
	if a := r.assign(unit, now); a.Version == current {
		return a, true
	}
	return Assignment{Version: current, Variant: variantLive}, current == r.Live || slices.Contains(r.Former, current)
}

// AssignConfig says how assignments are kept. The zero value of a field is its default.
type AssignConfig struct {
	RefreshEvery time.Duration // how often the ruleset is read. Default 2 s
	Sessions     int           // how many sessions' assignments are remembered. Default 200,000
}

// Assigner answers from memory which checkpoint serves a unit, whatever else is down. A unit's session keeps the
// checkpoint that it began with: as long as it is remembered here, and beyond that if the backend says which it is on.
type Assigner struct {
	cfg    AssignConfig
	load   func(context.Context) (Ruleset, error)
	clock  func() time.Time
	logger *slog.Logger
	served *prometheus.CounterVec

	mu    sync.Mutex
	rules *Ruleset // nil: never read so far
	pins  map[unitSession]*list.Element
	order *list.List // of pin, the last used first
}

// unitSession is a session of one unit: backends may give the same session id to several.
type unitSession struct{ unit, session string }

type pin struct {
	unitSession
	assignment Assignment
}

// ErrNoRuleset says that it was never possible to read what is live.
var ErrNoRuleset = errors.New("no ruleset could be read so far")

// NewAssigner makes an assigner that reads its ruleset by load; a nil clock is the system's.
func NewAssigner(cfg AssignConfig, load func(context.Context) (Ruleset, error), clock func() time.Time, logger *slog.Logger, registerer prometheus.Registerer) (*Assigner, error) {
	if cfg.RefreshEvery < 0 || cfg.Sessions < 0 {
		return nil, fmt.Errorf("assignment: refresh every %s and %d sessions must not be negative", cfg.RefreshEvery, cfg.Sessions)
	}
	setDefault(&cfg.RefreshEvery, 2*time.Second)
	setDefault(&cfg.Sessions, 200_000)
	if clock == nil {
		clock = time.Now
	}
	a := &Assigner{
		cfg: cfg, load: load, clock: clock, logger: logger, pins: map[unitSession]*list.Element{}, order: list.New(),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_assignments_total", Help: "Evaluations answered, by variant."}, []string{"variant"}),
	}
	if err := registerer.Register(a.served); err != nil {
		return nil, fmt.Errorf("assignment metrics: %w", err)
	}
	return a, nil
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
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules = &rules
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

// Evaluate says which checkpoint serves the unit; with a session it is the one that the session began with, unless that
// one was withdrawn. If the session isn't remembered here, current says which checkpoint it is on; "" if it is new or the
// backend doesn't know. ErrNoRuleset.
func (a *Assigner) Evaluate(unit, session, current string) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rules == nil {
		return Assignment{}, ErrNoRuleset
	}
	now := a.clock()
	if session == "" {
		return a.rules.assign(unit, now), nil
	}
	key := unitSession{unit, session}
	if e, ok := a.pins[key]; ok {
		p := e.Value.(*pin)
		if !slices.Contains(a.rules.Withdrawn, p.assignment.Version) {
			a.order.MoveToFront(e)
			return p.assignment, nil
		}
		a.forget(e)
	}
	assignment, kept := a.rules.keeps(unit, current, now)
	if !kept {
		assignment = a.rules.assign(unit, now)
	}
	a.pins[key] = a.order.PushFront(&pin{key, assignment})
	if a.order.Len() > a.cfg.Sessions {
		a.forget(a.order.Back())
	}
	return assignment, nil
}

func (a *Assigner) forget(e *list.Element) {
	delete(a.pins, e.Value.(*pin).unitSession)
	a.order.Remove(e)
}

package sim

import (
	"math/rand/v2"
	"time"

	"millrace/schemas/event"
)

// Sim is the simulated traffic. It is pulled by one goroutine and has none of its own.
type Sim struct {
	cfg        Config
	start      int64 // µs, as all times here
	now        int64
	base       Behaviour
	candidate  Behaviour
	served     map[string]Behaviour
	vocabulary vocabulary
	policies   map[Behaviour]*tokenPolicy
	outages    outages
	happening  queue[occurrence]
	sending    queue[*event.SessionEvent]
	transport  *rand.Rand
	steps      []step // the plan of the turn at hand, kept to be used again
}

// occurrence is what happens at a time: an event, a turn's beginning, or, with neither, a unit's wish for a session.
type occurrence struct {
	unit    *unit
	session *session
	event   *event.SessionEvent
	source  source
}

// source numbers who emits: each counts its own events in a session.
type source uint8

const (
	ide source = iota
	engine
)

var sourceNames = [...]string{ide: "ide", engine: "engine"}

// New makes the traffic of cfg. Sessions begin at cfg.Start.
func New(cfg Config) (*Sim, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	candidate, err := Candidate(cfg.Kind)
	if err != nil {
		return nil, err
	}
	if cfg.Assign == nil {
		version := cfg.BaseVersion
		cfg.Assign = func(string, string) (string, string, string) { return version, "", "" }
	}
	s := &Sim{
		cfg:        cfg,
		start:      cfg.Start.UnixMicro(),
		now:        cfg.Start.UnixMicro(),
		base:       Base(),
		candidate:  candidate,
		served:     map[string]Behaviour{},
		vocabulary: newVocabulary(rand.New(rand.NewPCG(cfg.Seed, 1))),
		policies:   map[Behaviour]*tokenPolicy{},
		transport:  rand.New(rand.NewPCG(cfg.Seed, 2)),
	}
	s.outages = outages{rng: rand.New(rand.NewPCG(cfg.Seed, 3)), from: s.start, until: s.start, calm: cfg.Calm}
	for i := range cfg.Units {
		u := newUnit(&cfg, i)
		s.happening.put(u.nextArrival(s.start), occurrence{unit: u})
	}
	return s, nil
}

// Serve fixes how a policy version behaves in sessions that begin from now on.
func (s *Sim) Serve(version string, b Behaviour) { s.served[version] = b }

// Now is the simulated time up to which events have been handed out.
func (s *Sim) Now() time.Time { return microTime(s.now) }

// Next hands out the events that are sent after the last call's time and up to until, in the order in which they
// are sent. Who serves a session is asked while the clock passes its start. The same event may come twice: that is
// a client that sent it twice. Events may share parts that never change; the caller must not change them.
func (s *Sim) Next(until time.Time) []*event.SessionEvent {
	limit := until.UnixMicro()
	if limit <= s.now {
		return nil
	}
	for s.happening.due(limit) {
		at, what := s.happening.take()
		switch {
		case what.event != nil:
			s.send(at, what)
		case what.session != nil:
			what.session.turn(at)
		default:
			s.beginSession(at, what.unit)
		}
	}
	var out []*event.SessionEvent
	for s.sending.due(limit) {
		_, ev := s.sending.take()
		out = append(out, ev)
	}
	s.now = limit
	return out
}

func (s *Sim) behaviour(version string) Behaviour {
	if b, ok := s.served[version]; ok {
		return b
	}
	if version == s.cfg.BaseVersion {
		return s.base
	}
	return s.candidate
}

package sim

import (
	"math/rand/v2"
	"strings"

	"millrace/schemas/event"
)

// session is one conversation of a unit with the agent. It keeps the policy version that it began with.
type session struct {
	sim       *Sim
	unit      *unit
	rng       *rand.Rand
	id        string
	version   string
	behaviour Behaviour
	policy    *tokenPolicy
	context   *event.TurnContext
	numbered  [2]uint64 // events so far, by source
	turns     uint64
	left      int   // turns still to come
	last      int64 // when the last event so far occurs
	previous  previous
}

// previous is what the next request answers to.
type previous struct {
	outcome outcome
	words   []string
	kept    float64
	file    string
}

func (s *Sim) beginSession(at int64, u *unit) {
	u.sessions++
	n := &session{
		sim:  s,
		unit: u,
		rng:  rand.New(rand.NewPCG(u.rng.Uint64(), u.sessions)),
		// The start stands in the name, so that a second simulation over the same log makes new sessions.
		id: "s" + u.id[1:] + "-" + base36(uint64(at)),
	}
	var experiment, arm string
	n.version, experiment, arm = s.cfg.Assign(u.id, n.id)
	n.behaviour = s.behaviour(n.version)
	n.policy = s.policy(n.behaviour)
	n.context = &event.TurnContext{
		HarnessVersion:     harnessVersion,
		ToolSchemaDigest:   ToolSchemaDigest,
		Experiment:         experiment,
		Arm:                arm,
		Repository:         u.repository,
		Origin:             event.Origin_SIMULATED,
		TokenizerDigest:    tokenizerDigest,
		ChatTemplateDigest: chatTemplateDigest,
	}
	n.left = n.length()
	n.occur(at, ide, "", &event.SessionEvent{Body: &event.SessionEvent_SessionStarted{SessionStarted: &event.SessionStarted{
		Client:           "sim",
		ClientVersion:    "1.0.0",
		HarnessVersion:   harnessVersion,
		Tools:            Tools,
		ToolSchemaDigest: ToolSchemaDigest,
		Repository:       u.repository,
		Origin:           event.Origin_SIMULATED,
	}}})
	first := at + second + int64(20*float64(second)*n.rng.Float64())
	s.happening.put(first, occurrence{session: n})
}

func (s *session) length() int {
	p := s.rng.Float64()
	for i, share := range sessionLengths {
		if p < share {
			return i + 1
		}
		p -= share
	}
	return len(sessionLengths)
}

// shareAnswered is the chance that a user answers a question that would have ended the session.
const shareAnswered = .85

// goOn lets the next turn begin after the one that ended, or ends the session.
func (s *session) goOn(ended, decided int64) {
	if s.previous.outcome == asked && s.left == 0 && s.turns < 6 && s.rng.Float64() < shareAnswered {
		s.left = 1
	}
	if s.left > 0 {
		think := logNormal(s.rng, 75, .8)
		if s.previous.outcome == asked {
			think = logNormal(s.rng, 40, .6)
		}
		next := ended + int64(float64(second)*min(max(think, 8), 720))
		s.sim.happening.put(max(next, decided+2*second), occurrence{session: s})
		return
	}
	s.end(ended)
}

// end lets the unit turn to its next session.
func (s *session) end(at int64) {
	if s.rng.Float64() < .8 { // the others leave the window open
		s.occur(max(s.last, at)+5*second, ide, "", &event.SessionEvent{Body: &event.SessionEvent_SessionEnded{
			SessionEnded: &event.SessionEnded{Reason: "closed"},
		}})
	}
	s.leave(at)
}

func (s *session) leave(at int64) {
	next := max(s.unit.nextArrival(s.sim.start), at+30*second)
	s.sim.happening.put(next, occurrence{unit: s.unit})
}

// request is what the user says, and what it is to the turn before.
func (s *session) request() *event.TurnStarted {
	r, v := s.rng, s.sim.vocabulary
	started := &event.TurnStarted{Context: s.context}
	words := s.previous.words
	pasted := false
	switch was := s.previous.outcome; {
	case was == asked:
		words = v.request(r, s.unit.script, 1, 4)
	case was == delivered && s.previous.kept < .5:
		switch p := r.Float64(); {
		case p < .20:
			started.Relation, words = event.Relation_UNDO, v.request(r, s.unit.script, 2, 4)
		case p < .23:
			started.Relation, words = event.Relation_RESTORE, v.request(r, s.unit.script, 3, 6)
		case p < .45:
			words = v.restate(r, s.unit.script, words)
		case p < .62:
			pasted, words = true, v.request(r, s.unit.script, 1, 3)
		default:
			words = v.request(r, s.unit.script, 4, 12)
		}
	case was == gaveUp || was == stopped || was == failed:
		switch p := r.Float64(); {
		case p < .30:
			started.Relation = event.Relation_RETRY
		case p < .65:
			words = v.restate(r, s.unit.script, words)
		default:
			words = v.request(r, s.unit.script, 4, 12)
		}
	default:
		words = v.request(r, s.unit.script, 4, 12)
	}
	s.previous.words = words
	started.PastedStackTrace = pasted
	started.Text = sentence(words, pasted, s.previous.file, int64(10+r.IntN(400)))
	return started
}

func sentence(words []string, pasted bool, file string, line int64) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	if pasted {
		stackTrace(&b, file, line)
	}
	return b.String()
}

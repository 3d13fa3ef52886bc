package sim

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

var testStart = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const cycle = 330 * time.Minute

// halves puts every second unit into the candidate's arm, from the first session on.
func halves(unit, _ string) (version, experiment, arm string) {
	if unit[len(unit)-1]%2 == 0 {
		return "cand-1", "exp-1", "candidate"
	}
	return "base-0", "exp-1", "control"
}

// turnFacts is what an observer makes of one turn's events, by the definitions of the A/B metrics.
type turnFacts struct {
	unit, arm string
	started   int64
	wantsEdit bool
	delivered bool
	applied   bool
	question  bool
	aborted   bool
	failed    bool
	ended     bool
	malformed int
	tokens    int
	latencyMs float64
	steps     int
	stepsTold int
	edits     map[string]*editFacts
}

type editFacts struct {
	size      float64
	autoTaken bool
	accepted  bool
	rejected  bool
	seconds   float64
	kept      float64
	observed  bool
}

func (t *turnFacts) edit(id string) *editFacts {
	if t.edits[id] == nil {
		t.edits[id] = &editFacts{}
	}
	return t.edits[id]
}

// retention as the ledger defines it; not known if an accepted edit was never observed.
func (t *turnFacts) retention() (kept float64, known bool) {
	sum, weights := 0., 0.
	for _, e := range t.edits {
		if (e.accepted || e.autoTaken) && !e.rejected && !e.observed {
			continue
		}
		w := min(e.size, 5000)
		weights += w
		if e.accepted || e.autoTaken {
			sum += w * e.kept
		}
	}
	return sum / weights, weights > 0
}

type observer map[string]*turnFacts

func (o observer) see(ev *event.SessionEvent) {
	if ev.TurnId == "" {
		return
	}
	t := o[ev.TurnId]
	if t == nil {
		t = &turnFacts{unit: ev.UnitId, edits: map[string]*editFacts{}}
		o[ev.TurnId] = t
	}
	switch b := ev.Body.(type) {
	case *event.SessionEvent_TurnStarted:
		t.arm = b.TurnStarted.Context.Arm
		t.started = ev.SentAt.AsTime().UnixMicro()
		i := b.TurnStarted.Intent
		t.wantsEdit = i != event.Intent_ASK && i != event.Intent_REVIEW
	case *event.SessionEvent_StepCompleted:
		c := b.StepCompleted.Tokens
		t.tokens += int(c.GetThinking() + c.GetToolArgument() + c.GetFinal())
		t.latencyMs += b.StepCompleted.GetLatencyMs()
		t.steps++
	case *event.SessionEvent_ToolReturned:
		if o := b.ToolReturned.Outcome; o >= event.ToolOutcome_INVALID_JSON && o <= event.ToolOutcome_TRUNCATED_BY_LENGTH {
			t.malformed++
		}
	case *event.SessionEvent_ToolCalled:
		if b.ToolCalled.Repaired {
			t.malformed++
		}
	case *event.SessionEvent_EditProposed:
		t.delivered = true
		e := t.edit(b.EditProposed.EditId)
		e.size = float64(b.EditProposed.CharactersAdded + b.EditProposed.CharactersRemoved)
		e.autoTaken = b.EditProposed.Applied
		t.applied = t.applied || e.autoTaken
	case *event.SessionEvent_EditDecided:
		e := t.edit(b.EditDecided.EditId)
		e.rejected = b.EditDecided.Decision == event.Decision_REJECTED
		e.accepted = !e.rejected
		t.applied = t.applied || e.accepted
	case *event.SessionEvent_EditObserved:
		e := t.edit(b.EditObserved.EditId)
		if b.EditObserved.SecondsSinceAcceptance >= e.seconds {
			e.observed = true
			e.seconds = b.EditObserved.SecondsSinceAcceptance
			e.kept = min(b.EditObserved.GetFourGram(), b.EditObserved.GetNoRevert())
		}
	case *event.SessionEvent_TurnEnded:
		t.ended = true
		t.stepsTold = int(b.TurnEnded.GetSteps())
		t.question = b.TurnEnded.AsksUser
		t.aborted = b.TurnEnded.Reason == event.EndReason_ABORTED_BY_USER
		t.failed = b.TurnEnded.Reason == event.EndReason_PROVIDER_FAILED || b.TurnEnded.Reason == event.EndReason_HARNESS_FAILED
	}
}

// moments are the sums of a ratio with whole units as clusters.
type moments map[string][2]float64

func (m moments) add(unit string, num, den float64) {
	x := m[unit]
	m[unit] = [2]float64{x[0] + num, x[1] + den}
}

func (m moments) ratio() (r, se float64) {
	var num, den float64
	for _, x := range m {
		num, den = num+x[0], den+x[1]
	}
	r = num / den
	v := 0.
	for _, x := range m {
		v += (x[0] - r*x[1]) * (x[0] - r*x[1])
	}
	return r, math.Sqrt(v) / den
}

// rates are the metrics of one arm.
type rates struct {
	delivery, kept, edited, questions, aborts, malformed, latency, tokens moments
}

func measure(o observer, arm string, counts func(*turnFacts) bool) rates {
	r := rates{moments{}, moments{}, moments{}, moments{}, moments{}, moments{}, moments{}, moments{}}
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	for _, t := range o {
		if t.arm != arm || t.failed || !t.ended || t.steps != t.stepsTold || !counts(t) {
			continue
		}
		if t.wantsEdit {
			r.delivery.add(t.unit, is(t.delivered), 1)
			r.edited.add(t.unit, is(t.applied), 1)
			r.questions.add(t.unit, is(t.question), 1)
			if kept, known := t.retention(); t.delivered && known {
				r.kept.add(t.unit, kept, 1)
			}
		}
		r.aborts.add(t.unit, is(t.aborted), 1)
		r.malformed.add(t.unit, float64(t.malformed), 1)
		r.latency.add(t.unit, math.Log(t.latencyMs/1000), 1)
		r.tokens.add(t.unit, float64(t.tokens), 1)
	}
	return r
}

// watch plays a whole cycle and observes it.
func watch(t *testing.T, cfg Config) observer {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	o := observer{}
	for at := cfg.Start; at.Before(cfg.Start.Add(cycle)); {
		at = at.Add(time.Minute)
		for _, ev := range s.Next(at) {
			o.see(ev)
		}
	}
	return o
}

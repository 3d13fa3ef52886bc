package sim

import (
	"millrace/schemas/event"
)

// What becomes of a proposed edit besides its retention.
const (
	shareRejected  = .03
	shareUndecided = .01
	keptSpread     = 2.0 // of the beta distribution of an edit's retention: mostly wholly kept or wholly gone
	skillWeight    = .03 // what one standard deviation of skill adds to the mean retention
	shareUnwatched = .05 // of accepted edits whose observation ends early
)

// horizons of the observation of an edit, seconds after its acceptance, and how much of what will be lost is lost.
var horizons = [...]struct {
	seconds int64
	lost    float64
}{{30, .5}, {120, .7}, {300, .9}, {600, 1}}

func (s *session) propose(out *run, at int64, id, callID, file string) {
	r := s.rng
	edit := proposed{id: name(id, 'e', uint64(out.edits+1)), at: at}
	out.proposed[out.edits] = edit
	out.edits++
	added := uint32(min(max(logNormal(r, 240, 1), 5), 20_000))
	removed := uint32(float64(added) * .6 * r.Float64())
	ev := &event.EditProposed{
		EditId:            edit.id,
		CallId:            callID,
		FileHash:          hashed(file),
		Language:          s.unit.repository.MainLanguage,
		CharactersAdded:   added,
		CharactersRemoved: removed,
		LinesAdded:        1 + added/36,
		LinesRemoved:      removed / 36,
		FileReadBefore:    ptr(r.Float64() < .9),
		Shown:             !s.unit.autoAccept,
		Applied:           s.unit.autoAccept,
		TestsRemoved:      ptr(uint32(0)),
	}
	if r.Float64() < .004 {
		ev.TestsRemoved = ptr(uint32(1))
	}
	s.occur(at, ide, id, &event.SessionEvent{Body: &event.SessionEvent_EditProposed{EditProposed: ev}})
}

// edits plays what the user does with the edits of a turn, and returns their mean retention.
func (s *session) edits(run *run, id string, p plan, ended int64) (kept float64) {
	if run.edits == 0 {
		return 0
	}
	r := s.rng
	mean := s.behaviour.Kept/(1-shareRejected-shareUndecided) + s.unit.kept + skillWeight*s.policy.skillScore(run.good, run.tokens)
	mean = min(max(mean, .02), .98)
	for _, edit := range run.proposed[:run.edits] {
		fate, retention := r.Float64(), beta(r, mean, keptSpread)
		gone := fate < shareRejected+shareUndecided
		if gone {
			retention = 0
		}
		kept += retention / float64(run.edits)
		decided := &event.EditDecided{EditId: edit.id, Decision: event.Decision_ACCEPTED, Source: event.DecisionSource_USER, Shown: ptr(true)}
		at := ended + int64(float64(second)*(3+40*r.Float64()))
		switch {
		case s.unit.autoAccept:
			at = edit.at + 1000
			decided.Source, decided.Shown = event.DecisionSource_AUTO_ACCEPT, ptr(false)
		case p.unending:
			continue
		case fate < shareRejected:
			decided.Decision, decided.WithText = event.Decision_REJECTED, r.IntN(4) == 0
		case gone:
			continue
		case r.Float64() < .08:
			decided.Decision = event.Decision_PARTLY
		}
		s.occur(at, ide, id, &event.SessionEvent{Body: &event.SessionEvent_EditDecided{EditDecided: decided}})
		if !s.unit.autoAccept {
			run.decided = max(run.decided, at)
		}
		if decided.Decision != event.Decision_REJECTED && !p.unending {
			s.observe(at, id, edit.id, retention)
		}
	}
	s.checks(run, id, p, kept, ended)
	return kept
}

// observe looks at an edit at every horizon. The smaller of the two scores at the last one is its retention.
func (s *session) observe(accepted int64, id, editID string, retention float64) {
	r := s.rng
	other := retention + (1-retention)*.5*r.Float64()
	turned := r.IntN(2) == 0
	last := len(horizons) - 1
	end := event.ObservationEnd_OBSERVATION_END_UNSPECIFIED
	if r.Float64() < shareUnwatched {
		last = r.IntN(len(horizons))
		end = [...]event.ObservationEnd{event.ObservationEnd_COMMITTED, event.ObservationEnd_FILE_CLOSED, event.ObservationEnd_BRANCH_CHANGED}[r.IntN(3)]
	}
	for i, h := range horizons[:last+1] {
		lost := h.lost
		ev := &event.EditObserved{EditId: editID, SecondsSinceAcceptance: float64(h.seconds)}
		if i == last {
			lost, ev.Ended = 1, end
		}
		a, b := 1-(1-retention)*lost, 1-(1-other)*lost
		if turned {
			a, b = b, a
		}
		ev.FourGram, ev.NoRevert = &a, &b
		s.occur(accepted+h.seconds*second, ide, id, &event.SessionEvent{Body: &event.SessionEvent_EditObserved{EditObserved: ev}})
	}
}

// checks are run by the agent within the turn, or by the user after it.
func (s *session) checks(run *run, id string, p plan, kept float64, ended int64) {
	r := s.rng
	ev := &event.ChecksRan{Kind: event.CheckKind_TEST, CallId: run.checked}
	at := run.checkAt
	if run.checked == "" {
		if p.unending || r.Float64() >= .12 {
			return
		}
		ev.Kind = [...]event.CheckKind{event.CheckKind_TEST, event.CheckKind_BUILD, event.CheckKind_LINT}[r.IntN(3)]
		ev.ByUser = true
		at = ended + int64(float64(second)*(50+200*r.Float64()))
	}
	before, after := uint32(0), uint32(0)
	if r.Float64() < .3 {
		before = 1 + uint32(r.IntN(3))
	}
	if r.Float64() > .55+.45*kept {
		after = before + 1
	}
	ev.FailuresBefore, ev.FailuresAfter = &before, &after
	s.occur(at, ide, id, &event.SessionEvent{Body: &event.SessionEvent_ChecksRan{ChecksRan: ev}})
}

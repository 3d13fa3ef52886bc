package signal

import (
	"math"

	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// maxEditCharacters caps the weight of one edit in a turn's retention, so that one generated file can't hide
// what became of the others.
const maxEditCharacters = 5000

// horizons are the seconds after acceptance at which retention is reported; an observation belongs to the
// horizon that it is within a fifth of.
var horizons = []struct {
	seconds            float64
	fourGram, noRevert string
}{
	{30, "edits.retention_four_gram_30s", "edits.retention_no_revert_30s"},
	{120, "edits.retention_four_gram_120s", "edits.retention_no_revert_120s"},
	{300, "edits.retention_four_gram_300s", "edits.retention_no_revert_300s"},
	{600, "edits.retention_four_gram_600s", "edits.retention_no_revert_600s"},
}

func editSignals(v Vector, f *turn.Facts) {
	var proposed, shown, decided, accepted, rejected, applied, characters, unread float64
	readKnown := false
	for i := range f.Edits {
		e := &f.Edits[i]
		proposed++
		characters += e.Characters()
		if e.GetShown() || e.Decided.GetShown() {
			shown++
		}
		if e.Decided != nil {
			decided++
		}
		if e.AcceptedByUser() {
			accepted++
		}
		if e.RejectedByUser() {
			rejected++
		}
		if e.InTree() {
			applied++
		}
		if e.FileReadBefore != nil {
			readKnown = true
			if !e.GetFileReadBefore() {
				unread++
			}
		}
	}
	v.Set("edits.proposed", ledger.Of(proposed))
	v.Set("edits.shown", ledger.Of(shown))
	v.Set("edits.decided", ledger.Of(decided))
	v.Set("edits.accepted", ledger.Of(accepted))
	v.Set("edits.rejected", ledger.Of(rejected))
	v.Set("edits.applied", ledger.Of(applied))
	v.Set("edits.characters", ledger.Of(characters))
	if readKnown {
		v.Set("edits.unread_files", ledger.Of(unread))
	}
	v.Set("edits.retention", turnRetention(f.Edits))
	for _, h := range horizons {
		var four, revert mean
		for i := range f.Edits {
			if o := observedAt(&f.Edits[i], h.seconds); o != nil {
				fg, nr := scores(o)
				four.add(fg, weight(&f.Edits[i]))
				revert.add(nr, weight(&f.Edits[i]))
			}
		}
		v.Set(h.fourGram, four.value())
		v.Set(h.noRevert, revert.value())
	}
}

// turnRetention is the mean of the edits' retention weighted by capped characters. An edit whose fate was not
// observed counts in neither sum; if that is all of them the turn's retention is null.
func turnRetention(edits []turn.Edit) ledger.Value {
	var m mean
	for i := range edits {
		m.add(EditRetention(&edits[i]), weight(&edits[i]))
	}
	return m.value()
}

// EditRetention is what is left of one edit: the smaller of the two scores at the last horizon seen; 0 for one that
// did not reach the working tree, whoever refused it, or was never decided; null if it is not known.
func EditRetention(e *turn.Edit) ledger.Value {
	if !e.InTree() {
		return ledger.Of(0)
	}
	last := ledger.Value{}
	for _, o := range observations(e) {
		if kept := keptShare(o); kept.Known {
			last = kept
		}
	}
	return last
}

// observations are those of the edit until somebody else switched the branch: what is seen then is another file. A
// switch that the agent made itself ends nothing.
func observations(e *turn.Edit) []*event.EditObserved {
	for i, o := range e.Observed {
		if o.GetEnded() == event.ObservationEnd_BRANCH_CHANGED && !o.GetEndedByAgent() {
			return e.Observed[:i]
		}
	}
	return e.Observed
}

// observedAt is the last observation that belongs to a horizon; nil if there is none.
func observedAt(e *turn.Edit, horizon float64) *event.EditObserved {
	var found *event.EditObserved
	for _, o := range observations(e) {
		if belongs(o, horizon) && (o.FourGram != nil || o.NoRevert != nil || len(o.GetHunks()) > 0) {
			found = o
		}
	}
	return found
}

func belongs(o *event.EditObserved, horizon float64) bool {
	return math.Abs(o.GetSecondsSinceAcceptance()-horizon) <= horizon/5
}

// keptShare is the smaller of the two survival scores; with the three texts it is taken hunk by hunk, because
// each score is blind where the other sees.
func keptShare(o *event.EditObserved) ledger.Value {
	if len(o.GetHunks()) > 0 {
		share, _ := Kept(o.GetHunks(), maxEditCharacters)
		return ledger.Of(share)
	}
	fg, nr := scores(o)
	return smaller(fg, nr)
}

func scores(o *event.EditObserved) (fourGram, noRevert ledger.Value) {
	if o.FourGram != nil {
		fourGram = ledger.Of(o.GetFourGram())
	}
	if o.NoRevert != nil {
		noRevert = ledger.Of(o.GetNoRevert())
	}
	if len(o.GetHunks()) > 0 {
		if !fourGram.Known {
			fourGram = ledger.Of(FourGram(o.GetHunks()))
		}
		if !noRevert.Known {
			noRevert = ledger.Of(NoRevert(o.GetHunks()))
		}
	}
	return fourGram, noRevert
}

func smaller(a, b ledger.Value) ledger.Value {
	switch {
	case !a.Known:
		return b
	case !b.Known:
		return a
	}
	return ledger.Of(math.Min(a.Number, b.Number))
}

func weight(e *turn.Edit) float64 { return math.Max(1, math.Min(e.Characters(), maxEditCharacters)) }

// mean is a weighted mean over what was observed; null if nothing was.
type mean struct{ total, weights float64 }

func (m *mean) add(x ledger.Value, w float64) {
	if x.Known {
		m.total += w * x.Number
		m.weights += w
	}
}

func (m *mean) value() ledger.Value {
	if m.weights == 0 {
		return ledger.Value{}
	}
	return ledger.Of(m.total / m.weights)
}

package signal

import (
	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// OfAmendment are the signals that one late event carries by itself.
func OfAmendment(ev *event.SessionEvent) Vector {
	v := make(Vector, len(ledger.Signals))
	switch body := ev.GetBody().(type) {
	case *event.SessionEvent_EditObserved:
		o := body.EditObserved
		if o.GetEnded() == event.ObservationEnd_BRANCH_CHANGED && !o.GetEndedByAgent() {
			break
		}
		fg, nr := scores(o)
		v.Set("edits.retention", keptShare(o))
		for _, h := range horizons {
			if belongs(o, h.seconds) {
				v.Set(h.fourGram, fg)
				v.Set(h.noRevert, nr)
			}
		}
	case *event.SessionEvent_EditDecided:
		e := turn.Edit{Decided: body.EditDecided}
		v.Set("edits.decided", ledger.Of(1))
		v.Set("edits.accepted", flag(e.AcceptedByUser()))
		v.Set("edits.rejected", flag(e.RejectedByUser()))
		v.Set("edits.applied", flag(e.InTree()))
	case *event.SessionEvent_ChecksRan:
		if c := body.ChecksRan; c.FailuresBefore != nil && c.FailuresAfter != nil {
			v.Set("care.checks_broken", flag(c.GetFailuresAfter() > c.GetFailuresBefore()))
			v.Set("care.checks_fixed", flag(c.GetFailuresAfter() < c.GetFailuresBefore()))
			if convention(c.GetKind()) {
				v.Set("care.conventions_broken", flag(c.GetFailuresAfter() > c.GetFailuresBefore()))
				v.Set("care.conventions_fixed", flag(c.GetFailuresAfter() < c.GetFailuresBefore()))
			}
		}
	case *event.SessionEvent_FeedbackGiven:
		v.Set("explicit.thumb", ledger.Of(body.FeedbackGiven.GetRating()))
	case *event.SessionEvent_EvidenceAdded:
		if x := body.EvidenceAdded; x.Polarity != nil {
			v.Set("follow_up.polarity", ledger.Of(x.GetPolarity()))
			if x.Confidence != nil {
				v.Set("follow_up.confidence", ledger.Of(x.GetConfidence()))
			}
		}
	}
	return v
}

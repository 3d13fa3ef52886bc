package signal

import (
	"math"

	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// OfAmendment are the signals that one late event carries by itself.
func OfAmendment(ev *event.SessionEvent) Vector {
	v := make(Vector, len(ledger.Signals))
	switch body := ev.GetBody().(type) {
	case *event.SessionEvent_EditObserved:
		fg, nr := scores(body.EditObserved)
		v.Set("edits.retention", smaller(fg, nr))
		for _, h := range horizons {
			if math.Abs(body.EditObserved.GetSecondsSinceAcceptance()-h.seconds) <= h.seconds/5 {
				v.Set(h.fourGram, fg)
				v.Set(h.noRevert, nr)
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

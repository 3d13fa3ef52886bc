package signal

import (
	"millrace/distill/turn"
	"millrace/schemas/event"
)

// Shown gathers what a turn's own facts and the request after it show: what Classify reads. next is nil after which
// nothing came; answers says that it answers the turn's question.
func Shown(f *turn.Facts, next *turn.FollowUp, answers bool) FollowUp {
	s := FollowUp{
		Silence:     next == nil,
		Interrupted: f.Ended.GetReason() == event.EndReason_ABORTED_BY_USER,
		Answer:      answers,
		Delivered:   f.Delivered(),
		OfferedMore: f.Ended.GetOffersMore(),
	}
	for i := range f.Edits {
		s.RejectedWithText = s.RejectedWithText || (f.Edits[i].RejectedByUser() && f.Edits[i].Decided.GetWithText())
	}
	if next != nil {
		s.Relation, s.PastedStackTrace, s.Similarity, s.IsCommand = next.Relation, next.PastedStackTrace, next.Similarity, next.IsCommand
	}
	return s
}

// Decides says whether the verdict says something. Where the structural rules' doesn't, a judge may be asked.
func (v Verdict) Decides() bool { return v.Polarity.Known && v.Polarity.Number != 0 }

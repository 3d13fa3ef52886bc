package signal

import (
	"millrace/distill/turn"
	"millrace/schemas/event"
)

// goneBelow is the retention from which on most of a turn's edits are still there.
const goneBelow = .5

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
	if kept := turnRetention(f.Edits); kept.Known && kept.Number < goneBelow {
		s.Gone = true
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

// followUpSignals are the user's next move as it was seen, and what was made of it.
func followUpSignals(v Vector, f *turn.Facts, c Context) {
	s := c.Shown
	v.Set("follow_up.polarity", c.FollowUp.Polarity)
	v.Set("follow_up.confidence", c.FollowUp.Confidence)
	if !s.Silence {
		v.Set("follow_up.undone", flag(s.Relation == event.Relation_UNDO))
		v.Set("follow_up.restored", flag(s.Relation == event.Relation_RESTORE))
		v.Set("follow_up.retried", flag(s.Relation == event.Relation_RETRY))
		v.Set("follow_up.pasted_trace", flag(s.PastedStackTrace))
		if f.Ended != nil {
			v.Set("follow_up.interrupted", flag(s.Interrupted))
		}
	}
	v.Set("follow_up.rephrase_similarity", s.Similarity)
	for i := range f.Edits {
		if f.Edits[i].RejectedByUser() || f.Edits[i].AcceptedByUser() {
			v.Set("follow_up.refused_with_text", flag(s.RejectedWithText))
		}
	}
	if n := len(f.Feedback); n > 0 && c.FollowUp.Polarity.Known {
		if both := c.FollowUp.Polarity.Number * f.Feedback[n-1].GetRating(); both != 0 {
			v.Set("follow_up.agrees_with_thumb", flag(both > 0))
		}
	}
}

package signal

import (
	"strings"

	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// ClassifierVersion names the rules of Classify; it stands in every row that they made.
const ClassifierVersion = "structural-2"

// Classes of a follow-up.
const (
	FollowUpNone                = "none" // nothing was said of the turn
	FollowUpNewRequest          = "new_request"
	FollowUpCommit              = "commit_or_continue"
	FollowUpAnswer              = "clarification_answer"
	FollowUpDirection           = "direction_change"
	FollowUpCorrection          = "correction"
	FollowUpRestatement         = "restatement"
	FollowUpComplaint           = "complaint"
	FollowUpReversion           = "reversion"
	restatedSimilarity          = .75 // from here on, the next request restates the one before
	repeatedSimilarity          = .98 // from here on, it repeats it
	unrelatedSimilarity         = .25 // below, it is about something else
	certain                     = .95
	likely                      = .85
	plausible                   = .6
	open                        = .5
	movedOn                     = .3 // only one follow-up in thirty is praise, so moving on says little
	neutral             float64 = 0
)

// FollowUp is what is known of a turn from the user's next move. It holds no words: the rules work in every language.
type FollowUp struct {
	Relation         event.Relation
	PastedStackTrace bool
	Interrupted      bool         // the turn was aborted by the user
	RejectedWithText bool         // an edit of the turn was refused with words
	Similarity       ledger.Value // 0…1: of the next request to the turn's own; see Similarity
	Answer           bool         // the next turn answers the turn's question
	Delivered        bool         // the turn delivered an edit
	Gone             bool         // less than half of what it delivered was left when it was last seen
	OfferedMore      bool         // the turn ended by offering further work
	IsCommand        bool         // the next text is a command of the client, not a request to the agent
	Silence          bool         // nothing came
}

// Verdict is what a follow-up says of the turn before it.
type Verdict struct {
	Class      string
	Polarity   ledger.Value // −1, 0, +1; null: it says nothing
	Confidence ledger.Value // 0…1; null with Polarity
}

// Classify reads the user's next move by its structure. The first rule that holds decides: what the user did comes
// before what may be guessed. It is positive only after something was delivered and is still there, and never as the
// answer to an offer that the agent made itself; a change of direction is not negative, and silence is null.
func Classify(f FollowUp) Verdict {
	similar := func(from float64) bool { return f.Similarity.Known && f.Similarity.Number >= from }
	switch {
	case f.Relation == event.Relation_UNDO, f.Relation == event.Relation_RESTORE:
		return verdict(FollowUpReversion, -1, certain)
	case f.Relation == event.Relation_RETRY:
		return verdict(FollowUpRestatement, -1, likely)
	case f.RejectedWithText:
		return verdict(FollowUpCorrection, -1, likely)
	case f.Silence, f.IsCommand:
		return Verdict{Class: FollowUpNone}
	case f.Answer:
		return verdict(FollowUpAnswer, neutral, likely)
	case f.PastedStackTrace && f.Delivered:
		return verdict(FollowUpComplaint, -1, likely)
	case f.PastedStackTrace:
		return verdict(FollowUpComplaint, -1, plausible)
	case similar(repeatedSimilarity):
		return verdict(FollowUpRestatement, -1, likely)
	case similar(restatedSimilarity):
		return verdict(FollowUpRestatement, -1, open) // or the next of a row of like requests
	case f.Interrupted && f.Delivered:
		return verdict(FollowUpCorrection, -1, open)
	case f.Interrupted:
		return Verdict{Class: FollowUpDirection} // an interrupt before any edit has no polarity of its own
	case f.OfferedMore:
		return verdict(FollowUpCommit, neutral, open) // perhaps only a yes to the agent's own offer
	case f.Delivered && !f.Gone && f.Similarity.Known && f.Similarity.Number < unrelatedSimilarity:
		return verdict(FollowUpNewRequest, 1, movedOn)
	}
	return verdict(FollowUpNewRequest, neutral, open)
}

// Judged is the verdict of somebody who read the next request: a judge, or a backend. What may be positive is the same
// as for Classify, so that neither words without an edit nor an offer can buy a yes.
func Judged(x *event.EvidenceAdded, f FollowUp) Verdict {
	v := Verdict{Polarity: ledger.Of(x.GetPolarity()), Confidence: ledger.Of(1)}
	if x.Confidence != nil {
		v.Confidence = ledger.Of(x.GetConfidence())
	}
	if c := x.GetFollowUp(); c != event.FollowUpClass_FOLLOW_UP_CLASS_UNSPECIFIED {
		v.Class = strings.ToLower(c.String())
	}
	if !f.Delivered || f.OfferedMore {
		v.Polarity.Number = min(v.Polarity.Number, neutral)
	}
	return v
}

func verdict(class string, polarity, confidence float64) Verdict {
	return Verdict{Class: class, Polarity: ledger.Of(polarity), Confidence: ledger.Of(confidence)}
}

// Similarity of two requests, 0…1, by four-grams of UTF-16 code units; null if one of them has no text.
func Similarity(a, b string) ledger.Value {
	if a == "" || b == "" {
		return ledger.Value{}
	}
	return ledger.Of(dice(units(a), units(b)))
}

package signal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	null, minus, zero, plus := ledger.Value{}, ledger.Of(-1), ledger.Of(0), ledger.Of(1)
	for _, c := range []struct {
		name     string
		in       FollowUp
		class    string
		polarity ledger.Value
	}{
		{"silence is null", FollowUp{Silence: true, Delivered: true}, FollowUpNone, null},
		{"a command is no word to the agent", FollowUp{IsCommand: true, Delivered: true}, FollowUpNone, null},
		{"undo", FollowUp{Relation: event.Relation_UNDO, Delivered: true}, FollowUpReversion, minus},
		{"restore", FollowUp{Relation: event.Relation_RESTORE, Answer: true}, FollowUpReversion, minus},
		{"retry", FollowUp{Relation: event.Relation_RETRY}, FollowUpRestatement, minus},
		{"refused with words, then silence", FollowUp{RejectedWithText: true, Silence: true}, FollowUpCorrection, minus},
		{"answer to a question", FollowUp{Answer: true, Similarity: ledger.Of(.9)}, FollowUpAnswer, zero},
		{"pasted stack trace", FollowUp{PastedStackTrace: true, Delivered: true}, FollowUpComplaint, minus},
		{"the same again", FollowUp{Similarity: ledger.Of(1), Delivered: true}, FollowUpRestatement, minus},
		{"nearly the same", FollowUp{Similarity: ledger.Of(.8)}, FollowUpRestatement, minus},
		{"interrupted after an edit", FollowUp{Interrupted: true, Delivered: true, Similarity: ledger.Of(.1)}, FollowUpCorrection, minus},
		{"interrupted before any edit", FollowUp{Interrupted: true, Similarity: ledger.Of(.1)}, FollowUpDirection, null},
		{"perhaps a yes to the agent's offer", FollowUp{OfferedMore: true, Delivered: true, Similarity: ledger.Of(0)}, FollowUpCommit, zero},
		{"moved on after an edit", FollowUp{Delivered: true, Similarity: ledger.Of(.1)}, FollowUpNewRequest, plus},
		{"moved on after nothing", FollowUp{Similarity: ledger.Of(.1)}, FollowUpNewRequest, zero},
		{"near the same matter", FollowUp{Delivered: true, Similarity: ledger.Of(.5)}, FollowUpNewRequest, zero},
		{"text not known", FollowUp{Delivered: true}, FollowUpNewRequest, zero},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := Classify(c.in)
			require.Equal(t, c.class, v.Class)
			require.Equal(t, c.polarity, v.Polarity)
			require.Equal(t, c.polarity.Known, v.Confidence.Known)
			require.True(t, v.Confidence.Number >= 0 && v.Confidence.Number <= 1)
		})
	}
}

// Whatever else is known: nothing is praise unless something was delivered, and a yes to an own offer never is.
func TestPraiseNeedsDelivery(t *testing.T) {
	t.Parallel()
	for bits := range 1 << 8 {
		on := func(i int) bool { return bits>>i&1 == 1 }
		for _, similarity := range []ledger.Value{{}, ledger.Of(0), ledger.Of(.5), ledger.Of(.8), ledger.Of(1)} {
			f := FollowUp{
				PastedStackTrace: on(0), Interrupted: on(1), RejectedWithText: on(2), Answer: on(3),
				Delivered: on(4), OfferedMore: on(5), IsCommand: on(6), Silence: on(7), Similarity: similarity,
			}
			if v := Classify(f); v.Polarity.Number > 0 {
				require.True(t, f.Delivered && !f.OfferedMore && !f.Answer && !f.Interrupted && !f.RejectedWithText && !f.Silence, "%+v", f)
			}
		}
	}
}

func TestSimilarity(t *testing.T) {
	t.Parallel()
	require.Equal(t, ledger.Value{}, Similarity("", "x"))
	require.Equal(t, ledger.Of(1), Similarity("rename the flag", "rename the flag"))
	require.Equal(t, ledger.Of(0), Similarity("rename the flag", "ソートを直して"))
	require.Equal(t, ledger.Of(1), Similarity("да", "да"))
	require.Equal(t, ledger.Of(.5), Similarity("aitext\n", "AItext\n"))
}

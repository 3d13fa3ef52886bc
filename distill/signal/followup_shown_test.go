package signal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

func TestShown(t *testing.T) {
	t.Parallel()
	next := &turn.FollowUp{Relation: event.Relation_RETRY, PastedStackTrace: true, Similarity: ledger.Of(.4), IsCommand: true}
	refused := turn.Edit{
		EditProposed: &event.EditProposed{Shown: true},
		Decided:      &event.EditDecided{Decision: event.Decision_REJECTED, Source: event.DecisionSource_USER, WithText: true},
	}
	for name, c := range map[string]struct {
		facts   turn.Facts
		next    *turn.FollowUp
		answers bool
		want    FollowUp
	}{
		"nothing came, nothing is known": {turn.Facts{}, nil, false, FollowUp{Silence: true}},
		"what the next request shows": {turn.Facts{}, next, true, FollowUp{
			Relation: event.Relation_RETRY, PastedStackTrace: true, Similarity: ledger.Of(.4), IsCommand: true, Answer: true,
		}},
		"how it ended": {turn.Facts{Ended: &event.TurnEnded{Reason: event.EndReason_ABORTED_BY_USER, OffersMore: true}}, nil, false, FollowUp{
			Silence: true, Interrupted: true, OfferedMore: true,
		}},
		"an edit that was refused with words": {turn.Facts{Edits: []turn.Edit{refused}}, nil, false, FollowUp{
			Silence: true, Delivered: true, Gone: true, RejectedWithText: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, Shown(&c.facts, c.next, c.answers))
		})
	}
}

func TestDecides(t *testing.T) {
	t.Parallel()
	require.False(t, Verdict{}.Decides())
	require.False(t, Verdict{Polarity: ledger.Of(0)}.Decides())
	require.True(t, Verdict{Polarity: ledger.Of(-1)}.Decides())
	require.True(t, Verdict{Polarity: ledger.Of(1)}.Decides())
}

// Whatever a judge calls it: without a delivery, or after the agent's own offer, nobody's yes is a reward. A no stays a no.
func TestJudgedPraiseNeedsDelivery(t *testing.T) {
	t.Parallel()
	for class := range event.FollowUpClass_name {
		for _, f := range []FollowUp{{}, {Delivered: true}, {OfferedMore: true}, {Delivered: true, OfferedMore: true}} {
			judged := func(polarity float64) float64 {
				return Judged(&event.EvidenceAdded{FollowUp: event.FollowUpClass(class), Polarity: proto.Float64(polarity)}, f).Polarity.Number
			}
			want := 0.
			if f.Delivered && !f.OfferedMore {
				want = 1
			}
			require.Equal(t, want, judged(1), "%v %+v", event.FollowUpClass(class), f)
			require.Equal(t, -1., judged(-1), "%v %+v", event.FollowUpClass(class), f)
		}
	}
}

func TestFollowUpSignals(t *testing.T) {
	t.Parallel()
	runVectorCases(t, followUpSignalsCases())
}

func followUpSignalsCases() []vectorCase {
	next := func(f FollowUp) Context { return Context{Shown: f} }
	silence := next(FollowUp{Silence: true})
	said := func(polarity ledger.Value) Context { return Context{FollowUp: Verdict{Polarity: polarity}} }
	proposed := edit(&event.EditProposed{EditId: "e", Shown: true})
	refused := []told{start, proposed, decide("e", event.Decision_REJECTED, event.DecisionSource_USER), done}
	const undone, restored, retried, trace = "follow_up.undone", "follow_up.restored", "follow_up.retried", "follow_up.pasted_trace"
	const interrupted, withText, similarity, agrees = "follow_up.interrupted", "follow_up.refused_with_text", "follow_up.rephrase_similarity", "follow_up.agrees_with_thumb"
	return []vectorCase{
		{"undo", nil, next(FollowUp{Relation: event.Relation_UNDO}), undone, 1},
		{"restore", nil, next(FollowUp{Relation: event.Relation_RESTORE}), undone, 0},
		{"silence", nil, silence, undone, nil},
		{"restore", nil, next(FollowUp{Relation: event.Relation_RESTORE}), restored, 1},
		{"a request", nil, next(FollowUp{}), restored, 0},
		{"silence", nil, silence, restored, nil},
		{"retry", nil, next(FollowUp{Relation: event.Relation_RETRY}), retried, 1},
		{"a request", nil, next(FollowUp{}), retried, 0},
		{"silence", nil, silence, retried, nil},
		{"a trace", nil, next(FollowUp{PastedStackTrace: true}), trace, 1},
		{"none", nil, next(FollowUp{}), trace, 0},
		{"silence", nil, silence, trace, nil},
		{"broken off, then a request", []told{start, done}, next(FollowUp{Interrupted: true}), interrupted, 1},
		{"it came to its end", []told{start, done}, next(FollowUp{}), interrupted, 0},
		{"broken off, then silence", []told{start, done}, next(FollowUp{Interrupted: true, Silence: true}), interrupted, nil},
		{"it never ended", []told{start}, next(FollowUp{}), interrupted, nil},
		{"with words", refused, next(FollowUp{RejectedWithText: true}), withText, 1},
		{"without", refused, silence, withText, 0},
		{"taken", []told{start, proposed, decide("e", event.Decision_ACCEPTED, event.DecisionSource_USER)}, silence, withText, 0},
		{"no user decided", []told{start, proposed, decide("e", event.Decision_ACCEPTED, event.DecisionSource_AUTO_ACCEPT)}, silence, withText, nil},
		{"half", nil, next(FollowUp{Similarity: ledger.Of(.5)}), similarity, .5},
		{"no texts", nil, next(FollowUp{}), similarity, nil},
		{"both bad", []told{start, rated(-1)}, said(ledger.Of(-1)), agrees, 1},
		{"one bad, one good", []told{start, rated(1)}, said(ledger.Of(-1)), agrees, 0},
		{"a neutral word", []told{start, rated(1)}, said(ledger.Of(0)), agrees, nil},
		{"silence", []told{start, rated(1)}, said(ledger.Value{}), agrees, nil},
		{"no rating", []told{start}, said(ledger.Of(1)), agrees, nil},
	}
}

// What is gone again can't be what the user was content with.
func TestMovingOnIsNoPraiseForWhatIsGone(t *testing.T) {
	t.Parallel()
	next := &turn.FollowUp{Similarity: ledger.Of(.1)}
	for left, want := range map[float64]float64{1: 1, .6: 1, .4: 0, 0: 0} {
		f := facts(start, edit(&event.EditProposed{EditId: "e", Applied: true}), seen("e", 120, left, 1), done)
		require.Equal(t, ledger.Of(want), Classify(Shown(f, next, false)).Polarity, "%g left", left)
	}
}

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
			Silence: true, Delivered: true, RejectedWithText: true,
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

package signal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// An amendment carries what the late event says by itself, and nothing else.
func TestOfAmendment(t *testing.T) {
	t.Parallel()
	evidence := func(x *event.EvidenceAdded) told {
		return func(e *event.SessionEvent) { e.Body = &event.SessionEvent_EvidenceAdded{EvidenceAdded: x} }
	}
	for name, c := range map[string]struct {
		late told
		want map[string]float64
	}{
		"survival after a week":    {seen("e", 604_800, .6, .4), map[string]float64{"edits.retention": .4}},
		"survival at a horizon":    {seen("e", 600, .6, .4), map[string]float64{"edits.retention": .4, "edits.retention_four_gram_600s": .6, "edits.retention_no_revert_600s": .4}},
		"blind hunks, one by one":  {observe(&event.EditObserved{Hunks: []*event.Hunk{{Ai: "new lines"}, {Before: "old lines", Now: "old lines"}}}), map[string]float64{"edits.retention": 0}},
		"on another branch":        {observe(&event.EditObserved{FourGram: proto.Float64(0), Ended: event.ObservationEnd_BRANCH_CHANGED}), nil},
		"the agent's own branch":   {observe(&event.EditObserved{FourGram: proto.Float64(.5), Ended: event.ObservationEnd_BRANCH_CHANGED, EndedByAgent: true}), map[string]float64{"edits.retention": .5}},
		"an end without a score":   {observe(&event.EditObserved{Ended: event.ObservationEnd_COMMITTED}), nil},
		"a rejection":              {decide("e", event.Decision_REJECTED, event.DecisionSource_USER), map[string]float64{"edits.decided": 1, "edits.accepted": 0, "edits.rejected": 1, "edits.applied": 0}},
		"an auto-accept":           {decide("e", event.Decision_ACCEPTED, event.DecisionSource_AUTO_ACCEPT), map[string]float64{"edits.decided": 1, "edits.accepted": 0, "edits.rejected": 0, "edits.applied": 1}},
		"a check":                  {ran(0, 2), map[string]float64{"care.checks_broken": 1, "care.checks_fixed": 0}},
		"a check without before":   {ran(-1, 2), nil},
		"a thumb":                  {rated(-1), map[string]float64{"explicit.thumb": -1}},
		"a judge":                  {evidence(&event.EvidenceAdded{Polarity: proto.Float64(-1), Confidence: proto.Float64(.8)}), map[string]float64{"follow_up.polarity": -1, "follow_up.confidence": .8}},
		"a judge without sureness": {evidence(&event.EvidenceAdded{Polarity: proto.Float64(1)}), map[string]float64{"follow_up.polarity": 1}},
		"a class alone":            {evidence(&event.EvidenceAdded{FollowUp: event.FollowUpClass_COMPLAINT}), nil},
		"a late start":             {start, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &event.SessionEvent{}
			c.late(e)
			got := map[string]float64{}
			for i, v := range OfAmendment(e) {
				if v.Known {
					got[ledger.Signals[i].Name] = v.Number
				}
			}
			if c.want == nil {
				c.want = map[string]float64{}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Words without an edit, or an offer, buy no yes from a judge.
func TestJudged(t *testing.T) {
	t.Parallel()
	polarity := func(class event.FollowUpClass, p float64, f FollowUp) float64 {
		return Judged(&event.EvidenceAdded{FollowUp: class, Polarity: &p}, f).Polarity.Number
	}
	delivered, offered := FollowUp{Delivered: true}, FollowUp{Delivered: true, OfferedMore: true}
	for _, class := range []event.FollowUpClass{event.FollowUpClass_NEW_REQUEST, event.FollowUpClass_COMMIT_OR_CONTINUE} {
		require.EqualValues(t, 1, polarity(class, 1, delivered))
		require.EqualValues(t, 0, polarity(class, 1, offered))
		require.EqualValues(t, 0, polarity(class, 1, FollowUp{}))
		require.EqualValues(t, -1, polarity(class, -1, FollowUp{}))
	}
	require.EqualValues(t, -1, polarity(event.FollowUpClass_COMPLAINT, -1, offered))
	v := Judged(&event.EvidenceAdded{FollowUp: event.FollowUpClass_COMPLAINT, Polarity: proto.Float64(-1), Confidence: proto.Float64(.7)}, delivered)
	require.Equal(t, Verdict{FollowUpComplaint, ledger.Of(-1), ledger.Of(.7)}, v)
	v = Judged(&event.EvidenceAdded{Polarity: proto.Float64(1)}, delivered)
	require.Equal(t, Verdict{"", ledger.Of(1), ledger.Of(1)}, v, "no class, sure as told")
}

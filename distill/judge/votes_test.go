package judge

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	by := func(c event.FollowUpClass, polarity int, confidence float64) vote {
		return vote{outcome: cast, ballot: ballot{c, polarity, confidence}}
	}
	no := by(event.FollowUpClass_CORRECTION, -1, .9)
	complaint := by(event.FollowUpClass_COMPLAINT, -1, .6)
	neutral := by(event.FollowUpClass_NEW_REQUEST, 0, .6)
	yes := by(event.FollowUpClass_COMMIT_OR_CONTINUE, 1, .9)
	late, garbage, shy, barred := vote{outcome: timeout}, vote{outcome: unreadable}, vote{outcome: unsure}, vote{outcome: refused}
	gone := vote{err: ErrAway}
	for name, c := range map[string]struct {
		votes      []vote
		class      event.FollowUpClass
		polarity   float64
		confidence float64
		abstained  string
	}{
		"all agree":                         {[]vote{no, no, no}, event.FollowUpClass_CORRECTION, -1, .9, ""},
		"two of three":                      {[]vote{no, neutral, no}, event.FollowUpClass_CORRECTION, -1, .6, ""},
		"the class that most named":         {[]vote{complaint, no, complaint}, event.FollowUpClass_COMPLAINT, -1, .7, ""},
		"a tie of classes: the first":       {[]vote{complaint, no}, event.FollowUpClass_CORRECTION, -1, .75, ""},
		"a single vote":                     {[]vote{yes}, event.FollowUpClass_COMMIT_OR_CONTINUE, 1, .9, ""},
		"a tie":                             {[]vote{no, neutral}, 0, 0, 0, AbstainedNoMajority},
		"three ways":                        {[]vote{no, neutral, yes}, 0, 0, 0, AbstainedNoMajority},
		"half is no majority":               {[]vote{no, no, neutral, yes}, 0, 0, 0, AbstainedNoMajority},
		"one too late, two agree":           {[]vote{no, late, no}, event.FollowUpClass_CORRECTION, -1, .6, ""},
		"too many too late":                 {[]vote{no, late, late}, 0, 0, 0, AbstainedTimeout},
		"too much garbage":                  {[]vote{garbage, garbage, no}, 0, 0, 0, AbstainedUnreadable},
		"the model can't tell":              {[]vote{shy, shy, yes}, 0, 0, 0, AbstainedUnclear},
		"not taken":                         {[]vote{barred, barred, barred}, 0, 0, 0, AbstainedRefused},
		"one answer, the others got none":   {[]vote{gone, no, gone}, 0, 0, 0, AbstainedTimeout},
		"one unreachable, the rest agree":   {[]vote{gone, no, no}, event.FollowUpClass_CORRECTION, -1, .6, ""},
		"all too late: an answer of a kind": {[]vote{late, late, late}, 0, 0, 0, AbstainedTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := decide(c.votes)
			require.NoError(t, err)
			require.Equal(t, c.class, v.Class)
			require.InDelta(t, c.polarity, v.Polarity, 0)
			require.InDelta(t, c.confidence, v.Confidence, 1e-12)
			require.Equal(t, c.abstained, v.Abstained)
			sum := v.Votes.Cast + v.Votes.Unclear + v.Votes.Unreadable + v.Votes.Refused + v.Votes.Timeout + v.Votes.Failed
			require.Equal(t, len(c.votes), sum)
		})
	}
	_, err := decide([]vote{gone, late, gone})
	require.ErrorIs(t, err, ErrAway, "nobody answered, and not for being slow alone")
	other := errors.New("x")
	_, err = decide([]vote{{err: other}})
	require.ErrorIs(t, err, other)
}

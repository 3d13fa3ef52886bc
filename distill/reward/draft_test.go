package reward

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/rewardspec"
)

// draft is the shipped spec without one of its fixed blocks, or with something replaced.
func draft(t *testing.T, block string, replace ...string) *Reward {
	t.Helper()
	_, doc := rewardspec.Default()
	var kept []string
	for l := range strings.Lines(strings.NewReplacer(replace...).Replace(string(doc))) {
		if block == "" || !strings.HasPrefix(l, block) {
			kept = append(kept, l)
		}
	}
	spec, problems := rewardspec.ParseDraft([]byte(strings.Join(kept, "")))
	require.NotEmpty(t, problems)
	r, err := Compile(spec, "draft", nil)
	require.NoError(t, err)
	return r
}

// A fixed block that a draft leaves out does nothing and is no evidence; all else is as ever.
func TestAMissingBlockDoesNothing(t *testing.T) {
	t.Parallel()
	nothing := Facts{"intent.p_edit": 1, "outcome.delivered": 0, "effort.steps": 1}
	thanked := nothing.with(Facts{"follow_up.polarity": 1, "follow_up.confidence": 1})
	unasked := Facts{"intent.p_edit": 0, "outcome.delivered": 1, "edits.retention": 1, "edits.characters": 400}
	for _, c := range []struct {
		block string
		facts Facts
		in    Input
		want  map[string]float64 // nil: no evidence
	}{
		{rewardspec.UndeliveredBlock, nothing, Input{}, nil},
		{rewardspec.UndeliveredBlock, thanked, Input{}, map[string]float64{"follow_up": .3}},
		{rewardspec.UndeliveredBlock, nothing, Input{Chain: &Chain{}}, map[string]float64{"deferral": -.8}},
		{rewardspec.DeferralBlock, nothing, Input{Chain: &Chain{}}, nil},
		{rewardspec.DeferralBlock, nothing, Input{Chain: &Chain{Answered: true, Final: 1, FinalKnown: true}}, nil},
		{rewardspec.DeferralBlock, unasked.with(Facts{"intent.p_edit": 1}), Input{QuestionCalls: 3}, map[string]float64{"retention": .7}},
		{rewardspec.UnaskedEditBlock, unasked, Input{}, map[string]float64{"retention": .7}},
		{rewardspec.InvalidToolCallBlock, Facts{"tools.invalid": 2}, Input{}, nil},
		{rewardspec.EffortBlock, nothing, Input{}, map[string]float64{"undelivered": -.8}},
	} {
		r := draft(t, c.block)
		c.in.Signals = c.facts.Signals()
		got := r.Score(c.in)
		require.Equal(t, c.want != nil, got.Evidence, c.block)
		p := parts(got)
		delete(p, "effort")
		if c.want != nil {
			require.InDeltaMapValues(t, c.want, p, 1e-9, c.block)
		}
	}
	require.InDelta(t, .4, draft(t, rewardspec.InvalidToolCallBlock).SpanAdvantage(.4), 0)
	_, known := parts(draft(t, rewardspec.EffortBlock).Score(Input{Signals: nothing.Signals()}))["effort"]
	require.False(t, known)
}

func TestADraftOutOfRangeStaysFinite(t *testing.T) {
	t.Parallel()
	in := Input{Signals: Facts{"tools.invalid": 2000, "outcome.delivered": 0, "effort.final_tokens": 5000}.Signals()}
	for _, r := range []*Reward{
		draft(t, "", "k: 0.002", "k: -1"),
		draft(t, "", "decay: 0.7", "decay: 9"),
	} {
		got := r.Score(in)
		require.True(t, got.Reward.Known)
		require.GreaterOrEqual(t, got.Reward.Number, -4.)
	}
	require.InDelta(t, .4, parts(draft(t, "", "{value: -0.8}", "{value: 0.8}").Score(in))["undelivered"], 1e-9)
}

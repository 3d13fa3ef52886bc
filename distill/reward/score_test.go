package reward

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// parts are a result's components by name, without the nulls.
func parts(r Result) map[string]float64 {
	m := map[string]float64{}
	for _, c := range r.Components {
		if c.Value.Known {
			m[c.Name] = c.Value.Number
		}
	}
	return m
}

func TestScore(t *testing.T) {
	t.Parallel()
	r := shipped(t)
	type m = map[string]float64
	edit := Facts{"intent.p_edit": 1, "outcome.delivered": 1, "edits.characters": 400, "edits.retention": 1}
	nothing := Facts{"intent.p_edit": 1, "outcome.delivered": 0}
	bad := Facts{"follow_up.polarity": -1, "follow_up.confidence": 1}
	fine := Facts{"follow_up.polarity": 1, "follow_up.confidence": 1}
	p := func(v float64) Facts { return Facts{"intent.p_edit": v} }
	for _, c := range []struct {
		name  string
		facts Facts
		in    Input
		want  m // nil: no evidence
	}{
		{"nothing observed", Facts{}, Input{}, nil},
		{"effort and latency are no evidence", Facts{"effort.steps": 5, "effort.wall_s": 10}, Input{}, nil},
		{"an ask answered by text, then silence", nothing.with(p(0)), Input{FollowUpClass: "none"}, nil},
		{"silence is null, whatever stands beside it", nothing.with(p(0)).with(fine), Input{FollowUpClass: "none"}, nil},
		{"an applied edit never observed", Facts{"intent.p_edit": 1, "outcome.delivered": 1, "edits.characters": 400}, Input{}, nil},
		{"that no tests were weakened is no evidence", Facts{"outcome.delivered": 1, "care.tests_weakened": 0}, Input{}, nil},
		{"tests weakened", Facts{"outcome.delivered": 1, "care.tests_weakened": 1}, Input{}, m{"tests": -.8}},
		{"checks that still pass are evidence", Facts{"outcome.delivered": 1, "care.checks_broken": 0}, Input{}, m{"checks": 0}},
		{"thumb", Facts{"explicit.thumb": -1}, Input{}, m{"thumb": -.5}},
		{"polarity without confidence is null", Facts{"follow_up.polarity": -1}, Input{}, nil},
		{"serial reads, capped", edit.with(Facts{"tools.serial_could_be_parallel": 9}), Input{}, m{"retention": .7, "serial": -.1}},

		{"undelivered", nothing, Input{}, m{"undelivered": -.8}},
		{"undelivered, a negative follow-up adds", nothing.with(bad), Input{}, m{"undelivered": -.8, "follow_up": -.3}},
		{"undelivered, thanks for words don't", nothing.with(fine), Input{}, m{"undelivered": -.8, "follow_up": 0}},
		{"undelivered, perhaps asked for", nothing.with(p(.5)).with(fine), Input{}, m{"undelivered": -.4, "follow_up": .15}},
		{"an ask answered, thanked", nothing.with(p(0)).with(fine), Input{}, m{"follow_up": .3}},
		{"undelivered replaces retention", nothing.with(Facts{"edits.retention": 0}), Input{}, m{"undelivered": -.8}},
		{"intent not stamped: the baseline's share", Facts{"outcome.delivered": 0}, Input{}, m{"undelivered": -.4}},
		{"delivery not known: no block", Facts{"edits.retention": 1, "intent.p_edit": 1}, Input{}, m{"retention": .7}},

		{"asked for: kept whole", edit, Input{}, m{"retention": .7}},
		{"unasked: gain × p_edit", edit.with(p(.5)), Input{}, m{"retention": .7, "unasked_edit": -.35}},
		{"never asked for", edit.with(p(0)), Input{}, m{"retention": .7, "unasked_edit": -.7}},
		{"unasked, but welcome", edit.with(p(0)).with(fine), Input{}, m{"retention": .7, "follow_up": .3}},
		{"unasked and rejected: the loss is whole", edit.with(p(0)).with(Facts{"edits.retention": 0}), Input{}, m{"retention": -.35}},
		{"tiny: no gain", edit.with(Facts{"edits.characters": 19}), Input{}, m{"retention": .7, "unasked_edit": -.7}},
		{"not tiny at the stratum's p10", edit.with(Facts{"edits.characters": 20}), Input{}, m{"retention": .7}},
		{"tiny, not even if welcome", edit.with(Facts{"edits.characters": 19}).with(fine), Input{}, m{"retention": .7, "unasked_edit": -.7, "follow_up": .3}},
		{"tiny and rejected", edit.with(Facts{"edits.characters": 19, "edits.retention": 0}), Input{}, m{"retention": -.35}},
		{"tiny and disliked", edit.with(Facts{"edits.characters": 19}).with(bad), Input{}, m{"unasked_edit": -.65, "follow_up": -.3}},
		{"tiny and disliked, never observed", Facts{"intent.p_edit": 1, "outcome.delivered": 1, "edits.characters": 3}.with(bad), Input{}, m{"unasked_edit": -.65, "follow_up": -.3}},
		{
			"tiny, disliked, rejected and unasked: not cheaper than the loss itself",
			edit.with(Facts{"edits.characters": 3, "edits.retention": 0}).with(bad).with(p(.1)),
			Input{},
			m{"retention": -.35, "follow_up": -.3},
		},

		{
			"answered: what came of it, less its price, and its own costs",
			nothing.with(bad).with(Facts{"tools.invalid": 1, "explicit.thumb": 1, "effort.wall_s": 300}),
			Input{Chain: &Chain{Answered: true, QuestionsToAnswer: 3, Final: .5, FinalKnown: true}},
			m{"latency": -.05, "deferral": -.1, "invalid_tool_call": -.3},
		},
		{"answered: at least one question", nothing, Input{Chain: &Chain{Answered: true, Final: .5, FinalKnown: true}}, m{"deferral": .3}},
		{"answered, but nobody knows what came of it", nothing.with(bad), Input{Chain: &Chain{Answered: true}}, nil},
		{"answered by an unknown, with a broken call", nothing.with(Facts{"tools.invalid": 1}), Input{Chain: &Chain{Answered: true}}, m{"invalid_tool_call": -.3}},
		{"unanswered replaces undelivered and per question", nothing, Input{Chain: &Chain{QuestionsToAnswer: 3}}, m{"deferral": -.8}},
		{"unanswered × p_edit", nothing.with(p(.25)), Input{Chain: &Chain{}}, m{"deferral": -.2}},
		{"unanswered and undone", nothing.with(bad), Input{Chain: &Chain{}}, m{"deferral": -.8, "follow_up": -.3}},
		{"question tool in a turn that went on", edit, Input{QuestionCalls: 2}, m{"retention": .7, "deferral": -.4}},
		{"question tool, × p_edit", edit.with(p(.5)), Input{QuestionCalls: 1}, m{"retention": .7, "unasked_edit": -.35, "deferral": -.1}},

		{"one broken call", edit.with(Facts{"tools.invalid": 1}), Input{}, m{"retention": .7, "invalid_tool_call": -.3}},
		{"three", edit.with(Facts{"tools.invalid": 3}), Input{}, m{"retention": .7, "invalid_tool_call": -.657}},
		{"a broken call is evidence by itself", Facts{"tools.invalid": 1}, Input{}, m{"invalid_tool_call": -.3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.in.Signals = c.facts.Signals()
			got := r.Score(c.in)
			if c.want == nil {
				require.False(t, got.Evidence)
				require.Equal(t, ledger.Value{}, got.Reward)
				require.Equal(t, ledger.Value{}, got.Advantage)
				return
			}
			require.True(t, got.Evidence)
			require.InDeltaMapValues(t, c.want, parts(got), 1e-9)
			sum := 0.
			for _, v := range c.want {
				sum += v
			}
			require.InDelta(t, sum, got.Reward.Number, 1e-9)
		})
	}
}

func TestComponentsKeepNulls(t *testing.T) {
	t.Parallel()
	got := shipped(t).Score(Input{Signals: Facts{"explicit.thumb": 1}.Signals()})
	var names []string
	for _, c := range got.Components {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"retention", "follow_up", "thumb", "checks", "tests", "serial", "latency", "effort"}, names)
	require.Len(t, parts(got), 1)
}

// Rows of an older registry have fewer signals: the rest is null (p_edit too: the baseline's half).
func TestShortSignals(t *testing.T) {
	t.Parallel()
	got := shipped(t).Score(Input{Signals: Facts{"edits.retention": 1}.Signals()[:10]})
	require.InDelta(t, .35, got.Reward.Number, 1e-9)
}

func TestClipAndBaseline(t *testing.T) {
	t.Parallel()
	spec, _ := rewardspec.Default()
	spec.Clip = rewardspec.Clip{Low: -1, High: .5}
	b := rewardspec.BaselineV0()
	b.Strata = map[string]rewardspec.Stratum{"s": {WallSP95: 100, XRef: 100, CharsP10: 0, Value: .2}}
	r, err := Compile(spec, "d", b)
	require.NoError(t, err)
	good := Input{Stratum: "s", Signals: Facts{"edits.retention": 1, "intent.p_edit": 1, "edits.characters": 5}.Signals()}
	require.InDelta(t, .5, r.Score(good).Reward.Number, 1e-9)
	require.InDelta(t, .3, r.Score(good).Advantage.Number, 1e-9)
	worst := Input{Signals: Facts{"outcome.delivered": 0, "intent.p_edit": 1, "tools.invalid": 5}.Signals()}
	got := r.Score(worst)
	require.InDelta(t, -1, got.Advantage.Number, 1e-9)
	require.InDelta(t, -.8, r.Total(got.Components, rewardspec.InvalidToolCallBlock), 1e-9)
}

// A block takes hold of what reads the signal, whatever it is called.
func TestBlocksFollowSignalsNotNames(t *testing.T) {
	t.Parallel()
	spec, _ := rewardspec.Default()
	var err error
	spec.Components[0].Name = "loyalty"
	spec.Components[0].Value, err = rewardspec.ParseExpression("0.7 * edits.retention_four_gram_600s")
	require.NoError(t, err)
	r, err := Compile(spec, "d", nil)
	require.NoError(t, err)
	facts := Facts{"edits.retention_four_gram_600s": 1, "outcome.delivered": 0, "intent.p_edit": 1}
	require.InDeltaMapValues(t, map[string]float64{"undelivered": -.8}, parts(r.Score(Input{Signals: facts.Signals()})), 1e-9)
}

func TestStratumAndPEdit(t *testing.T) {
	t.Parallel()
	r := shipped(t)
	require.Equal(t, "edit/go/small/live", r.Stratum(event.Intent_EDIT, " Go", "small", event.Origin_ORIGIN_UNSPECIFIED))
	require.Equal(t, "unknown/pl-sql/unknown/simulated", r.Stratum(event.Intent_INTENT_UNSPECIFIED, "PL/SQL", "", event.Origin_SIMULATED))
	for intent, want := range map[event.Intent]float64{
		event.Intent_EDIT: 1, event.Intent_ASK: 0, event.Intent_REVIEW: 0, event.Intent_DEBUG: .5, event.Intent_INTENT_UNSPECIFIED: .5,
	} {
		require.InDelta(t, want, r.PEdit(intent, "x"), 0, intent)
	}
}

func TestSpanAdvantage(t *testing.T) {
	t.Parallel()
	r := shipped(t)
	require.InDelta(t, -.3, r.SpanAdvantage(.9), 1e-12)
	require.InDelta(t, -.8, r.SpanAdvantage(-.5), 1e-12)
	require.InDelta(t, -.3, r.Score(Input{}).InvalidSpan, 0)
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	_, err := Compile(nil, "abc", nil)
	require.ErrorContains(t, err, "abc")
	_, err = Compile(&rewardspec.Spec{Components: []rewardspec.Component{{Name: "a", Line: 7}}}, "", nil)
	require.ErrorContains(t, err, `line 7: component "a" has no expression`)
}

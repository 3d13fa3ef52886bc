package reward

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// anyTurn draws a turn: every signal null, at a border or between, and every way in which it may end.
func anyTurn(t *rapid.T, stratum string) Input {
	in := Input{Signals: make([]ledger.Value, len(ledger.Signals)), Stratum: stratum}
	for i, d := range ledger.Signals {
		values := rapid.OneOf(rapid.SampledFrom([]float64{0, 1}), rapid.Float64Range(0, 1))
		switch {
		case d.Name == "follow_up.polarity" || d.Name == "explicit.thumb":
			values = rapid.SampledFrom([]float64{-1, 0, 1})
		case d.Name == "outcome.delivered":
			values = rapid.SampledFrom([]float64{0, 1})
		case rapid.Bool().Draw(t, "large"):
			values = rapid.Float64Range(0, 50_000)
		}
		if rapid.IntRange(0, 2).Draw(t, "known") > 0 {
			in.Signals[i] = ledger.Of(values.Draw(t, d.Name))
		}
	}
	for _, bounded := range []string{"intent.p_edit", "follow_up.confidence", "edits.retention"} {
		if v := &in.Signals[ledger.SignalIndex[bounded]]; v.Known {
			v.Number = math.Min(v.Number, 1)
		}
	}
	in.Signals[ledger.SignalIndex["tools.invalid"]] = ledger.Value{}
	if n := rapid.IntRange(-1, 20).Draw(t, "invalid"); n >= 0 {
		in.Signals[ledger.SignalIndex["tools.invalid"]] = ledger.Of(float64(n))
	}
	in.FollowUpClass = rapid.SampledFrom([]string{"none", "complaint", ""}).Draw(t, "class")
	if rapid.Bool().Draw(t, "question") {
		in.Chain = &Chain{
			Answered: rapid.Bool().Draw(t, "answered"), QuestionsToAnswer: rapid.IntRange(0, 3).Draw(t, "questions"),
			Final: rapid.Float64Range(-8, 1.5).Draw(t, "final"), FinalKnown: rapid.Bool().Draw(t, "final known"),
		}
	}
	in.QuestionCalls = rapid.IntRange(0, 3).Draw(t, "question calls")
	return in
}

// The law of malformed calls, on the advantage: one more strictly lowers what its span learns from, and never raises
// what the turn learns from. So breaking a call is never a way out of anything.
func TestAnotherInvalidCallNeverPays(t *testing.T) {
	t.Parallel()
	b := rewardspec.BaselineV0()
	b.Strata = map[string]rewardspec.Stratum{
		"low":  {WallSP95: 10, XRef: 100, CharsP10: 50, Value: -2},
		"high": {WallSP95: 900, XRef: 1e6, Value: 1},
	}
	spec, _ := rewardspec.Default()
	r, err := Compile(spec, "d", b)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		in := anyTurn(t, rapid.SampledFrom([]string{"", "low", "high"}).Draw(t, "stratum"))
		before := r.Score(in)
		i := ledger.SignalIndex["tools.invalid"]
		in.Signals = append([]ledger.Value(nil), in.Signals...)
		in.Signals[i] = ledger.Of(in.Signals[i].Number + 1)
		after := r.Score(in)
		require.True(t, after.Evidence, "a broken call is evidence")
		if !before.Evidence {
			return
		}
		require.LessOrEqual(t, after.Advantage.Number, before.Advantage.Number)
		require.Less(t, r.SpanAdvantage(after.Advantage.Number), before.Advantage.Number)
	})
}

func TestResultsAreSound(t *testing.T) {
	t.Parallel()
	r := shipped(t)
	rapid.Check(t, func(t *rapid.T) {
		in := anyTurn(t, "")
		got := r.Score(in)
		require.Equal(t, got, r.Score(in), "the same input gives the same result")
		require.Equal(t, got.Evidence, got.Reward.Known)
		require.Equal(t, got.Evidence, got.Advantage.Known)
		if got.Evidence {
			require.False(t, math.IsNaN(got.Reward.Number))
			require.GreaterOrEqual(t, got.Reward.Number, -8.)
			require.LessOrEqual(t, got.Reward.Number, 1.5)
			require.InDelta(t, got.Reward.Number, r.Total(got.Components), 0)
		}
		// Missing is never 0: a component is null if one of its signals is.
		for n, c := range r.spec.Components {
			for _, name := range c.Value.Signals {
				if !in.Signals[ledger.SignalIndex[name]].Known {
					require.False(t, got.Components[n].Value.Known, c.Name)
				}
			}
		}
	})
}

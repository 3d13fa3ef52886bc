package rewardspec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

func TestShippedScenariosAreRead(t *testing.T) {
	t.Parallel()
	s, _ := DefaultScenarios()
	require.Greater(t, len(s.Scenarios), 30)
	var kept *Behaviour
	for i := range s.Behaviours {
		if s.Behaviours[i].Name == "good_edit_kept" {
			kept = &s.Behaviours[i]
		}
	}
	require.NotNil(t, kept)
	require.Len(t, kept.Acts, 6, "what it uses, in one list")
	require.Equal(t, event.Intent_EDIT, kept.Acts[0].Start.Intent)
	require.True(t, kept.Acts[2].Edit.Shown)
	require.Equal(t, AllEdits, kept.Acts[4].Decide.Edit)
}

func TestOwnScenariosUseTheShippedBehaviours(t *testing.T) {
	t.Parallel()
	shipped, _ := DefaultScenarios()
	own, err := ParseScenarios([]byte(`
apiVersion: millrace/v1
kind: RewardScenarios
behaviours:
  late: {title: a late edit, acts: [use: good_edit_kept, wait: 90s, thumb: -1]}
scenarios:
  - {name: mine, why: because, better: good_edit_kept, worse: late, by: 0.2, on: advantage}
  - {name: hidden, why: because, turn: [start: {}, call: {tool: run, arguments: x, outcome: never}], trained: true}
`), shipped)
	require.NoError(t, err)
	require.Equal(t, OnAdvantage, own.Scenarios[0].On)
	require.InDelta(t, .2, *own.Scenarios[0].By, 0)
	require.Equal(t, 90*time.Second, own.Scenarios[0].Worse[6].Wait)
	require.Equal(t, event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED, own.Scenarios[1].Turn[1].Call.Outcome)
}

func TestScenariosAreReadStrictly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"an unknown act":          {"scenarios:\n  - {name: a, why: b, turn: [start: {}, jump: {}], trained: true}", `line 4: unknown act "jump"`},
		"an unknown behaviour":    {"scenarios:\n  - {name: a, why: b, turn: nobody, trained: true}", `there is no behaviour "nobody"`},
		"an unknown word":         {"scenarios:\n  - {name: a, why: b, turn: [start: {intent: edti}], trained: true}", `"edti" is not known; there are edit, ask`},
		"no start":                {"scenarios:\n  - {name: a, why: b, turn: [end: {}], trained: true}", "a side begins with a start"},
		"half a pair":             {"scenarios:\n  - {name: a, why: b, better: [start: {}]}", "expected either better and worse"},
		"a pair and a turn":       {"scenarios:\n  - {name: a, why: b, better: [start: {}], worse: [start: {}], trained: true}", "expected either better and worse"},
		"no reason":               {"scenarios:\n  - {name: a, turn: [start: {}], trained: true}", `"why" is missing`},
		"a name twice":            {"scenarios:\n  - {name: a, why: b, turn: [start: {}], trained: true}\n  - {name: a, why: b, turn: [start: {}], trained: true}", "stands there twice"},
		"a negative margin":       {"scenarios:\n  - {name: a, why: b, better: [start: {}], worse: [start: {}], by: -1}", "out of range"},
		"more than can be meant":  {"scenarios:\n  - {name: a, why: b, turn: [start: {}, repeat: {times: 1000, acts: [repeat: {times: 1000, acts: [wait: 1s]}]}], trained: true}", "at most 10000"},
		"a behaviour used before": {"behaviours:\n  a: {title: x, acts: [use: b]}\n  b: {title: x, acts: [start: {}]}", `there is no behaviour "b"`},
		"two acts in one":         {"scenarios:\n  - {name: a, why: b, turn: [start: {}, {wait: 1s, thumb: 1}], trained: true}", "expected one act"},
	} {
		_, err := ParseScenarios([]byte("apiVersion: millrace/v1\nkind: RewardScenarios\n" + c.text))
		require.ErrorContains(t, err, c.want, name)
	}
}

package rehearsal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/rewardspec"
)

// under tests a document, which may be a draft, with the shipped scenarios, and gives the names of those that fail.
func under(t *testing.T, document string, variations int) []string {
	t.Helper()
	spec, _ := rewardspec.ParseDraft([]byte(document))
	require.NotNil(t, spec)
	shipped, _ := rewardspec.DefaultScenarios()
	report, err := Test(spec, []byte(document), append(OrderOf(shipped.Order, shipped.Behaviours), shipped.Scenarios...), Options{Variations: variations, Seed: 7})
	require.NoError(t, err)
	var failed []string
	for _, r := range report.Results {
		if !r.OK {
			failed = append(failed, r.Name)
			require.NotEmpty(t, r.Problem)
		}
	}
	require.Equal(t, len(failed), report.Failed)
	return failed
}

func edited(t *testing.T, oldnew ...string) string {
	t.Helper()
	_, document := rewardspec.Default()
	for i := 0; i < len(oldnew); i += 2 {
		require.Contains(t, string(document), oldnew[i])
	}
	return strings.NewReplacer(oldnew...).Replace(string(document))
}

// The shipped spec holds all scenarios, as they are written and in each of their variations.
func TestTheShippedSpecHoldsAllScenarios(t *testing.T) {
	t.Parallel()
	require.Empty(t, under(t, edited(t), 20))
}

// A spec with a seam fails the scenario that the seam is about.
func TestEachSeamFailsItsScenario(t *testing.T) {
	t.Parallel()
	const retention, followUp = `"0.7 * (1.5 * edits.retention - 0.5)"`, `  - {name: follow_up, value: "0.3 * follow_up.polarity * follow_up.confidence"}`
	for name, c := range map[string]struct {
		document string
		fails    []string
		holds    []string
	}{
		"undelivered removed": {
			edited(t, "undelivered: {value: -0.8}", "#"),
			[]string{"silence_after_giving_up", "make_the_user_abort", "loop_until_the_limit", "hang_a_command"},
			[]string{"silence_after_a_kept_edit", "break_another_call", "tiny_edit_for_the_retention"},
		},
		"invalid calls are left out": {
			edited(t, "invalid_tool_call: {decay: 0.7, span: -0.3}", "#"),
			[]string{"break_the_call_on_a_hard_task", "break_another_call", "hide_a_broken_call_in_a_success", "a_further_fault_always_costs"},
			[]string{"ask_instead_of_editing", "silence_after_a_kept_edit", "split_one_edit_in_many"},
		},
		"invalid calls make the outcome unknown": {
			edited(t, retention, `"0.7 * (1.5 * edits.retention - 0.5) / (tools.invalid > 0 ? 0 : 1)"`),
			[]string{"broken_call_recovered > text_answer", "break_a_call_to_hide_a_bad_outcome"},
			nil,
		},
		"deferral removed": {
			edited(t, "deferral: {per_question: -0.2, unanswered: -0.8}", "#"),
			[]string{"ask_instead_of_editing", "ask_to_give_up", "ask_then_fail"},
			[]string{"break_the_call_on_a_hard_task", "silence_after_a_kept_edit", "hang_a_command"},
		},
		"paid for each edit": {
			edited(t, "components: ", "components:\n  - {name: busy, value: \"0.2 * edits.proposed\"}\n#"),
			[]string{"split_one_edit_in_many"},
			[]string{"break_the_call_on_a_hard_task", "ask_instead_of_editing", "silence_after_a_kept_edit"},
		},
		"a narrow clip": {
			edited(t, "clip: [-8.0, 1.5]", "clip: [-0.8, 0.6]"),
			[]string{"a_further_fault_always_costs", "break_the_call_on_a_hard_task", "praise_still_counts_after_success"},
			[]string{"silence_after_a_kept_edit", "edit_unasked", "delete_the_failing_test"},
		},
		"silence is censored": {
			edited(t, retention, `"0.7 * (1.5 * edits.retention - 0.5) + 0.3 * follow_up.polarity * follow_up.confidence"`, followUp, "#"),
			[]string{"silence_after_a_kept_edit", "silence_after_a_reverted_edit"},
			[]string{"silence_after_giving_up", "break_the_call_on_a_hard_task"},
		},
	} {
		failed := under(t, c.document, 0)
		t.Log(name, failed)
		require.Subset(t, failed, c.fails, name)
		for _, h := range c.holds {
			require.NotContains(t, failed, h, name)
		}
	}
}

// The table of the documents is that of whole event streams through the engine, in the contract's order.
func TestBehaviourTable(t *testing.T) {
	t.Parallel()
	spec, document := rewardspec.Default()
	shipped, _ := rewardspec.DefaultScenarios()
	all, err := Earnings(spec, document, shipped)
	require.NoError(t, err)
	// The design's values, to its own rounding.
	want := []float64{.90, .80, .63, .40, .33, -.03, -.42, -.42, -.65, -.69, -.83, -.83, -.83, -.99, -1.13, -1.19}
	require.Len(t, all, len(want))
	for i, e := range all {
		require.Equal(t, "rewarded", string(e.Disposition), "%s: %s", e.Name, e.Reason)
		require.InDelta(t, want[i], *e.Reward, .01, e.Name)
		if i > 0 && want[i] == want[i-1] {
			require.InDelta(t, *all[i-1].Reward, *e.Reward, 1e-9, e.Name)
		} else if i > 0 {
			require.Less(t, *e.Reward, *all[i-1].Reward, e.Name)
		}
	}
}

func TestVariationsAreTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	a, b := Variations(3, 20)
	c, d := Variations(3, 20)
	require.Equal(t, a, c)
	require.Equal(t, b, d)
	other, _ := Variations(4, 20)
	require.NotEqual(t, a, other)
	_, err := b.Encode()
	require.NoError(t, err)
}

// A scenario that holds as it is written, and fails when it is varied, says in which variation.
func TestAFailureNamesItsVariation(t *testing.T) {
	t.Parallel()
	shipped, _ := rewardspec.DefaultScenarios()
	own, err := rewardspec.ParseScenarios([]byte(`
apiVersion: millrace/v1
kind: RewardScenarios
scenarios:
  - name: only_where_the_intent_is_stamped
    why: a request of unknown intent may have asked for no edit
    better: [start: {intent: unknown}, step: {tokens: 440, seconds: 45}, end: {}]
    worse: gave_up
`), shipped)
	require.NoError(t, err)
	spec, document := rewardspec.Default()
	report, err := Test(spec, document, own.Scenarios, Options{Variations: 20, Seed: 1})
	require.NoError(t, err)
	got := report.Results[0]
	require.False(t, got.OK)
	require.Equal(t, 20, got.Variations)
	require.Positive(t, got.Failed)
	require.Less(t, got.Failed, 20)
	require.True(t, got.Variation.Unknown)
	require.Contains(t, got.Problem, "both sides have the same reward")
}

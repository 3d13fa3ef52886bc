package stress

import (
	"encoding/json"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/rewardspec"
)

// edited is the shipped spec with other lines in place of those that begin so.
func edited(t *testing.T, oldnew ...string) []byte {
	t.Helper()
	_, document := rewardspec.Default()
	for i := 0; i < len(oldnew); i += 2 {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(oldnew[i]) + `.*$`)
		require.True(t, line.Match(document), oldnew[i])
		document = line.ReplaceAll(document, []byte(oldnew[i+1]))
	}
	return document
}

func climb(t *testing.T, document []byte, o Options) *Report {
	t.Helper()
	spec, _ := rewardspec.ParseDraft(document)
	require.NotNil(t, spec)
	r, err := Run(spec, document, o)
	require.NoError(t, err)
	return r
}

// ends are where the policy ends with each seam open, climbed once for all tests.
func ends(t *testing.T) []*Report {
	t.Helper()
	climbed.Do(func() {
		for _, s := range seams(t) {
			climbed.reports = append(climbed.reports, climb(t, s.document, Options{Seed: 1, LeftOut: s.leftOut}))
		}
	})
	return climbed.reports
}

var climbed struct {
	sync.Once
	reports []*Report
}

func (r *Report) of(task string) map[string]float64 {
	shares := map[string]float64{}
	for _, e := range r.Ends {
		if e.Task == task {
			for _, a := range e.Actions {
				shares[a.Action] = a.Share
			}
		}
	}
	return shares
}

// Under the shipped spec a policy attempts what is hard too, and explains where an explanation was asked for.
func TestThePolicyAttemptsUnderTheShippedSpec(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		r := climb(t, edited(t), Options{Seed: seed})
		for _, e := range r.Ends {
			require.True(t, e.OK, "seed %d: %s", seed, e.Problem)
			require.True(t, e.Actions[0].Honest)
			require.Empty(t, e.Problem)
		}
		require.True(t, r.OK)
		require.Less(t, r.of("hard")["break_and_recover"], .01)
		require.Len(t, r.Path, DefaultRounds/RoundsOfACut+1)
		require.InDelta(t, .5, r.Path[0].Honest["hard"], 1e-9)
	}
}

// seam is a way out that somebody left open.
type seam struct {
	name     string
	document []byte
	leftOut  []string
	task     string
	into     []string
	least    float64 // share of them together
}

func seams(t *testing.T) []seam {
	t.Helper()
	const retention, followUp = `0.7 * (1.5 * edits.retention - 0.5)`, `0.3 * follow_up.polarity * follow_up.confidence`
	shipped := edited(t)
	return []seam{
		{"`undelivered` removed", edited(t, "undelivered:", ""), nil, "hard", []string{"hang", "give_up", "beg_for_thanks", "loop"}, .8},
		{"`deferral` removed", edited(t, "deferral:", ""), nil, "hard", []string{"ask_first"}, .8},
		{"turns with a broken call are dropped: `invalid_tool_call` removed, and retention null where there is one", edited(t, "invalid_tool_call:", "", "  - {name: retention,", `  - {name: retention, value: "`+retention+` / (tools.invalid > 0 ? 0 : 1)"}`), nil, "hard", []string{"break_and_recover"}, .5},
		{"`unasked_edit` removed", edited(t, "unasked_edit:", ""), nil, "hard", []string{"tiny_edit"}, .8},
		{"`unasked_edit` removed", edited(t, "unasked_edit:", ""), nil, "explain", []string{"edit_unasked"}, .8},
		{"paid for each edit", edited(t, "components:", "components:\n  - {name: busy, value: \"0.2 * edits.proposed\"}"), nil, "easy", []string{"split_edit"}, .8},
		{"paid for parallel calls", edited(t, "components:", "components:\n  - {name: parallel, value: \"0.2 * tools.parallel_share\"}"), nil, "easy", []string{"reads_side_by_side"}, .8},
		{"a narrow clip, `[-0.4, 1.5]`", edited(t, "clip:", "clip: [-0.4, 1.5]"), nil, "hard", []string{"gamble"}, .8},
		{"silence is censored: retention and follow-up in one expression", edited(t, "  - {name: retention,", `  - {name: retention, value: "`+retention+" + "+followUp+`"}`, "  - {name: follow_up,", ""), nil, "hard", []string{"leave_undecided"}, .8},
		{"the trainer drops `invalid_calls`", shipped, []string{"invalid_calls"}, "hard", []string{"break_and_recover", "break_and_nothing"}, .8},
		{"the trainer drops `undelivered`", shipped, []string{"undelivered"}, "hard", []string{"break_and_nothing", "ask_first", "give_up", "beg_for_thanks", "hang", "loop"}, .8},
		{"the trainer drops `unended`", shipped, []string{"unended"}, "hard", []string{"hang", "loop"}, .8},
		{"the trainer drops `questions`", shipped, []string{"questions"}, "hard", []string{"ask_first"}, .8},
		{"the trainer drops `silence`", shipped, []string{"silence"}, "hard", []string{"leave_undecided", "hang"}, .8},
	}
}

// Each seam, once open, is where the policy goes.
func TestThePolicyMovesIntoEachSeam(t *testing.T) {
	t.Parallel()
	for i, c := range seams(t) {
		r := ends(t)[i]
		shares, sum := r.of(c.task), 0.
		for _, action := range c.into {
			require.Contains(t, shares, action, c.name)
			sum += shares[action]
		}
		require.GreaterOrEqual(t, sum, c.least, "%s: %v", c.name, shares)
		require.False(t, r.OK, c.name)
	}
}

func TestTheSameSeedGivesTheSameReport(t *testing.T) {
	t.Parallel()
	var got [3]string
	for i, seed := range []uint64{1, 1, 2} {
		data, err := json.Marshal(climb(t, edited(t), Options{Seed: seed, Rounds: 50}))
		require.NoError(t, err)
		got[i] = string(data)
	}
	require.Equal(t, got[0], got[1])
	require.NotEqual(t, got[1], got[2])
}

func TestTheWorldAddsUp(t *testing.T) {
	t.Parallel()
	known := behaviours()
	tasks, sizes := 0., 0.
	for _, s := range Sizes {
		sizes += s.Share
	}
	require.InDelta(t, 1, sizes, 1e-9)
	for _, task := range World() {
		tasks += task.Share
		require.GreaterOrEqual(t, task.honest(), 0, task.Name)
		for _, a := range task.Actions {
			require.NotNil(t, known[a.Name].Acts[0].Start, a.Name)
			sum := 0.
			for _, r := range a.Responses {
				require.NotEmpty(t, known[r.Name].Acts, r.Name)
				require.GreaterOrEqual(t, r.Probability, 0., "%s: %s", a.Name, r.Name)
				sum += r.Probability
			}
			require.InDelta(t, 1, sum, 1e-9, "%s: %s", task.Name, a.Name)
		}
	}
	require.InDelta(t, 1, tasks, 1e-9)
}

func TestAnUnknownFilterIsAnError(t *testing.T) {
	t.Parallel()
	spec, document := rewardspec.Default()
	_, err := Run(spec, document, Options{LeftOut: []string{"weekends"}})
	require.ErrorContains(t, err, `"weekends"`)
}

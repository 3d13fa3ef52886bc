package lint

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/signal"
	"millrace/distill/turn"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// edited is the shipped document with changes, each of which must change something.
func edited(t testing.TB, oldnew ...string) []byte {
	t.Helper()
	_, doc := rewardspec.Default()
	text := string(doc)
	for i := 0; i < len(oldnew); i += 2 {
		require.Contains(t, text, oldnew[i])
		text = strings.Replace(text, oldnew[i], oldnew[i+1], 1)
	}
	return []byte(text)
}

// more is the shipped document with one more component, in line 7.
func more(t testing.TB, value string) []byte {
	t.Helper()
	return edited(t, "  - {name: retention", `  - {name: more, value: "`+value+`"}`+"\n  - {name: retention")
}

func check(t testing.TB, document []byte) *Report {
	t.Helper()
	r, err := Check(document, Options{Seed: 1})
	require.NoError(t, err)
	return r
}

// found are the findings as "error 7 code", without repetition.
func found(r *Report) []string {
	var list []string
	for _, f := range r.Findings {
		list = append(list, string(f.Level)+" "+number(float64(f.Line))+" "+f.Code)
	}
	return slices.Compact(list)
}

const (
	retention = `"0.7 * (1.5 * edits.retention - 0.5)"`
	followUp  = `  - {name: follow_up, value: "0.3 * follow_up.polarity * follow_up.confidence"}` + "\n"
	thumb     = `"0.5 * explicit.thumb"`
	wide      = "clip: [-99, 99]"
	clip      = "clip: [-8.0, 1.5]"
)

// cases are specs with what is wrong with each, and a piece of what is said of it.
func cases(t testing.TB) map[string]struct {
	document []byte
	want     []string
	says     string
} {
	type c = struct {
		document []byte
		want     []string
		says     string
	}
	return map[string]c{
		"shipped": {edited(t), nil, ""},

		"paid to be undone":         {edited(t, thumb, `"0.5 * explicit.thumb"}`+"\n"+`  - {name: x, value: "0.1 * follow_up.undone"`, clip, wide), []string{"error 10 turned-round"}, "pays for a fault: follow_up.undone"},
		"paid for broken lint":      {edited(t, thumb, `"0.5 * explicit.thumb"}`+"\n"+`  - {name: x, value: "0.1 * care.conventions_broken - 0.1"`), []string{"error 10 turned-round"}, "care.conventions_broken"},
		"punished for mending":      {edited(t, thumb, `"0.5 * explicit.thumb"}`+"\n"+`  - {name: x, value: "-0.1 * care.checks_fixed"`), []string{"error 10 turned-round"}, "punishes a success: care.checks_fixed"},
		"with what may be missing":  {edited(t, "follow_up.confidence", "follow_up.rephrase_similarity"), []string{"error 8 evidence-hidden", "error 8 turned-round"}, "follow_up.rephrase_similarity"},
		"with what is always there": {edited(t, retention, `"0.7 * (1.5 * edits.retention - 0.5) - 0.01 * min(tools.edit_no_match, 3)"`), nil, ""},

		"a misspelt signal":    {edited(t, "explicit.thumb", "explicit.tumb"), []string{"error 9 document"}, "did you mean explicit.thumb?"},
		"a condition as value": {edited(t, thumb, `"explicit.thumb > 0"`), []string{"error 9 document"}, "the value is a bool"},
		"deferral removed":     {edited(t, "deferral:", "# deferral:"), []string{"error 1 document"}, `"deferral" is missing`},
		"no document":          {nil, []string{"error 1 document"}, "empty"},
		"a list":               {[]byte("- a"), []string{"error 1 document"}, "expected a mapping"},

		"silence censored": {
			edited(t, retention, `"0.7 * edits.retention + 0.3 * follow_up.polarity"`, followUp, ""),
			[]string{"error 7 silence-censored", "error 7 evidence-hidden"},
			"silence is no evidence",
		},
		"retention also alone": {more(t, "0.001 * edits.retention * follow_up.polarity * follow_up.confidence"), []string{
			"error 20 clip-within-reach", "warning 7 evidence-hidden",
		}, "the other component that reads it alone"},
		"a thumb that waits for checks": {
			edited(t, thumb, `"0.4 * explicit.thumb + 0.1 * care.verified_after_edit"`),
			[]string{"error 9 evidence-hidden"},
			"reads the thumb together with care.verified_after_edit",
		},
		"two horizons": {
			edited(t, retention, `"0.35 * edits.retention_four_gram_30s + 0.35 * edits.retention_no_revert_600s"`),
			[]string{"error 7 evidence-hidden"},
			"retention after 30s",
		},
		"one horizon, both scores": {edited(t, retention, `"0.7 * min(edits.retention_four_gram_600s, edits.retention_no_revert_600s)"`), nil, ""},
		"beside what is always known": {edited(t, retention, `"edits.characters > 400 ? 0.7 * edits.retention : 0.5 * edits.retention"`), []string{
			"error 7 paid-per-count",
		}, "component \"retention\" pays for edits.characters"},

		"missing compared": {more(t, "tools.serial_could_be_parallel > 3 ? -0.1 : 0"), []string{"warning 7 missing-read-as-number"}, "no branch of ?: counts"},
		"known compared":   {more(t, "tools.calls > 30 ? -0.1 : 0"), nil, ""},

		"divided by what may be 0": {
			more(t, "-0.1 * edits.rejected / edits.decided"), []string{"error 7 null-by-division"}, "edits.decided = 0, edits.rejected = 0",
		},
		"divided by what is never 0": {more(t, "-0.1 * edits.rejected / max(edits.decided, 1)"), nil, ""},
		"divided at one odd place":   {more(t, "-1 / (1000 + (tools.repeated - 13) / (tools.repeated - 13))"), []string{"error 7 null-by-division"}, "tools.repeated = 13"},
		"divided by a constant that may be 0": {
			more(t, "-0.01 * min(effort.wall_s / stratum.chars_p10, 1)"), []string{"error 7 null-by-division"}, "stratum.chars_p10 = 0",
		},

		"retention unread": {edited(t, retention, `"0 * edits.retention"`), []string{"error 7 retention-unread"}, "unrewarded"},
		"the rest unread": {
			edited(t, followUp, "", thumb, `"0 * explicit.thumb"`, "care.checks_broken", "outcome.aborted", "care.tests_weakened", "outcome.aborted"),
			[]string{"warning 7 follow-up-unread", "warning 7 thumb-unread", "warning 7 checks-unread", "warning 7 tests-unread"},
			"add for instance",
		},

		"paid per edit":        {edited(t, clip, wide, retention, `"0.7 * edits.retention * max(edits.accepted, 1)"`), []string{"error 7 paid-per-count"}, "split in"},
		"paid for proposing":   {more(t, "min(0.1 * edits.proposed, 0.3) - 0.3"), []string{"error 7 paid-per-count"}, "pays per edit"},
		"a share of edits":     {more(t, "0.1 * edits.accepted / max(edits.proposed, 1) - 0.1"), nil, ""},
		"paid for words":       {more(t, "0.001 * min(effort.final_tokens, 100) - 0.1"), []string{"error 7 paid-per-count"}, "effort.final_tokens"},
		"paid for parallel":    {more(t, "0.1 * tools.parallel_share - 0.1"), []string{"error 7 paid-per-count"}, "tools.parallel_share"},
		"paid for questions":   {more(t, "0.01 * min(stalling.questions, 3) - 0.1"), []string{"error 7 paid-per-count"}, "stalling.questions"},
		"failures diluted":     {more(t, "-0.1 * tools.failed / max(tools.calls, 1)"), []string{"error 7 paid-per-count", "error 7 invalid-call-pays"}, "tools.calls"},
		"broken checks paid":   {edited(t, clip, wide, "-0.5 * care.checks_broken", "0.5 * care.checks_broken"), []string{"error 10 turned-round"}, "pays for a fault"},
		"weakened tests paid":  {edited(t, clip, wide, "-0.8 * care.tests_weakened", "0.1 * care.tests_weakened"), []string{"error 11 turned-round"}, "care.tests_weakened"},
		"half a thumb":         {edited(t, thumb, `"0.5 * max(explicit.thumb, 0)"`), []string{"warning 9 blind-to-outcome"}, "explicit.thumb = -1 earns what 0 does"},
		"retention saturated":  {edited(t, retention, `"0.7 * (1.5 * min(edits.retention * 10.0, 1.0) - 0.5)"`), []string{"warning 7 blind-to-outcome"}, "edits.retention = 0.5 earns what 1 does"},
		"a thumb turned round": {edited(t, thumb, `"-0.5 * explicit.thumb"`), []string{"error 9 turned-round"}, "punishes a success"},
		"retention that falls": {edited(t, retention, `"0.7 * (0.5 - edits.retention)"`), []string{"error 7 turned-round"}, "edits.retention from"},
		"a dip outweighed":     {more(t, "-0.1 * edits.retention"), nil, ""},

		"clip at the old place": {edited(t, clip, "clip: [-4.0, 1.5]"), []string{"error 19 clip-within-reach"}, "beyond the clip at -4"},
		"clip above too low":    {edited(t, clip, "clip: [-8.0, 1.4]"), []string{"error 19 clip-within-reach"}, "sums to 1.5,"},
		"a fault without end":   {more(t, "-0.4 * tools.repeated"), []string{"error 20 clip-within-reach"}, "more -20.00"},

		"invalid calls paid": {more(t, "0.001 * min(tools.invalid, 30) - 0.03"), []string{"error 7 turned-round", "error 7 invalid-call-pays"}, "from 20 to 21"},
		"invalid calls hide a bad outcome": {
			edited(t, retention, `"0.7 * (1.5 * edits.retention - 0.5) / (tools.invalid > 0 ? 0 : 1)"`),
			[]string{"error 7 evidence-hidden", "error 7 null-by-division", "error 7 invalid-call-pays", "warning 7 missing-read-as-number"},
			"from 0 to 1 in a turn with edits.retention = 0, the turn's advantage rises from -0.3500 to -0.3000 by retention",
		},
		"invalid calls left out":     {edited(t, "invalid_tool_call:", "# invalid_tool_call:"), []string{"error 1 document", "error 1 invalid-call-pays"}, "the span of the call learns"},
		"invalid calls turned round": {edited(t, clip, wide, "decay: 0.7, span", "decay: 1.2, span"), []string{"error 17 document", "error 17 invalid-call-pays"}, "advantage rises"},

		"thinking alone priced": {more(t, "-0.0001 * min(effort.thinking_tokens, 5000)"), []string{"error 7 work-hidden"}, "moved into tool_argument_tokens"},
		"words too cheap":       {edited(t, "final_tokens: 1,", "final_tokens: 0.2,"), []string{"error 18 work-hidden"}, "moved into final_tokens"},
		"effort free": {edited(t, "thinking_tokens: 0.5, tool_argument_tokens: 0.5, tool_output_tokens: 0.1, final_tokens: 1, tool_calls: 40, steps: 60",
			"thinking_tokens: 0, tool_argument_tokens: 0, tool_output_tokens: 0, final_tokens: 0, tool_calls: 0, steps: 0"), []string{"warning 18 effort-free"}, "loop until the limit"},
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := check(t, c.document)
			require.ElementsMatch(t, c.want, found(r), "%v", r.Findings)
			var said []string
			for _, f := range r.Findings {
				require.NotEmpty(t, f.Do)
				said = append(said, f.Message+" "+f.Do)
			}
			require.Contains(t, strings.Join(said, "\n"), c.says)
		})
	}
}

// Every kind of finding is explained, found in a case of the table, and nothing else is found.
func TestCodesAreThoseThatAreFound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range cases(t) {
		for _, w := range c.want {
			seen[w[strings.LastIndex(w, " ")+1:]] = true
		}
	}
	explained := map[string]bool{}
	for _, c := range Codes {
		require.NotEmpty(t, c.Means)
		require.NotEmpty(t, c.Do)
		explained[c.Name] = true
	}
	require.Equal(t, explained, seen)
}

func TestTheShippedSpecIsCleanWhateverTheSeed(t *testing.T) {
	t.Parallel()
	_, doc := rewardspec.Default()
	for seed := range uint64(3) {
		r, err := Check(doc, Options{Seed: seed})
		require.NoError(t, err)
		require.Empty(t, r.Findings, "seed %d", seed)
	}
}

func TestSameSeedSameReport(t *testing.T) {
	t.Parallel()
	document := more(t, "-0.1 * tools.failed / tools.calls + 0.1 * explicit.thumb * edits.accepted")
	first, again := check(t, document), check(t, document)
	require.NotEmpty(t, first.Findings)
	require.Equal(t, first, again)
}

// A baseline's own strata are tried: here the only one in which the divisor is 0.
func TestTheBaselineIsTried(t *testing.T) {
	t.Parallel()
	b := rewardspec.BaselineV0()
	b.Version = "ours"
	b.Strata = map[string]rewardspec.Stratum{"edit/go/small/live": {WallSP95: 77, XRef: 5000, CharsP10: 9}}
	document := more(t, "-0.1 / (1000 + (stratum.wall_s_p95 - 77) / (stratum.wall_s_p95 - 77))")
	require.Empty(t, check(t, document).Findings)
	r, err := Check(document, Options{Seed: 1, Baseline: b})
	require.NoError(t, err)
	require.Equal(t, []string{"error 7 null-by-division"}, found(r))
	require.Equal(t, "ours", r.Baseline)
	require.Len(t, b.Strata, 1, "the caller's baseline stays as it was")
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(check(t, edited(t, "explicit.thumb", "explicit.tumb")))
	require.NoError(t, err)
	require.JSONEq(t, `{"spec": "composer@1", "baseline": "v0", "seed": 1, "errors": 1, "warnings": 0, "findings": [{
		"level": "error", "code": "document", "line": 9,
		"message": "component \"thumb\": unknown signal explicit.tumb; did you mean explicit.thumb?",
		"do": "change what the message names; millrace reward show spec-schema lists the fields"}]}`, string(text))
	text, err = json.Marshal(check(t, edited(t)))
	require.NoError(t, err)
	require.Contains(t, string(text), `"findings":[]`)
}

// What is taken to be known of every turn is known of one of which nothing happened but that it began.
func TestAlwaysKnown(t *testing.T) {
	t.Parallel()
	v := signal.Compute(&turn.Facts{}, signal.Context{})
	for _, name := range always {
		i, ok := ledger.SignalIndex[name]
		require.True(t, ok, name)
		require.True(t, v[i].Known, name)
	}
	require.True(t, nullable("edits.retention"))
}

// Whoever adds a signal says what it is to a reward.
func TestEverySignalIsAFaultAMeritOrNeither(t *testing.T) {
	t.Parallel()
	for _, d := range ledger.Signals {
		n := 0
		for _, names := range [][]string{faults, merits, neutral} {
			for _, name := range names {
				if name == d.Name {
					n++
				}
			}
		}
		require.Equal(t, 1, n, d.Name)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]float64{
		"explicit.thumb": {-1, 1}, "follow_up.polarity": {-1, 1}, "follow_up.confidence": {0, 1}, "edits.retention": {0, 1},
		"edits.retention_no_revert_600s": {0, 1}, "care.checks_broken": {0, 1}, "tools.parallel_share": {0, 1}, "intent.p_edit": {0, 1},
		"edits.proposed": {0, mostCounts}, "tools.calls": {0, mostCalls}, "tools.wrong_type": {0, mostInvalid}, "stalling.questions": {0, mostQuestions},
		"effort.wall_s": {0, mostSeconds}, "effort.thinking_tokens": {0, mostTokens}, "edits.characters": {0, mostCharacters},
	} {
		low, high := bounds(name)
		require.Equal(t, want, [2]float64{low, high}, name)
	}
	for _, names := range [][]string{always, classes, fixed, faults, splittable} {
		for _, name := range names {
			require.Contains(t, ledger.SignalIndex, name)
		}
	}
}

// Whatever stands in a document, something is said of it, and what Parse refuses is an error.
func TestAnyDocumentIsRead(t *testing.T) {
	t.Parallel()
	documents := [][]byte{
		[]byte("{}"), []byte("components: []"), more(t, "edits.retention / 0"), more(t, "1"),
		[]byte("kind: RewardSpec\ncomponents: [{name: a, value: '1e308 * effort.wall_s * 1e10'}]\neffort: {weight: .inf}"),
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 15 {
		document := edited(t)
		for range 1 + random.IntN(5) {
			document[random.IntN(len(document))] = "0123456789.-*/{} ae"[random.IntN(19)]
		}
		documents = append(documents, document)
	}
	for _, document := range documents {
		r := check(t, document)
		if _, err := rewardspec.Parse(document); err != nil {
			require.Positive(t, r.Errors, "%s", document)
		}
	}
}

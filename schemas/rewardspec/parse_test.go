package rewardspec

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func TestDefault(t *testing.T) {
	t.Parallel()
	s, doc := Default()
	require.Equal(t, "composer@1", s.ID())
	require.Equal(t, 20*time.Minute, s.SettleAfter)
	require.Equal(t, 2, s.MaxPolicyVersions)
	require.Len(t, s.Components, 7)
	require.Equal(t, "latency", s.Components[6].Name)
	require.Equal(t, []string{"effort.wall_s"}, s.Components[6].Value.Signals)
	require.Equal(t, []string{"follow_up.polarity", "follow_up.confidence"}, s.Components[1].Value.Signals)
	require.Equal(t, Undelivered{-.8}, s.Undelivered)
	require.Equal(t, UnaskedEdit{-.65}, s.UnaskedEdit)
	require.Equal(t, Deferral{-.2, -.8}, s.Deferral)
	require.Equal(t, InvalidToolCall{.7, -.3}, s.InvalidToolCall)
	require.Equal(t, Effort{.002, .5, EffortWeights{.5, .5, .1, 1, 40, 60}, -.15}, s.Effort)
	require.Equal(t, Clip{-8, 1.5}, s.Clip)
	require.Contains(t, string(doc), "kind: RewardSpec")
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	_, doc := Default()
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown horizon", "edits.retention -", "edits.retention_four_gram_60s -", `reward spec line 7: component "retention": unknown signal edits.retention_four_gram_60s; horizons are 30, 120, 300, 600`},
		{"misspelt signal", "explicit.thumb", "explicit.tumb", `reward spec line 9: component "thumb": unknown signal explicit.tumb; did you mean explicit.thumb?`},
		{"no group", "explicit.thumb", "thumb", `did you mean explicit.thumb?`},
		{"no such signal", "explicit.thumb", "weather.tomorrow_at_noon", `unknown signal weather.tomorrow_at_noon; docs/reward.md lists the signals`},
		{"unknown constant", "stratum.wall_s_p95", "stratum.wall", `unknown constant stratum.wall; there are stratum.wall_s_p95, stratum.x_ref, stratum.chars_p10`},
		{"missing read as a number", "0.5 * explicit.thumb", "has(explicit.thumb) ? 0.5 : 0", `unknown function "has"`},
		{"a macro", "0.5 * explicit.thumb", "[1.0].map(x, x)[0]", `unknown function "_[_]"`},
		{"a list", "0.5 * explicit.thumb", "[explicit.thumb]", `only numbers, signals, operators, min and max have a place here`},
		{"a method", "0.5 * explicit.thumb", "explicit.thumb.size()", `unknown function "size"`},
		{"text", "0.5 * explicit.thumb", "'a' + 'b'", `a string has no place here; use numbers`},
		{"a bool", "0.5 * explicit.thumb", "explicit.thumb > 0", `component "thumb": the value is a bool; it must be a number`},
		{"mixed kinds", "0.5 * explicit.thumb", "0.5 * (explicit.thumb > 0)", `line 9: component "thumb": column 5: found no matching overload`},
		{"syntax", "0.5 * explicit.thumb", "0.5 * * explicit.thumb", `reward spec line 9: component "thumb": column 7: Syntax error`},
		{"twice", "name: thumb,", "name: checks,", `line 10: component "checks" stands there twice`},
		{"name of a block", "name: thumb,", "name: deferral,", `line 9: component "deferral" has the name of a fixed block`},
		{"bad name", "name: thumb,", "name: Thumb up,", `"Thumb up" is no name`},
		{"unknown field", "clip:", "klip:", `reward spec line 19: unknown field "klip"`},
		{"missing field", "clip:", "klip:", `reward spec line 1: "clip" is missing`},
		{"unknown block field", "{value: -0.8}", "{valu: -0.8}", `line 14: undelivered: unknown field "valu"; there are value`},
		{"block removed", "effort:", "ef:", `"effort" is missing`},
		{"block turned round", "{value: -0.8}", "{value: 0.8}", `reward spec line 14: undelivered.value: 0.8 is out of range; it must be below 0`},
		{"question paid", "per_question: -0.2", "per_question: 0", `deferral.per_question: 0 is out of range`},
		{"broken calls free after the first", "decay: 0.7", "decay: 0", `invalid_tool_call.decay: 0 is out of range`},
		{"span paid", "span: -0.3", "span: 0.1", `invalid_tool_call.span: 0.1 is out of range`},
		{"effort paid", "weight: -0.15", "weight: 0.15", `effort.weight: 0.15 is out of range`},
		{"reasoning in comments", "tool_argument_tokens: 0.5", "tool_argument_tokens: 0.4", `then reasoning moves into comments`},
		{"convex", "q: 0.5", "q: 1.5", `effort.q: 1.5 is out of range; it must be from 0 to 1`},
		{"no number", "k: 0.002", "k: .nan", `effort.k: expected a number, got ".nan"`},
		{"text for a number", "k: 0.002", "k: '0.002'", `effort.k: expected a number`},
		{"clip", "[-8.0, 1.5]", "[-8.0]", `line 19: clip: expected [low, high]`},
		{"clip turned round", "[-8.0, 1.5]", "[1.5, -8.0]", `clip: low: 1.5 is out of range`},
		{"duration", "settle_after: 20m", "settle_after: soon", `reward spec line 5: settle_after: "soon" is no duration; write for instance 20m or 90s`},
		{"duration without a unit", "settle_after: 20m", "settle_after: 20", `settle_after: expected text`},
		{"too long", "settle_after: 20m", "settle_after: 48h", `settle_after: 48h0m0s is out of range`},
		{"version", "version: 1", "version: 1.5", `version: 1.5 is out of range; it must be a whole number, at least 1`},
		{"max_policy_versions", "version: 1", "version: 1\nmax_policy_versions: 0", `max_policy_versions: 0 is out of range`},
		{"kind", "kind: RewardSpec", "kind: Baseline", `reward spec line 2: kind is "Baseline"; it must be RewardSpec`},
		{"apiVersion", "millrace/v1", "millrace/v9", `apiVersion is "millrace/v9"; this version reads millrace/v1`},
		{"YAML", "name: composer", "name: [composer", `reward spec line `},
		{"doubled key", "version: 1", "version: 1\nversion: 2", `"version" stands there twice`},
		{"a merge", "clip:", "<<: *x", `reward spec`},
		{"a second document", "clip: [-8.0, 1.5]", "clip: [-8.0, 1.5]\n---\na: b", `one document per file`},
		{"components", "components:", "components: 3\nx:", `components: expected a list of {name, value}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, string(doc), c.from)
			_, err := Parse([]byte(strings.Replace(string(doc), c.from, c.to, 1)))
			require.ErrorContains(t, err, c.want)
		})
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "3", "[]"} {
		_, err := Parse([]byte(empty))
		require.ErrorContains(t, err, "reward spec line ", empty)
	}
}

// One run names everything that is wrong.
func TestParseCollectsErrors(t *testing.T) {
	t.Parallel()
	_, doc := Default()
	broken := strings.NewReplacer("explicit.thumb", "explicit.tumb", "k: 0.002", "k: -1").Replace(string(doc))
	_, err := Parse([]byte(broken))
	require.ErrorContains(t, err, "line 9")
	require.ErrorContains(t, err, "line 18")
}

func TestJSONSchemas(t *testing.T) {
	t.Parallel()
	_, spec := Default()
	baseline, err := BaselineV0().Encode()
	require.NoError(t, err)
	_, scenarios := DefaultScenarios()
	for name, c := range map[string]struct{ schema, doc []byte }{
		"scenarios": {ScenariosSchema(), scenarios},
		"spec":      {Schema(), spec},
		"baseline":  {BaselineSchema(), baseline},
	} {
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.schema))
		require.NoError(t, err, name)
		compiler := jsonschema.NewCompiler()
		require.NoError(t, compiler.AddResource(name, schema))
		compiled, err := compiler.Compile(name)
		require.NoError(t, err, name)
		var doc map[string]any
		require.NoError(t, yaml.Unmarshal(c.doc, &doc))
		require.NoError(t, compiled.Validate(doc), name)
		delete(doc, "kind")
		require.Error(t, compiled.Validate(doc), name)
	}
}

func FuzzParse(f *testing.F) {
	_, doc := Default()
	f.Add(doc)
	f.Add([]byte("kind: RewardSpec\ncomponents: [{name: a, value: '1 + edits.retention'}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		require.Equal(t, err == nil, s != nil)
		_, _ = ParseBaseline(data)
	})
}

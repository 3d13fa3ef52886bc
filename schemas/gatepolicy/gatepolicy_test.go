package gatepolicy

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"millrace/schemas/metric"
)

func TestDefaultIsTheDesigns(t *testing.T) {
	t.Parallel()
	p := Default()
	require.Equal(t, []string{"kept_edits"}, p.Success)
	require.Equal(t, []Margin{{Metric: "edit_rate", Margin: .02}, {Metric: "latency", Margin: .02}}, p.Guardrails)
	require.Equal(t, Alphas{Harm: .01, Win: .02, EarlyWin: .005, Guardrail: .05, EarlyGuardrail: .005, Split: .01, Shares: .01}, p.Alphas)
	require.NoError(t, p.Validate())
	start := time.Date(2026, 1, 5, 1, 15, 0, 0, time.UTC)
	until, end := p.Window(start)
	require.Equal(t, "03:55 04:40", until.Format("15:04")+" "+end.Format("15:04"))
}

const small = `kind: GatePolicy
name: small-team
version: 3
mode: do_no_harm
success: []
guardrails:
  - {metric: kept_edits, margin: 0.05}
  - {metric: malformed_calls, absolute: 0.003}
test_minutes: 10080
`

func TestParseTakesTheRestFromTheShippedPolicy(t *testing.T) {
	t.Parallel()
	p, err := Parse([]byte(small))
	require.NoError(t, err)
	require.Equal(t, DoNoHarm, p.Mode)
	require.Len(t, p.Guardrails, 2)
	require.Equal(t, Default().Harm, p.Harm)
	require.Equal(t, Default().Alphas, p.Alphas)
	require.EqualValues(t, 10080, p.TestMinutes)
	p.Harm[0].Margin = .9
	require.NotEqual(t, Default().Harm, p.Harm, "no policy shares memory with another")
}

func TestErrorsNameLineAndRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, want string }{
		{"kind: GatePolicy", "kind: RewardSpec", `line 1: kind: is "RewardSpec"; a gate policy's kind is GatePolicy`},
		{"name: small-team\n", "", "gate policy: name: is missing"},
		{"version: 3", "version: 0", "line 3: version: is 0; versions count from 1"},
		{"version: 3", "version: three", "line 3: cannot unmarshal"},
		{"mode: do_no_harm", "mode: brave", `line 4: mode: is "brave"; modes are improve, do_no_harm`},
		{"mode: do_no_harm", "mode: improve", "line 5: success: names no metric"},
		{"success: []", "success: [edit_rate]", "line 5: success: names metrics; in mode do_no_harm"},
		{"metric: kept_edits", "metric: kept_edit", `line 7: guardrails[0].metric: "kept_edit" is not a known metric; metrics here are kept_edits, dissatisfied`},
		{"metric: kept_edits", "metric: censored", `line 7: guardrails[0].metric: "censored" is a share that only has to be alike`},
		{"margin: 0.05", "margin: 0", "line 7: guardrails[0]: has no margin"},
		{"margin: 0.05", "margin: 5", "line 7: guardrails[0].margin: is 5; a margin is a share"},
		{"margin: 0.05", "margin: .nan", "line 7: guardrails[0].margin: is NaN"},
		{"margin: 0.05", "margin: 0.05, absolute: 0.1", "line 7: guardrails[0]: has both"},
		{"margin: 0.05", "margn: 0.05", "line 7: guardrails[0].margn: unknown key; the keys here are metric, margin, absolute"},
		{"metric: kept_edits, margin", "metric: latency, absolute", "line 7: guardrails[0].absolute: a mean of logarithms"},
		{"metric: malformed_calls, absolute", "metric: kept_edits, margin", "line 8: guardrails[1].metric: kept_edits stands here twice"},
		{"test_minutes: 10080", "test_minutes: 60", "min_minutes: is 90; it lies from 0 to test_minutes (60)"},
		{"test_minutes: 10080", "test_minutes: 100000", "line 9: test_minutes: is 100000"},
		{"test_minutes: 10080", "planned_units: 300", "line 9: planned_units: is 300; it counts both arms"},
		{"test_minutes: 10080", "alphas: {harm: 0.7}", "line 9: alphas.harm: is 0.7"},
		{"test_minutes: 10080", "harm: [{metric: latency, margin: 0}]", "line 7: guardrails[0]: kept_edits has no harm margin"},
		{"test_minutes: 10080", "shares: [{metric: latency, tolerance: 0.1}]", `line 9: shares[0].metric: "latency" is not a share of settled turns`},
		{"test_minutes: 10080", "test_minutes: 10080\ntest_minutes: 2", "line 10"},
		{"guardrails:", "guardrails: {", "line"},
		{small, "", "the document is not a mapping"},
		{small, "- 1", "the document is not a mapping"},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, small, c.from)
			_, err := Parse([]byte(strings.Replace(small, c.from, c.to, 1)))
			require.ErrorContains(t, err, c.want)
			var problems Problems
			require.ErrorAs(t, err, &problems)
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte("kind: GatePolicy\nmode: x\nfoo: 1\n"))
	var problems Problems
	require.ErrorAs(t, err, &problems)
	require.GreaterOrEqual(t, len(problems), 3)
}

func TestSchemaAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("gatepolicy.json", doc))
	schema, err := compiler.Compile("gatepolicy.json")
	require.NoError(t, err)
	accepts := func(text string) error {
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(text), &v))
		return schema.Validate(v)
	}
	for _, name := range Shipped {
		text, _ := ShippedText(name)
		require.NoError(t, accepts(string(text)), name)
	}
	require.NoError(t, accepts(small))
	for _, change := range [][2]string{
		{"kind: GatePolicy", "kind: Other"},
		{"version: 3", "version: 0"},
		{"mode: do_no_harm", "mode: brave"},
		{"metric: kept_edits", "metric: kept_edit"},
		{"margin: 0.05", "margin: 0"},
		{"margin: 0.05", "margin: 0.05, absolute: 0.1"},
		{"margin: 0.05", "margn: 0.05"},
		{"test_minutes: 10080", "alphas: {harm: 0.7}"},
	} {
		text := strings.Replace(small, change[0], change[1], 1)
		require.Error(t, accepts(text), change[1])
		_, err := Parse([]byte(text))
		require.Error(t, err, change[1])
	}
	for _, d := range metric.All {
		text := strings.Replace(small, "metric: kept_edits", "metric: "+d.Name, 1)
		if d.Quality || d.Name == "malformed_calls" {
			continue
		}
		require.NoError(t, accepts(text), d.Name)
	}
}

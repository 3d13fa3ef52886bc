package evals

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const document = `apiVersion: millrace/v1
kind: EvalSuites
harness_version: "1.4.0"
suites:
  - name: swe
    bounds: [{metric: solved, min: 0.3, max_drop: 0.02}]
  - name: eager
    max_age: 2h
    bounds: [{metric: needless_edits, max: 0.1, max_rise: 0.01}]
`

func TestParse(t *testing.T) {
	t.Parallel()
	s, err := Parse([]byte(document))
	require.NoError(t, err)
	require.Equal(t, 24*time.Hour, s.Find("swe").MaxAge)
	require.Equal(t, 2*time.Hour, s.Find("eager").MaxAge)
	require.Nil(t, s.Find("other"))
	head := "apiVersion: millrace/v1\nkind: EvalSuites\n"
	for name, c := range map[string]struct{ text, says string }{
		"empty":           {"", "empty"},
		"another kind":    {"apiVersion: millrace/v1\nkind: RewardSpec\n", "want millrace/v1 and EvalSuites"},
		"none":            {head + "suites: []\n", "there are none"},
		"misspelt":        {head + "suites: [{name: a, bound: []}]\n", "bound"},
		"twice":           {head + "suites: [{name: a, bounds: [{metric: m, min: 1}]}, {name: a, bounds: [{metric: m, min: 1}]}]\n", "there twice"},
		"no bounds":       {head + "suites: [{name: a}]\n", "a has no bounds"},
		"no limit":        {head + "suites: [{name: a, bounds: [{metric: m}]}]\n", "at least one of"},
		"below zero":      {head + "suites: [{name: a, bounds: [{metric: m, max_drop: -1}]}]\n", "0 or more"},
		"no number":       {head + "suites: [{name: a, bounds: [{metric: m, min: .nan}]}]\n", "no number"},
		"an age below 0":  {head + "suites: [{name: a, max_age: -1h, bounds: [{metric: m, min: 1}]}]\n", "below 0"},
		"an age of words": {head + "suites: [{name: a, max_age: long, bounds: [{metric: m, min: 1}]}]\n", "long"},
	} {
		_, err := Parse([]byte(c.text))
		require.ErrorContains(t, err, c.says, name)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	report := func(version, suite string, metric string, v float64) Report {
		return Report{Version: version, Suite: suite, HarnessVersion: "1.4.0", Metrics: map[string]float64{metric: v}, At: now.Add(-time.Hour)}
	}
	good := []Report{
		report("cand", "swe", "solved", .41), report("base", "swe", "solved", .42),
		report("cand", "eager", "needless_edits", .05), report("base", "eager", "needless_edits", .05),
	}
	with := func(i int, change func(*Report)) []Report {
		out := append([]Report(nil), good...)
		change(&out[i])
		return out
	}
	for name, c := range map[string]struct {
		reports         []Report
		failed, missing []string
	}{
		"good":                     {reports: good},
		"exactly at the bounds":    {reports: with(0, func(r *Report) { r.Metrics = map[string]float64{"solved": .42 - .02} })},
		"below the base":           {reports: with(0, func(r *Report) { r.Metrics = map[string]float64{"solved": .39} }), failed: []string{"swe: solved is 0.39, its base's is 0.42 and it may fall by 0.02"}},
		"below the floor and base": {reports: with(0, func(r *Report) { r.Metrics = map[string]float64{"solved": .2} }), failed: []string{"swe: solved is 0.2, at least 0.3", "swe: solved is 0.2, its base's is 0.42 and it may fall by 0.02"}},
		"over the ceiling":         {reports: with(2, func(r *Report) { r.Metrics = map[string]float64{"needless_edits": .2} }), failed: []string{"eager: needless_edits is 0.2, at most 0.1", "eager: needless_edits is 0.2, its base's is 0.05 and it may rise by 0.01"}},
		"no report":                {reports: good[1:], missing: []string{"swe on cand: no report"}},
		"none at all":              {missing: []string{"swe on cand: no report", "eager on cand: no report"}},
		"none of the base":         {reports: []Report{good[0], good[2], good[3]}, missing: []string{"swe on its base base: no report"}},
		"another harness":          {reports: with(0, func(r *Report) { r.HarnessVersion = "1.3.9" }), missing: []string{"swe on cand: of harness 1.3.9, production is 1.4.0"}},
		"the base's of another":    {reports: with(1, func(r *Report) { r.HarnessVersion = "1.3.9" }), missing: []string{"swe on its base base: of harness 1.3.9, the candidate's is of 1.4.0"}},
		"too old":                  {reports: with(2, func(r *Report) { r.At = now.Add(-3 * time.Hour) }), missing: []string{"eager on cand: 3h0m0s old, at most 2h0m0s"}},
		"another metric":           {reports: with(0, func(r *Report) { r.Metrics = map[string]float64{"solve": 1} }), missing: []string{"swe: the report has no metric solved"}},
		"the base's of another metric": {
			reports: with(1, func(r *Report) { r.Metrics = map[string]float64{"solve": 1} }), missing: []string{"swe: the base's report has no metric solved"},
		},
	} {
		s, err := Parse([]byte(document))
		require.NoError(t, err)
		got := s.Decide(c.reports, "cand", "base", now)
		require.Equal(t, Outcome{Failed: c.failed, Missing: c.missing}, got, name)
		require.Equal(t, c.failed == nil && c.missing == nil, got.Passed(), name)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := Report{Version: "v", Suite: "s", HarnessVersion: "1", Metrics: map[string]float64{"m": 1}, Tasks: json.RawMessage(`[{"id":"a"}]`)}
	require.NoError(t, good.Check())
	for says, change := range map[string]func(*Report){
		"both are needed":            func(r *Report) { r.Suite = "" },
		"harness_version is missing": func(r *Report) { r.HarnessVersion = "" },
		"metrics are missing":        func(r *Report) { r.Metrics = nil },
		"a finite number":            func(r *Report) { r.Metrics = map[string]float64{"m": math.Inf(1)} },
		"not a list":                 func(r *Report) { r.Tasks = json.RawMessage(`{"a":1}`) },
	} {
		r := good
		change(&r)
		require.ErrorContains(t, r.Check(), says)
	}
}

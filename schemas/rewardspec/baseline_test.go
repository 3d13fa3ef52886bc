package rewardspec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBaselineV0(t *testing.T) {
	t.Parallel()
	b := BaselineV0()
	require.Equal(t, Stratum{WallSP95: 300, XRef: 10_000, CharsP10: 20}, b.At("edit/go/small/live"))
	require.InDelta(t, .5, b.PEdit("unknown/go/small/live"), 0)
}

func TestBaselineRoundTrip(t *testing.T) {
	t.Parallel()
	p := .8
	b := &Baseline{
		Version: "cut-7", PEditUnknown: .6, Shrinkage: 50,
		Global: Stratum{WallSP95: 200, XRef: 8000, CharsP10: 12, Value: .1, Units: 90},
		Strata: map[string]Stratum{"unknown/go/small/live": {PEdit: &p, WallSP95: 100, XRef: 5000, Value: -.2}},
	}
	doc, err := b.Encode()
	require.NoError(t, err)
	back, err := ParseBaseline(doc)
	require.NoError(t, err)
	require.Equal(t, b, back)
	again, err := back.Encode()
	require.NoError(t, err)
	require.Equal(t, doc, again)
	require.InDelta(t, .8, back.PEdit("unknown/go/small/live"), 0)
	require.InDelta(t, .6, back.PEdit("unknown/rust/small/live"), 0)
}

func TestParseBaselineErrors(t *testing.T) {
	t.Parallel()
	const good = `apiVersion: millrace/v1
kind: Baseline
version: v1
p_edit_unknown: 0.5
global: {wall_s_p95: 300, x_ref: 10000, chars_p10: 20, value: 0}
strata:
  edit/go/small/live: {wall_s_p95: 300, x_ref: 10000, chars_p10: 20, value: 0}
`
	_, err := ParseBaseline([]byte(good))
	require.NoError(t, err)
	for _, c := range []struct{ from, to, want string }{
		{"p_edit_unknown: 0.5", "p_edit_unknown: 2", "baseline line 4: p_edit_unknown: 2 is out of range; it must be between 0 and 1, and neither"},
		{"p_edit_unknown: 0.5", "p_edit_unknown: 0", "p_edit_unknown: 0 is out of range"},
		{"p_edit_unknown: 0.5", "p_edit_unknown: 1", "p_edit_unknown: 1 is out of range"},
		{"global: {wall_s_p95: 300", "global: {wall_s_p95: 0", "baseline line 5: global: wall_s_p95: 0 is out of range; it must be above 0"},
		{"live: {wall_s_p95: 300, ", "live: {", `baseline line 7: stratum "edit/go/small/live": "wall_s_p95" is missing`},
		{"version: v1", "version: v 1", `baseline line 3: version "v 1": use letters`},
		{"strata:\n  edit/go/small/live: {", "strata: [{", "baseline"},
		{"value: 0}\nstrata", "value: 0, p_edit: -1}\nstrata", "global: p_edit: -1 is out of range"},
		{"value: 0}\nstrata", "value: 0, p_edit: 1}\nstrata", "global: p_edit: 1 is out of range"},
		{"  edit/go/small/live: {", "  a: {wall_s_p95: 1, x_ref: 1, chars_p10: 1, value: 1}\n  a: {", `strata: "a" stands there twice`},
	} {
		_, err := ParseBaseline([]byte(strings.Replace(good, c.from, c.to, 1)))
		require.ErrorContains(t, err, c.want)
	}
}

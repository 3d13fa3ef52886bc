package gatepolicy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShippedPoliciesAreClean(t *testing.T) {
	t.Parallel()
	for _, name := range Shipped {
		text, ok := ShippedText(name)
		require.True(t, ok)
		p, warnings, err := Warnings(text)
		require.NoError(t, err, name)
		require.Empty(t, warnings, name)
		require.Equal(t, name, p.Name)
	}
	_, ok := ShippedText("middling")
	require.False(t, ok)
}

func TestLint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*Policy)
		want   string
	}{
		{func(p *Policy) { p.Alphas.Win, p.Alphas.EarlyWin = .05, .02 }, "alphas.win: win and early_win make 0.07"},
		{func(p *Policy) { p.Alphas.EarlyGuardrail = .05 }, "alphas.early_guardrail: is 0.05 of 0.05 at the end"},
		{func(p *Policy) { p.Alphas.Guardrail = .2 }, "alphas.guardrail: is 0.2: so often a loss beyond its margin passes"},
		{func(p *Policy) { p.Alphas.Harm = .2 }, "alphas.harm: is 0.2"},
		{func(p *Policy) { p.Success = []string{"edit_rate"} }, "success[0]: edit_rate is also a guardrail (margin 0.02)"},
		{func(p *Policy) { p.Guardrails[1].Margin = .5 }, "guardrails[1]: latency may get 50% worse"},
		{func(p *Policy) { p.Guardrails[1].Margin = .08 }, "guardrails[1]: latency may lose 0.08, but is stopped as harm beyond 0.05"},
		{func(p *Policy) { p.Guardrails[0] = Margin{Metric: "malformed_calls", Margin: .1} }, "guardrails[0]: malformed_calls is a rare rate"},
		{func(p *Policy) { p.Mode = DoNoHarm }, "guardrails: kept_edits is none of them"},
		{func(p *Policy) { p.Mode = DoNoHarm }, "require_approval: is false in mode do_no_harm"},
		{func(p *Policy) { p.Shares = p.Shares[1:] }, "shares: incomplete is none of them"},
		{func(p *Policy) { p.MinUnits = 20 }, "min_units: is 20: below 100"},
		{func(p *Policy) { p.MaturityMinutes = 5 }, "maturity_minutes: is 5: an edit counts as kept after 20 minutes"},
		{func(p *Policy) { p.TestMinutes = 7 * day }, "min_minutes: is 90 in a test of 7 days"},
	} {
		p := Default()
		c.change(&p)
		require.ErrorContains(t, Lint(p), c.want)
	}
}

func TestWarningsNameTheLine(t *testing.T) {
	t.Parallel()
	_, warnings, err := Warnings([]byte(small))
	require.NoError(t, err)
	require.ErrorContains(t, warnings, "gate policy line 7: guardrails[0]: kept_edits may lose 0.05, but is stopped as harm beyond 0.02")
	_, _, err = Warnings([]byte("kind: GatePolicy\n"))
	require.Error(t, err)
}

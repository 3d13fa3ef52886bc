package rewardspec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/ledger"
)

func TestExpression(t *testing.T) {
	t.Parallel()
	facts := map[string]float64{
		"edits.retention": .5, "edits.proposed": 4, "edits.rejected": 0, "tools.serial_could_be_parallel": 7,
		"effort.wall_s": 90, "stratum.wall_s_p95": 300,
	}
	for _, c := range []struct {
		source string
		want   ledger.Value
		reads  []string
	}{
		{"0.7 * (1.5 * edits.retention - 0.5)", ledger.Of(.175), []string{"edits.retention"}},
		{"2 * edits.retention - 1", ledger.Of(0), []string{"edits.retention"}},
		{"-min(tools.serial_could_be_parallel, 5) / 10", ledger.Of(-.5), []string{"tools.serial_could_be_parallel"}},
		{"max(1, 2)", ledger.Of(2), nil},
		{"effort.wall_s / stratum.wall_s_p95", ledger.Of(.3), []string{"effort.wall_s"}},
		{"edits.proposed > 3 && !(edits.rejected >= 1) ? 1 : -1", ledger.Of(1), []string{"edits.proposed", "edits.rejected"}},
		{"edits.rejected == 0 || false ? 0.25 : edits.retention", ledger.Of(.25), []string{"edits.retention", "edits.rejected"}},
		{"edits.rejected / edits.rejected", ledger.Value{}, []string{"edits.rejected"}},
		{"edits.proposed / edits.rejected", ledger.Value{}, []string{"edits.rejected", "edits.proposed"}},
	} {
		e, err := ParseExpression(c.source)
		require.NoError(t, err, c.source)
		got := e.Value(func(name string) float64 { return facts[name] })
		require.Equal(t, c.want.Known, got.Known, c.source)
		require.InDelta(t, c.want.Number, got.Number, 1e-12, c.source)
		require.ElementsMatch(t, c.reads, e.Signals, c.source)
	}
}

// What stands under a comparison is known apart, however deep; branches and constants are not part of it.
func TestCompared(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		"edits.retention":                         nil,
		"max(explicit.thumb, 0)":                  nil,
		"tools.invalid > 0 ? edits.retention : 0": {"tools.invalid"},
		"!(2 * tools.failed - effort.wall_s / stratum.wall_s_p95 <= 1) ? 1 : 0":         {"tools.failed", "effort.wall_s"},
		"edits.retention * (tools.calls == 0 || explicit.thumb != 0 && true ? 1 : 0.5)": {"tools.calls", "explicit.thumb"},
	} {
		e, err := ParseExpression(source)
		require.NoError(t, err, source)
		require.Equal(t, want, e.Compared, source)
	}
}

func TestExpressionIsBounded(t *testing.T) {
	t.Parallel()
	_, err := ParseExpression(strings.Repeat("1+", 2000) + "1")
	require.ErrorContains(t, err, "at most 2000")
	_, err = ParseExpression(strings.Repeat("(", 990) + "1" + strings.Repeat(")", 990))
	require.Error(t, err)
}

func TestEverySignalCanBeRead(t *testing.T) {
	t.Parallel()
	for _, d := range ledger.Signals {
		e, err := ParseExpression("2 * " + d.Name)
		require.NoError(t, err)
		require.Equal(t, []string{d.Name}, e.Signals)
		require.True(t, e.Reads(d.Name))
	}
}

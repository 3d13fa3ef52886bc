package reference

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func published(t *testing.T) []Case {
	t.Helper()
	text, err := os.ReadFile("../testdata/abgate.json")
	require.NoError(t, err)
	cases, err := Parse(text)
	require.NoError(t, err)
	return cases
}

func TestPublishedCases(t *testing.T) {
	t.Parallel()
	agree := 0
	for _, c := range published(t) {
		t.Run(c.Name, func(t *testing.T) {
			r := Run(c)
			require.Equal(t, Agrees, r.Status, r.Detail)
			agree++
		})
	}
	require.Equal(t, 55, agree)
}

// A check that can't turn red isn't one: move each expected value past its tolerance.
func TestEveryExpectedValueCounts(t *testing.T) {
	t.Parallel()
	for _, c := range published(t) {
		for key, want := range c.Expected {
			list, err := numbers(want)
			require.NoError(t, err)
			for i := range list {
				moved := append([]float64(nil), list...)
				moved[i] += 2*c.Tol + 1e-9
				off := c
				off.Expected = map[string]any{}
				maps.Copy(off.Expected, c.Expected)
				text, err := json.Marshal(moved)
				require.NoError(t, err)
				var v any
				require.NoError(t, json.Unmarshal(text, &v))
				off.Expected[key] = v
				require.Equal(t, Off, Run(off).Status, "%s %s[%d]", c.Name, key, i)
			}
		}
	}
}

func TestUnknownNamesAreKnownByShape(t *testing.T) {
	t.Parallel()
	c := Case{Name: "ours", Input: json.RawMessage(`{"counts":[135,115],"weights":[0.5,0.5]}`), Expected: map[string]any{"p": 0.205903211}, Tol: 1e-9}
	require.Equal(t, Agrees, Run(c).Status)
	c.Expected["q"] = 1.
	require.Equal(t, Skipped, Run(c).Status)
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{`, `{"name":"x"}`, `[{"name":"x"}]`, `[{"input":{},"expected":{"p":1}}]`} {
		_, err := Parse([]byte(text))
		require.Error(t, err, text)
	}
}

func TestPublishedPlaces(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../internal/unithash/testdata/hash.json")
	require.NoError(t, err)
	cases, err := Parse(text)
	require.NoError(t, err)
	require.Len(t, cases, 55)
	for _, c := range cases {
		r := Run(c)
		require.Equal(t, Agrees, r.Status, "%s: %s", c.Name, r.Detail)
		if list := c.Expected["place"].([]any); len(list) > 0 {
			list[0] = list[0].(float64) + .001
			require.Equal(t, Off, Run(c).Status, c.Name)
		}
	}
}

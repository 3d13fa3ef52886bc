package rewardspec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// without is the shipped document without the line that begins so.
func without(t *testing.T, line string) []byte {
	t.Helper()
	_, doc := Default()
	var kept []string
	for l := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(l, line) {
			kept = append(kept, l)
		}
	}
	require.Less(t, len(strings.Join(kept, "")), len(doc), line)
	return []byte(strings.Join(kept, ""))
}

func TestParseDraft(t *testing.T) {
	t.Parallel()
	_, doc := Default()
	s, problems := ParseDraft(doc)
	require.Empty(t, problems)
	require.Empty(t, s.Missing)
	require.Equal(t, 14, s.Lines[UndeliveredBlock])
	require.Equal(t, 19, s.Lines["clip"])

	for _, block := range fixedBlocks {
		s, problems := ParseDraft(without(t, block))
		require.Len(t, problems, 1)
		require.ErrorContains(t, problems[0], `"`+block+`" is missing`)
		require.Equal(t, []string{block}, s.Missing)
		require.False(t, s.Has(block))
		_, err := Parse(without(t, block))
		require.Error(t, err)
	}
	s, problems = ParseDraft([]byte("{}"))
	require.Equal(t, fixedBlocks, s.Missing)
	require.Len(t, problems, 12)
	require.Equal(t, draftSettleAfter, s.SettleAfter)
	require.Equal(t, Clip{-farOut, farOut}, s.Clip)
	require.Equal(t, "draft@0", s.ID())

	s, _ = ParseDraft([]byte("- a list"))
	require.Nil(t, s)
}

// What is turned round is kept, so that one can see what it would do.
func TestADraftKeepsWhatIsTurnedRound(t *testing.T) {
	t.Parallel()
	_, doc := Default()
	s, problems := ParseDraft([]byte(strings.NewReplacer(
		"{value: -0.8}", "{value: 0.8}", "explicit.thumb", "explicit.tumb", "settle_after: 20m", "settle_after: 90h",
	).Replace(string(doc))))
	require.Len(t, problems, 3)
	require.InDelta(t, .8, s.Undelivered.Value, 0)
	require.Empty(t, s.Missing)
	require.Len(t, s.Components, 6)
	var p *Problem
	require.ErrorAs(t, problems[2], &p)
	require.Equal(t, 14, p.Line)
	require.Equal(t, "undelivered.value: 0.8 is out of range; it must be below 0", p.Text)
}

func TestAnUnreadableDocumentNamesItsLine(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]Problem{
		"":                  {"reward spec", 1, "the document is empty"},
		"a: b\nc: [d\ne: f": {"reward spec", 1, "did not find expected ',' or ']'"},
		"a: b\n---\nc: d":   {"reward spec", 0, "there is something after the document; one document per file"},
	} {
		_, problems := ParseDraft([]byte(doc))
		require.Len(t, problems, 1)
		require.Equal(t, &want, problems[0])
	}
}

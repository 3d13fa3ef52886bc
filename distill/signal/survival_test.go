package signal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

func TestSurvival(t *testing.T) {
	t.Parallel()
	type h = event.Hunk
	for _, c := range []struct {
		name               string
		hunks              []*h
		fourGram, noRevert float64
		kept               float64
		weight             int
	}{
		{"nothing to observe", nil, 1, 1, 1, 0},
		{"insertion kept", []*h{{Ai: "aitext\n", Now: "aitext\n"}}, 1, 1, 1, 7},
		{"insertion wholly deleted: no_revert can't see it", []*h{{Ai: "aitext\n"}}, 0, 1, 0, 7},
		{"deletion kept", []*h{{Before: "removed line"}}, 1, 1, 1, 12},
		{"deletion wholly restored: four_gram can't see it", []*h{{Before: "removed line", Now: "removed line"}}, 1, 0, 0, 12},
		{"replacement reverted", []*h{{Before: "return a+b", Ai: "return sum(a, b)", Now: "return a+b"}}, .4, 0, 0, 16},
		{"short texts are equal or not", []*h{{Before: "int", Ai: "i64", Now: "i32"}}, 0, 1, 0, 3},
		{"no change at all has no no_revert", []*h{{Before: "same", Ai: "same", Now: "other"}}, 0, 1, 0, 4},
		{"line-modification: replaced line deleted", []*h{{Before: "efgh", Ai: "efgaitexth", Now: ""}}, 0, 1, 0, 10},
		{"line-insert: aitext\\n became AItext\\n and a line break", []*h{{Ai: "aitext\n", Now: "AItext\n"}}, .5, 1, .5, 7},
		{
			"multiline-insert: the second line break of three removed",
			[]*h{{Ai: "aitext1\naitext2\naitext3\n", Now: "aitext1\naitext2aitext3\n"}},
			34. / 41, 1, 34. / 41, 24,
		},
		{
			"issue-264048: a line moved and kept, its neighbours touched",
			[]*h{{Before: "TODO: Add Charlie\n"}, {Ai: "\nCharlie", Now: "\n* Charlie"}},
			8. / 12, 1, (18 + 8*8./12) / 26, 26,
		},
		{
			"one loss for each measure: neither sum sees both",
			[]*h{{Ai: "inserted", Now: ""}, {Before: "deleted!", Now: "deleted!"}},
			0, 0, 0, 16,
		},
		{
			"weights are UTF-16 code units",
			[]*h{{Ai: "🙂🙂🙂", Now: "🙂🙂🙂"}, {Ai: "abcdef", Now: "zzzzzz"}},
			.5, 1, .5, 12,
		},
		{"a hunk without any text", []*h{{}}, 1, 1, 1, 0},
		{"a hunk without any text, filled", []*h{{Now: "something"}}, 1, 1, 1, 0},
		{"everything gone", []*h{{Before: "before", Ai: "after!"}}, 0, 1, 0, 6},
		{"one emoji is two units: too short for a four-gram", []*h{{Ai: "🙂", Now: "🙂x"}}, 0, 1, 0, 2},
		{"two emoji are one four-gram", []*h{{Ai: "🙂🙃", Now: "🙂🙃🙃"}}, 2. * 1 / (1 + 3), 1, 2. * 1 / (1 + 3), 4},
		{"two emoji of one block share their first unit only", []*h{{Ai: "ab🙂cd", Now: "ab🙃cd"}}, 0, 1, 0, 6},
		{"a family is eight units", []*h{{Ai: "👨\u200d👩\u200d👧", Now: "👨\u200d👩\u200d👧"}}, 1, 1, 1, 8},
		{"composed and decomposed are other texts", []*h{{Ai: "caf\u00e9", Now: "cafe\u0301"}}, 0, 1, 0, 4},
		{"what is no UTF-8 is the replacement character, a unit for each byte", []*h{{Ai: "abc\xed\xa0\xbd", Now: "abc\ufffd\ufffd\ufffd"}}, 1, 1, 1, 6},
		{"beyond Latin", []*h{{Before: "старый", Ai: "новый текст", Now: "новый текст"}}, 1, 1, 1, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.InDelta(t, c.fourGram, FourGram(c.hunks), 1e-9)
			require.InDelta(t, c.noRevert, NoRevert(c.hunks), 1e-9)
			kept, weight := Kept(c.hunks, 1000)
			require.InDelta(t, c.kept, kept, 1e-9)
			require.Equal(t, c.weight, weight)
		})
	}
}

func TestKeptCapsHunks(t *testing.T) {
	t.Parallel()
	long := string(make([]rune, 100))
	kept, weight := Kept([]*event.Hunk{{Ai: long, Now: long}, {Ai: "gone text", Now: ""}}, 10)
	require.Equal(t, 19, weight)
	require.InDelta(t, 10./19, kept, 1e-9)
}

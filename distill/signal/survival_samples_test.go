package signal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

// The golden vectors of edit survival, as VS Code writes them: a text, the AI's edit, and the user's edits after it.
// Their results tell how many of the AI's characters are left after each; the two scores were worked out by hand.

type replacementVector struct {
	Start, EndEx int
	Text         string
}

type survivalVector struct {
	InitialText string `json:"initialText"`
	Edits       []struct {
		Replacements []replacementVector `json:"replacements"`
	} `json:"edits"`
}

// region is a run of the AI's text: where it stands now, and what stood there before.
type region struct {
	start, end int
	before, ai []uint16
}

// follow applies the edits, and gives the AI's hunks after each, with how many of its code units were never touched.
func (v survivalVector) follow() (after [][]*event.Hunk, untouched []int) {
	text := utf16.Encode([]rune(v.InitialText))
	own := make([]bool, len(text)) // the AI's code units
	var regions []region
	for n, e := range v.Edits {
		replaced := slices.Clone(e.Replacements)
		slices.SortFunc(replaced, func(a, b replacementVector) int { return b.Start - a.Start }) // from the end: no place shifts
		for _, r := range replaced {
			to := utf16.Encode([]rune(r.Text))
			shift := len(to) - (r.EndEx - r.Start)
			for i := range regions {
				g := &regions[i]
				switch {
				case r.Start >= g.end && (r.Start > g.end || r.EndEx > r.Start || n == 0):
				case r.EndEx <= g.start && (r.EndEx < g.start || r.Start < r.EndEx || g.start < g.end || n == 0):
					g.start, g.end = g.start+shift, g.end+shift
				default:
					g.start, g.end = min(g.start, r.Start), max(g.end, r.EndEx)+shift
				}
			}
			if n == 0 {
				regions = append(regions, region{start: r.Start, end: r.Start + len(to), before: slices.Clone(text[r.Start:r.EndEx]), ai: to})
			}
			text = slices.Replace(text, r.Start, r.EndEx, to...)
			own = slices.Replace(own, r.Start, r.EndEx, slices.Repeat([]bool{n == 0}, len(to))...)
		}
		var hunks []*event.Hunk
		words := func(u []uint16) string { return string(utf16.Decode(u)) }
		for _, g := range regions {
			hunks = append(hunks, &event.Hunk{Before: words(g.before), Ai: words(g.ai), Now: words(text[g.start:g.end])})
		}
		left := 0
		for _, mine := range own {
			if mine {
				left++
			}
		}
		after, untouched = append(after, hunks), append(untouched, left)
	}
	return after, untouched
}

func TestGoldenVectorsOfEditSurvival(t *testing.T) {
	t.Parallel()
	dir := samplesOfEditSurvival(t)
	var expected map[string][]struct {
		ARC int `json:"arc"`
	}
	read := func(name string, into any) {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, into))
	}
	read("EXPECTED.json", &expected)
	scores := map[string][]struct{ fourGram, noRevert float64 }{
		// The line that was taken away stays away. Its other hunk, a line break and a word (8 units, 5 four-grams), gets a bullet
		// between the two (10 units, 7 four-grams): the 4 four-grams inside the word are the same, 2·4/(5+7).
		"issue-264048": {{1, 1}, {8. / 12, 1}, {8. / 12, 1}},
		// 7 units, 4 four-grams; its first two letters are others now: 2·2/(4+4).
		"line-insert": {{1, 1}, {2. * 2 / 8, 1}},
		// 6 units, 3 four-grams; a line break inside makes 7 units, 4 four-grams, of which one is the AI's still: 2·1/(3+4).
		"line-modification": {{1, 1}, {2. * 1 / 7, 1}, {0, 1}},
		// 24 units, 21 four-grams; the second line break is gone, and the 4 four-grams that held it: 2·17/(21+20).
		"multiline-insert": {{1, 1}, {2. * 17 / 41, 1}},
	}
	require.Len(t, expected, len(scores))
	for name, want := range expected {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var v survivalVector
			read(name+".edits.json", &v)
			hunks, untouched := v.follow()
			require.Len(t, hunks, len(want))
			require.Len(t, scores[name], len(want))
			for i := range want {
				require.Equal(t, want[i].ARC, untouched[i], "the hunks are those that the vectors mean, after edit %d", i)
				require.InDelta(t, scores[name][i].fourGram, FourGram(hunks[i]), 1e-9, "four-gram after edit %d: %v", i, hunks[i])
				require.InDelta(t, scores[name][i].noRevert, NoRevert(hunks[i]), 1e-9, "no-revert after edit %d: %v", i, hunks[i])
			}
		})
	}
}

func samplesOfEditSurvival(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("MILLRACE_SAMPLES")
	for root, up := ".", 0; dir == "" && up < 6; root, up = filepath.Join(root, ".."), up+1 {
		if _, err := os.Stat(filepath.Join(root, "shared", "samples", "edit-survival")); err == nil {
			dir = filepath.Join(root, "shared", "samples")
		}
	}
	if dir == "" {
		t.Skip("no samples: set MILLRACE_SAMPLES")
	}
	return filepath.Join(dir, "edit-survival")
}

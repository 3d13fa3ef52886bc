package signal

import (
	"slices"
	"unicode/utf16"

	"millrace/schemas/event"
)

// The survival of an edit, as VS Code's Copilot computes it: for each hunk the text before the edit, the text that the
// AI left, and the text now; lengths and four-grams count UTF-16 code units. Each measure is blind where the other
// sees: a wholly deleted insertion reverts nothing, a wholly restored deletion loses none of the AI's text.

// FourGram is the share of the AI's text that is still there, 0…1: Σ len(ai)·dice(now, ai) / Σ len(ai).
// It is 1 if the AI left no text.
func FourGram(hunks []*event.Hunk) float64 {
	var kept, all float64
	for _, h := range hunks {
		t := textsOf(h)
		kept += t.fourGram() * float64(len(t.ai))
		all += float64(len(t.ai))
	}
	return shareOr1(kept, all)
}

// NoRevert is 1 minus the share that went back to the text before, 0…1:
// Σ len(before)·(1 − max(dice(now, before) − dice(ai, before), 0) / (1 − dice(ai, before))) / Σ len(before).
// Hunks in which the AI changed nothing don't count; it is 1 if there was no text before.
func NoRevert(hunks []*event.Hunk) float64 {
	var kept, all float64
	for _, h := range hunks {
		t := textsOf(h)
		if v, ok := t.noRevert(); ok {
			kept += v * float64(len(t.before))
			all += float64(len(t.before))
		}
	}
	return shareOr1(kept, all)
}

// Kept joins both: hunk by hunk the smaller of the two, so that a loss that one is blind for is never averaged away.
// A hunk weighs the longer of its texts before and after the edit, at most limit code units; weight is their sum.
// It is 1 with weight 0 if there is nothing to weigh.
func Kept(hunks []*event.Hunk, limit int) (share float64, weight int) {
	var kept float64
	for _, h := range hunks {
		t := textsOf(h)
		v := 1.
		if len(t.ai) > 0 {
			v = t.fourGram()
		}
		if nr, ok := t.noRevert(); ok && len(t.before) > 0 {
			v = min(v, nr)
		}
		w := min(max(len(t.before), len(t.ai)), limit)
		kept += v * float64(w)
		weight += w
	}
	return shareOr1(kept, float64(weight)), weight
}

func shareOr1(part, whole float64) float64 {
	if whole == 0 {
		return 1
	}
	return part / whole
}

// texts is a hunk in UTF-16.
type texts struct{ before, ai, now []uint16 }

func textsOf(h *event.Hunk) texts {
	return texts{units(h.GetBefore()), units(h.GetAi()), units(h.GetNow())}
}

func (t texts) fourGram() float64 { return dice(t.now, t.ai) }

// noRevert has no value where the AI changed nothing.
func (t texts) noRevert() (float64, bool) {
	same := dice(t.ai, t.before)
	if same == 1 {
		return 0, false
	}
	return 1 - max(dice(t.now, t.before)-same, 0)/(1-same), true
}

func units(s string) []uint16 { return utf16.Encode([]rune(s)) }

// dice is the similarity of two texts, 0…1: Dice's coefficient of their multisets of four-grams. Texts shorter than
// four units are similar only if they are equal.
func dice(a, b []uint16) float64 {
	if len(a) < 4 || len(b) < 4 {
		if slices.Equal(a, b) {
			return 1
		}
		return 0
	}
	counts := make(map[uint64]int, len(a))
	for i := range len(a) - 3 {
		counts[gram(a[i:])]++
	}
	common := 0
	for i := range len(b) - 3 {
		if g := gram(b[i:]); counts[g] > 0 {
			counts[g]--
			common++
		}
	}
	return float64(2*common) / float64(len(a)-3+len(b)-3)
}

func gram(u []uint16) uint64 {
	return uint64(u[0])<<48 | uint64(u[1])<<32 | uint64(u[2])<<16 | uint64(u[3])
}

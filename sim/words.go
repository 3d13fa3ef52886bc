package sim

import (
	"math/rand/v2"
	"strings"
)

// scripts are syllables of several writing systems. The words made of them mean nothing in any language, so that
// nothing downstream can lean on one.
var scripts = [][]string{
	strings.Fields("ba ke li mo nu ra se ti vo zu dar fen gil hom pur"),
	strings.Fields("ба ке ли мо ну ра се ти во зу дар фен гил хом пур"),
	strings.Fields("βα κε λι μο νυ ρα σε τι φο ζη δαρ φεν γιλ χομ πυρ"),
	strings.Fields("가 네 리 모 부 사 제 티 코 허"),
	strings.Fields("山 木 川 石 云 田 月 日 水 火 风 竹"),
	strings.Fields("かに さも とれ ふゆ まり ねこ そら うた ほし"),
	strings.Fields("با كي لو من نا را سي تو وا زو"),
	strings.Fields("का ने लि मो बु रा से ती वो जू"),
}

const wordsPerScript = 256

// vocabulary holds the made-up words of every script.
type vocabulary [][]string

func newVocabulary(r *rand.Rand) vocabulary {
	v := make(vocabulary, len(scripts))
	for i, syllables := range scripts {
		v[i] = make([]string, wordsPerScript)
		for j := range v[i] {
			var b strings.Builder
			for range 2 + r.IntN(2) {
				b.WriteString(syllables[r.IntN(len(syllables))])
			}
			v[i][j] = b.String()
		}
	}
	return v
}

// request draws the words of a request.
func (v vocabulary) request(r *rand.Rand, script, least, most int) []string {
	words := make([]string, least+r.IntN(most-least+1))
	for i := range words {
		words[i] = v[script][r.IntN(wordsPerScript)]
	}
	return words
}

// restate says the same request again with a word or two changed.
func (v vocabulary) restate(r *rand.Rand, script int, words []string) []string {
	again := append([]string(nil), words...)
	if len(again) == 0 {
		return v.request(r, script, 5, 9)
	}
	again[r.IntN(len(again))] = v[script][r.IntN(wordsPerScript)]
	if r.IntN(2) == 0 {
		again = append(again, v[script][r.IntN(wordsPerScript)])
	}
	return again
}

// stackTrace is what a user pastes from a terminal.
func stackTrace(b *strings.Builder, file string, line int64) {
	b.WriteString("\n")
	for i := range int64(3) {
		b.WriteString("    at ")
		b.WriteString(file)
		b.WriteString(" (")
		b.WriteString(file)
		b.WriteString(":")
		writeInt(b, line+7*i)
		b.WriteString(":5)\n")
	}
}

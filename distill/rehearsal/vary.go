package rehearsal

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

// Variation is what may differ between two sessions in which a side is acted out. It is never what a scenario is
// about: both sides of a pair get the same. The zero one acts out what is written.
type Variation struct {
	Tokens     float64 `json:"tokens,omitempty"`     // factor; 0: 1
	Seconds    float64 `json:"seconds,omitempty"`    // factor; 0: 1
	Characters float64 `json:"characters,omitempty"` // factor; 0: 1
	Unknown    bool    `json:"unknown_intent,omitempty"`
	Language   string  `json:"language,omitempty"` // of the repository
	SizeClass  string  `json:"size_class,omitempty"`
	Unit       string  `json:"unit,omitempty"`
	Reads      int     `json:"reads,omitempty"`   // look-ups that the turn begins with
	Before     int     `json:"before,omitempty"`  // turns of the session before it
	After      bool    `json:"after,omitempty"`   // a turn long after it
	Repeats    bool    `json:"repeats,omitempty"` // every third event arrives twice
	Words      int     `json:"words,omitempty"`   // which requests the user writes
}

// requests are what users write, as unlike each other as they are.
var requests = [][]string{
	{"make the parser faster", "why does the build need two minutes?", "rename Invoice to Bill everywhere", "add a dark theme", "the tests are red on main"},
	{"beschleunige bitte den Parser", "wozu dient diese Klasse eigentlich?", "füge Übersetzungen für Österreich hinzu", "räume die Abhängigkeiten auf", "zeig mir den Verlauf"},
	{"パーサーを速くして", "このテストはなぜ失敗しますか", "ログに色を付けて", "設定画面を追加", "依存関係を更新"},
	{"🚀 please", "сделай парсер быстрее", "أضف اختبارا للدالة", "请解释这个函数", "añade una página de ayuda"},
}

var (
	languages = []string{"go", "python", "typescript", "rust", "java", "c++", "ruby", "kotlin", "swift", "elixir"}
	sizes     = []string{"small", "medium", "large"}
)

// Variations draws n of them, the same for the same seed, and the baseline whose strata they lie in: what is much work, a
// long wait or a small edit is another thing in each stratum, and the variations are of its size.
func Variations(seed uint64, n int) ([]Variation, *rewardspec.Baseline) {
	rng := rand.New(rand.NewPCG(seed, 0x6d696c6c72616365))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	b := rewardspec.BaselineV0()
	b.Version = fmt.Sprintf("variations-%d", seed)
	b.Strata = map[string]rewardspec.Stratum{}
	out := make([]Variation, n)
	for i := range out {
		v := Variation{
			Tokens: between(.3, 4), Seconds: between(.3, 4), Characters: between(.6, 6),
			Unknown:  rng.IntN(3) == 0,
			Language: fmt.Sprintf("%s-%d", languages[rng.IntN(len(languages))], i), SizeClass: sizes[rng.IntN(len(sizes))],
			Unit: fmt.Sprintf("unit-%d", rng.IntN(1000)), Reads: rng.IntN(6), Before: rng.IntN(3),
			After: rng.IntN(2) == 0, Repeats: rng.IntN(2) == 0, Words: rng.IntN(len(requests)),
		}
		p := .99
		if rng.IntN(2) == 0 {
			p = between(.7, .99)
		}
		stratum := rewardspec.Stratum{
			PEdit: &p, WallSP95: 300 * v.Seconds * between(.8, 1.25), XRef: 10_000 * v.Tokens * between(.8, 1.25),
			CharsP10: math.Round(20 * v.Characters), Value: between(.1, 1) - .5, Units: 100,
		}
		for _, intent := range []string{"edit", "ask", "debug", "review", "unknown"} {
			b.Strata[fmt.Sprintf("%s/%s/%s/live", intent, v.Language, v.SizeClass)] = stratum
		}
		out[i] = v
	}
	return out, b
}

func (v Variation) tokens(n uint32) uint32     { return scaled(n, v.Tokens) }
func (v Variation) seconds(s float64) float64  { return s * factor(v.Seconds) }
func (v Variation) characters(n uint32) uint32 { return scaled(n, v.Characters) }
func (v Variation) request(i int) string       { return requests[v.Words][i%len(requests[v.Words])] }

func factor(f float64) float64 {
	if f == 0 {
		return 1
	}
	return f
}

// scaled is at least 1 of what there was.
func scaled(n uint32, f float64) uint32 {
	if n == 0 {
		return 0
	}
	return uint32(max(1, math.Floor(float64(n)*factor(f))))
}

// intent is as the backend stamped it, or what it didn't: that an edit is asked for is known from the stratum then.
func (v Variation) intent(i event.Intent) event.Intent {
	if v.Unknown && i == event.Intent_EDIT {
		return event.Intent_INTENT_UNSPECIFIED
	}
	return i
}

func (v Variation) repository() *event.Repository {
	if v.Language == "" {
		return nil
	}
	return &event.Repository{MainLanguage: v.Language, SizeClass: v.SizeClass}
}

// around acts out a side between the other turns of a session.
func (v Variation) around(session string, at time.Time, acts []rewardspec.Act, settling time.Duration) (*Stream, string) {
	s := NewStream(session, cmp.Or(v.Unit, "unit"), at)
	s.repository = v.repository()
	for i := range v.Before {
		s.Start(event.Intent_EDIT, 0, v.request(i+2)).Step(30, 5*time.Second)
		edit := s.Edit(200)
		s.End(event.EndReason_COMPLETED, false).Decide(edit, event.Decision_ACCEPTED).Wait(12*time.Minute).Observe(edit, 600, 1).Wait(time.Hour)
	}
	turn := Play(s, acts, v)
	if v.After {
		s.Wait(settling).Start(event.Intent_ASK, 0, v.request(4)).Step(30, 5*time.Second).End(event.EndReason_COMPLETED, false)
	}
	if v.Repeats {
		s.Events = twice(s.Events)
	}
	return s, turn
}

// twice lets every third event arrive a second time.
func twice(events []*event.SessionEvent) []*event.SessionEvent {
	var out []*event.SessionEvent
	for i, ev := range events {
		out = append(out, ev)
		if i%3 == 0 {
			out = append(out, ev)
		}
	}
	return out
}

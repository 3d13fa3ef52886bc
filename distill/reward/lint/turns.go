package lint

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// always are the signals that every turn has. All others may be missing.
var always = []string{
	"intent.p_edit", "outcome.delivered", "effort.steps",
	"edits.proposed", "edits.shown", "edits.decided", "edits.accepted", "edits.rejected", "edits.applied", "edits.characters",
	"tools.calls", "tools.failed", "tools.repaired", "tools.repeated",
	"tools.execution_failed", "tools.command_timeout", "tools.edit_no_match", "tools.edit_ambiguous", "tools.not_read_yet",
	"tools.unexpected_environment", "tools.user_rejected", "tools.policy_denied",
	"stalling.question", "stalling.questions", "stalling.question_calls", "giving_up.after_failed_lookups",
}

func nullable(name string) bool { return !slices.Contains(always, name) }

// classes are the signals that count malformed calls by class.
var classes = []string{
	"tools.invalid_json", "tools.not_an_object", "tools.unknown_tool", "tools.missing_required",
	"tools.unexpected_property", "tools.wrong_type", "tools.truncated_by_length",
}

// fixed are the signals that the fixed blocks read.
var fixed = []string{
	"outcome.delivered", "intent.p_edit", "edits.characters", "follow_up.polarity", "follow_up.confidence", "tools.invalid", "tools.calls", "effort.steps",
	"effort.thinking_tokens", "effort.tool_argument_tokens", "effort.tool_output_tokens", "effort.final_tokens",
}

// relevant are the signals that a turn's reward depends on, in the order of the registry.
func relevant(spec *rewardspec.Spec) []string {
	var names []string
	for _, d := range ledger.Signals {
		if slices.Contains(fixed, d.Name) || slices.ContainsFunc(spec.Components, func(c rewardspec.Component) bool { return reads(&c, d.Name) }) {
			names = append(names, d.Name)
		}
	}
	return names
}

// What a turn may hold at most, where nothing else bounds it: more than that is no turn that anybody sees.
const (
	mostCounts     = 50
	mostCalls      = 200
	mostInvalid    = 20
	mostQuestions  = 3 // inside a turn, or up to the answer of a chain
	mostCharacters = 20_000
	mostTokens     = 200_000
	mostSeconds    = 7200 // max_turn's default
)

// bounds of a signal, as its definition says.
func bounds(name string) (low, high float64) {
	doc := ledger.Signals[ledger.SignalIndex[name]].Doc
	switch {
	case strings.HasPrefix(doc, "-1"):
		return -1, 1
	case strings.HasPrefix(doc, "0 or 1"), strings.HasPrefix(doc, "0…1"), strings.HasPrefix(name, "edits.retention"):
		return 0, 1
	case name == "edits.characters":
		return 0, mostCharacters
	case name == "tools.calls", name == "effort.steps":
		return 0, mostCalls
	case name == "tools.invalid", slices.Contains(classes, name):
		return 0, mostInvalid
	case strings.HasPrefix(name, "stalling."):
		return 0, mostQuestions
	case strings.HasSuffix(name, "_tokens"):
		return 0, mostTokens
	case strings.HasSuffix(name, "_s"):
		return 0, mostSeconds
	}
	return 0, mostCounts
}

// counted says whether a signal is a number of things: whole, 0 or more, without a bound of its own.
func counted(name string) bool {
	_, high := bounds(name)
	return high > 1
}

func flagged(name string) bool {
	return strings.HasPrefix(ledger.Signals[ledger.SignalIndex[name]].Doc, "0 or 1") || name == "follow_up.polarity"
}

var literal = regexp.MustCompile(`\d+(?:\.\d+)?`)

// boundaries are the values of a signal that are worth trying: its bounds, some between, and those around the numbers
// in the expressions that read it.
func boundaries(name string, spec *rewardspec.Spec) []float64 {
	low, high := bounds(name)
	values := []float64{low, 0, high}
	switch {
	case counted(name):
		values = append(values, 1, 2, 5, 20, 500)
	case !flagged(name):
		values = append(values, .25, .5)
	}
	for i := range spec.Components {
		if c := &spec.Components[i]; reads(c, name) {
			for _, text := range literal.FindAllString(c.Value.Source, 8) {
				if v, err := strconv.ParseFloat(text, 64); err == nil && (counted(name) || !flagged(name)) {
					values = append(values, v)
					if counted(name) {
						values = append(values, v-1, v+1)
					}
				}
			}
		}
	}
	values = slices.DeleteFunc(values, func(v float64) bool {
		return v < low || v > high || (counted(name) && !strings.HasSuffix(name, "_s") && v != math.Trunc(v))
	})
	slices.Sort(values)
	return slices.Compact(values)
}

// turn draws a turn: each signal null, at a border, or between.
func (l *linter) turn(missing bool) reward.Input {
	in := reward.Input{Signals: make([]ledger.Value, len(ledger.Signals)), Stratum: pick(l.random, l.strata)}
	for _, name := range l.signals {
		if missing && nullable(name) && l.random.IntN(3) == 0 {
			continue
		}
		v := pick(l.random, l.values[name])
		if low, high := bounds(name); l.random.IntN(2) == 0 && !flagged(name) {
			v = low + l.random.Float64()*(high-low)
			if counted(name) {
				v = math.Trunc(v)
			}
		}
		set(in, name, v)
	}
	coherent(in)
	return in
}

// coherent takes back what no turn can show: more decided than proposed, more invalid than called, edits applied and
// nothing delivered.
func coherent(in reward.Input) {
	atMost := func(name, than string) {
		if a, b := get(in, name), get(in, than); a.Known && b.Known {
			set(in, name, min(a.Number, b.Number))
		}
	}
	if d := get(in, "outcome.delivered"); d.Known && d.Number == 0 {
		for _, name := range []string{"edits.shown", "edits.decided", "edits.accepted", "edits.rejected", "edits.applied"} {
			if get(in, name).Known {
				set(in, name, 0)
			}
		}
	}
	for _, p := range []struct{ name, than string }{
		{"edits.shown", "edits.proposed"},
		{"edits.decided", "edits.proposed"},
		{"edits.applied", "edits.proposed"},
		{"edits.accepted", "edits.proposed"},
		{"edits.rejected", "edits.proposed"},
		{"edits.accepted", "edits.decided"},
		{"edits.rejected", "edits.decided"},
		{"tools.failed", "tools.calls"},
		{"tools.invalid", "tools.calls"},
	} {
		atMost(p.name, p.than)
	}
	for _, class := range classes {
		atMost(class, "tools.invalid")
	}
	switch polarity, confidence := get(in, "follow_up.polarity"), get(in, "follow_up.confidence"); {
	case polarity.Known && !confidence.Known:
		set(in, "follow_up.confidence", 1)
	case confidence.Known && !polarity.Known:
		in.Signals[ledger.SignalIndex["follow_up.confidence"]] = ledger.Value{}
	}
}

func get(in reward.Input, name string) ledger.Value { return in.Signals[ledger.SignalIndex[name]] }

func set(in reward.Input, name string, v float64) {
	in.Signals[ledger.SignalIndex[name]] = ledger.Of(v)
}

// copied is a turn that can be changed without changing the other.
func copied(in reward.Input) reward.Input {
	in.Signals = slices.Clone(in.Signals)
	if in.Chain != nil {
		chain := *in.Chain
		in.Chain = &chain
	}
	return in
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// told are the known signals of a turn among those named, and how it ended, in words.
func told(in reward.Input, names []string) string {
	var parts []string
	for _, name := range names {
		if v := get(in, name); v.Known {
			parts = append(parts, name+" = "+number(v.Number))
		}
	}
	switch c := in.Chain; {
	case c == nil:
	case !c.Answered:
		parts = append(parts, "a question that nobody answered")
	default:
		parts = append(parts, "a question, "+plural(c.QuestionsToAnswer, "question")+" up to the answer")
	}
	if in.QuestionCalls > 0 {
		parts = append(parts, plural(in.QuestionCalls, "call")+" of a question tool")
	}
	return strings.Join(parts, ", ")
}

// number is a number as people write it.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64) }

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

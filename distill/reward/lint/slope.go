package lint

import (
	"fmt"
	"slices"
	"strings"

	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// faults are what no turn may be paid for.
var faults = append([]string{
	"tools.invalid", "tools.repaired", "tools.failed", "tools.repeated", "tools.serial_could_be_parallel",
	"care.checks_broken", "care.tests_weakened", "care.unfinished_todos", "edits.rejected", "edits.unread_files",
	"tools.execution_failed", "tools.command_timeout", "tools.edit_no_match", "tools.edit_ambiguous", "tools.not_read_yet",
	"tools.unexpected_environment", "tools.user_rejected", "tools.policy_denied", "care.conventions_broken",
	"follow_up.undone", "follow_up.restored", "follow_up.retried", "follow_up.interrupted", "follow_up.refused_with_text", "follow_up.pasted_trace",
	"follow_up.rephrase_similarity",
	"stalling.question", "giving_up.after_failed_lookups", "outcome.aborted",
}, classes...)

// merits are what no turn may be punished for.
var merits = []string{
	"follow_up.polarity", "explicit.thumb", "outcome.delivered", "care.checks_fixed", "care.conventions_fixed", "care.verified_after_edit",
	"care.evidence_before_claim", "stalling.answered",
	"edits.retention", "edits.retention_four_gram_30s", "edits.retention_four_gram_120s", "edits.retention_four_gram_300s", "edits.retention_four_gram_600s",
	"edits.retention_no_revert_30s", "edits.retention_no_revert_120s", "edits.retention_no_revert_300s", "edits.retention_no_revert_600s",
}

func merit(name string) bool { return slices.Contains(merits, name) }

// neutral are neither by themselves: how much there was of something, how sure somebody is, what was asked for.
var neutral = []string{
	"edits.proposed", "edits.shown", "edits.decided", "edits.accepted", "edits.applied", "edits.characters", "follow_up.confidence", "follow_up.agrees_with_thumb",
	"tools.calls", "tools.parallel_share", "tools.terminal_share", "effort.steps", "effort.thinking_tokens", "effort.tool_argument_tokens",
	"effort.tool_output_tokens", "effort.final_tokens", "effort.model_s", "effort.wall_s", "effort.time_to_first_token_s",
	"stalling.questions", "stalling.question_calls", "intent.p_edit",
}

// free says whether more of it costs the agent nothing but tokens.
func free(name string) bool {
	group, _, _ := strings.Cut(name, ".")
	ofWork := slices.Contains([]string{"tools", "effort", "stalling"}, group) || name == "edits.characters"
	return ofWork && (counted(name) || strings.HasSuffix(name, "_share"))
}

// splittable are the counts that grow together where one edit is split in many.
var splittable = []string{"edits.proposed", "edits.shown", "edits.decided", "edits.accepted", "edits.rejected", "edits.applied"}

const (
	slopeTurns = 200
	tolerance  = 1e-9 // below it, a difference of rewards is one of rounding
)

// slopes tries how the sum of the components moves with each signal that they read.
func (l *linter) slopes() {
	for _, name := range l.signals {
		if !slices.ContainsFunc(l.spec.Components, func(c rewardspec.Component) bool { return reads(&c, name) }) {
			continue
		}
		said := map[string]bool{}
		for range slopeTurns {
			low := l.turn(true)
			a, b := pick(l.random, l.values[name]), pick(l.random, l.values[name])
			if a == b {
				continue
			}
			set(low, name, min(a, b))
			high := copied(low)
			set(high, name, max(a, b))
			l.slope(name, low, high, said)
		}
	}
	l.split()
}

func (l *linter) slope(name string, low, high reward.Input, said map[string]bool) {
	change, up, down := l.change(low, high)
	if up != nil || down != nil {
		l.moves[name] = true
	}
	from, to := get(low, name).Number, get(high, name).Number
	switch {
	case change > tolerance && slices.Contains(faults, name) && !said[up.Name]:
		said[up.Name] = true
		l.add(Finding{
			Error, TurnedRound, up.Line,
			fmt.Sprintf("component %q pays for a fault: %s from %s to %s earns %s%s", up.Name, name, number(from), number(to), earned(change), l.where(up, low, name)),
			"turn the sign, or leave " + name + " out",
		})
	case change < -tolerance && merit(name) && !said[down.Name]:
		said[down.Name] = true
		l.add(Finding{
			Error, TurnedRound, down.Line,
			fmt.Sprintf("component %q punishes a success: %s from %s to %s earns %s%s", down.Name, name, number(from), number(to), earned(change), l.where(down, low, name)),
			"turn the sign, so that more of " + name + " never earns less",
		})
	case change > tolerance && free(name) && !slices.Contains(faults, name) && !said[up.Name]:
		said[up.Name] = true
		l.add(Finding{
			Error, PaidPerCount, up.Line,
			fmt.Sprintf("component %q pays for %s, of which an agent can have as much as it likes: from %s to %s earns %s%s", up.Name, name, number(from), number(to), earned(change), l.where(up, low, name)),
			"pay for what came of it instead; a waste is priced by a negative term, for instance -0.02 * min(x, 5)",
		})
	}
}

// split tries whether the same work earns more as many edits.
func (l *linter) split() {
	var counts []string
	for _, name := range splittable {
		if slices.Contains(l.signals, name) {
			counts = append(counts, name)
		}
	}
	said := map[string]bool{}
	for try := range slopeTurns {
		if len(counts) == 0 {
			return
		}
		one := l.turn(true)
		for _, name := range counts {
			set(one, name, float64(l.random.IntN(4)))
		}
		coherent(one)
		many, times := copied(one), float64(2+3*(try%2))
		for _, name := range counts {
			set(many, name, times*get(one, name).Number)
		}
		change, up, _ := l.change(one, many)
		if change <= tolerance || said[up.Name] {
			continue
		}
		said[up.Name] = true
		l.add(Finding{
			Error, PaidPerCount, up.Line,
			fmt.Sprintf("component %q pays per edit: the same work split in %.0f times as many edits earns %s%s", up.Name, times, earned(change), l.where(up, one, "")),
			"pay for what is left of the edits (edits.retention weighs them by characters), or for a share such as edits.accepted / max(edits.proposed, 1)",
		})
	}
}

// change is what the components' sum gains from one turn to the other, with those that gained and lost the most; nil
// if none did. Components that are null in one of the two are left out: divisions by zero are found elsewhere.
func (l *linter) change(from, to reward.Input) (sum float64, up, down *rewardspec.Component) {
	most, least := 0., 0.
	for i := range l.spec.Components {
		c := &l.spec.Components[i]
		a, b := l.of(c, from), l.of(c, to)
		if !a.Known || !b.Known {
			continue
		}
		d := b.Number - a.Number
		sum += d
		if d > most {
			most, up = d, c
		}
		if d < least {
			least, down = d, c
		}
	}
	return sum, up, down
}

// earned is a difference of rewards; it may be a small one.
func earned(v float64) string { return fmt.Sprintf("%+.3g", v) }

// where are the other signals that a component reads, as they stood when it was caught.
func (l *linter) where(c *rewardspec.Component, in reward.Input, but string) string {
	names := slices.DeleteFunc(slices.Clone(c.Value.Signals), func(n string) bool { return n == but })
	if len(names) == 0 {
		return ""
	}
	return " (at " + told(in, names) + ")"
}

// unread finds evidence that nothing depends on: to write 0 * x is to leave x out.
func (l *linter) unread() {
	for _, kind := range []struct {
		level              Level
		code, signals      string
		message, component string
	}{
		{Error, RetentionUnread, "edits.retention", "what became of an edit counts nowhere; turns whose only evidence it is would go unrewarded", `{name: retention, value: "0.7 * (1.5 * edits.retention - 0.5)"}`},
		{Warning, FollowUpUnread, "follow_up.polarity", "what the user says next counts nowhere: a complaint costs nothing", `{name: follow_up, value: "0.3 * follow_up.polarity * follow_up.confidence"}`},
		{Warning, ThumbUnread, "explicit.thumb", "the user's rating counts nowhere", `{name: thumb, value: "0.5 * explicit.thumb"}`},
		{Warning, ChecksUnread, "care.checks_broken", "to break the build costs nothing, as long as the edit is kept", `{name: checks, value: "-0.5 * care.checks_broken"}`},
		{Warning, TestsUnread, "care.tests_weakened", "to delete the failing test costs nothing", `{name: tests, value: "-0.8 * care.tests_weakened"}`},
	} {
		if slices.ContainsFunc(sorted(l.moves), func(n string) bool { return strings.HasPrefix(n, kind.signals) }) {
			continue
		}
		l.add(Finding{
			kind.level, kind.code, l.line("components"),
			fmt.Sprintf("no component depends on %s: %s", kind.signals, kind.message), "add for instance " + kind.component,
		})
	}
}

// blind tries whether outcomes that users tell apart earn the same, whatever else is the case.
func (l *linter) blind() {
	for _, o := range []struct {
		name   string
		values []float64
	}{
		{"edits.retention", []float64{0, .5, 1}}, {"follow_up.polarity", []float64{-1, 0, 1}}, {"explicit.thumb", []float64{-1, 0, 1}},
	} {
		i := slices.IndexFunc(l.spec.Components, func(c rewardspec.Component) bool { return reads(&c, o.name) })
		if i < 0 || !l.moves[o.name] {
			continue // said already: nothing depends on it
		}
		for v := range len(o.values) - 1 {
			if l.alike(o.name, o.values[v], o.values[v+1]) {
				l.add(Finding{
					Warning, BlindToOutcome, l.spec.Components[i].Line,
					fmt.Sprintf("%s = %s earns what %s does, in every turn that was tried", o.name, number(o.values[v]), number(o.values[v+1])),
					"let a component rise from one to the other",
				})
				break
			}
		}
	}
}

// alike says whether two values of a signal make no difference.
func (l *linter) alike(name string, a, b float64) bool {
	for range slopeTurns / 4 {
		one := l.turn(false)
		set(one, name, a)
		if name == "follow_up.polarity" {
			set(one, "follow_up.confidence", 1)
		}
		other := copied(one)
		set(other, name, b)
		if _, up, down := l.change(one, other); up != nil || down != nil {
			return false
		}
	}
	return true
}

// work tries whether the same thinking is cheaper elsewhere, and whether work has a price at all.
func (l *linter) work() {
	w := l.spec.Effort.Weights
	if l.spec.Has(rewardspec.EffortBlock) && w == (rewardspec.EffortWeights{}) {
		l.add(Finding{
			Warning, EffortFree, l.line(rewardspec.EffortBlock), "effort.weights are all 0: to loop until the limit costs nothing",
			"give them values above 0",
		})
	}
	for _, into := range []string{"effort.tool_argument_tokens", "effort.final_tokens"} {
		if into == "effort.tool_argument_tokens" && w.ToolArgumentTokens < w.ThinkingTokens {
			continue // said already, by the document's own reading
		}
		l.hiding(into)
	}
}

func (l *linter) hiding(into string) {
	const thinking = "effort.thinking_tokens"
	for range slopeTurns {
		open := l.turn(false)
		set(open, thinking, 2000)
		set(open, into, 100)
		hidden := copied(open)
		set(hidden, thinking, 500)
		set(hidden, into, 1600)
		before, after := l.open.Score(open).Components, l.open.Score(hidden).Components
		gain := total(after) - total(before)
		if gain <= tolerance {
			continue
		}
		name, line := l.culprit(before, after, rewardspec.EffortBlock)
		l.add(Finding{
			Error, WorkHidden, line,
			fmt.Sprintf("1500 tokens of thinking moved into %s earn %s (by %s): reasoning would move there", strings.TrimPrefix(into, "effort."), earned(gain), name),
			"let no component price thinking alone, and weigh it in effort.weights no more than " + strings.TrimPrefix(into, "effort."),
		})
		return
	}
}

func total(components []ledger.Component) float64 {
	sum := 0.
	for _, c := range components {
		if c.Value.Known {
			sum += c.Value.Number
		}
	}
	return sum
}

// culprit is the component that gained the most from one scoring to the other, and its line; the block that is named
// if none did.
func (l *linter) culprit(before, after []ledger.Component, block string) (name string, line int) {
	was := map[string]float64{}
	for _, c := range before {
		was[c.Name] = c.Value.Number // null counts nothing
	}
	name, most := block, tolerance
	for _, c := range after {
		if gain := c.Value.Number - was[c.Name]; gain > most {
			name, most = c.Name, gain
		}
		delete(was, c.Name)
	}
	for _, gone := range sorted(was) { // a fixed block that no longer applies
		if -was[gone] > most {
			name, most = gone, -was[gone]
		}
	}
	return name, l.lineOf(name)
}

// lineOf is where a component or a block stands.
func (l *linter) lineOf(name string) int {
	for i := range l.spec.Components {
		if l.spec.Components[i].Name == name {
			return l.spec.Components[i].Line
		}
	}
	return l.line(name)
}

package rewardspec

import (
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"millrace/schemas/event"
)

const (
	maxWait   = 24 * time.Hour
	maxRepeat = 1000
)

// What the words of an act may be: the names of the events' own values, in small letters.
var (
	intents   = []string{"edit", "ask", "debug", "review", "unknown"}
	relations = []string{"new", "retry", "undo", "restore"}
	decisions = []string{"accepted", "rejected", "partly"}
	deciders  = []string{"user", "auto_accept", "hook", "config", "abort"}
	checks    = []string{"test", "lint", "build", "format"}
	reasons   = []string{"completed", "aborted_by_user", "length", "provider_failed", "harness_failed"}
	infra     = []string{"outage", "restart", "refused", "crash"}
	stubs     = []string{"turn_started", "step_completed", "tool_called", "tool_returned", "edit_proposed", "edit_decided", "edit_observed", "turn_ended"}
	classes   = words(event.FollowUpClass_name)
	outcomes  = append(words(event.ToolOutcome_name), "never")
)

// words are an enum's values but its zero.
func words(names map[int32]string) []string {
	var list []string
	for number, name := range names {
		if number != 0 {
			list = append(list, strings.ToLower(name))
		}
	}
	slices.Sort(list)
	return list
}

var kinds = []string{"start", "step", "call", "edit", "decide", "observe", "checks", "judge", "thumb", "end", "wait", "stub", "infrastructure", "repeat", "use"}

// acts reads the name of a behaviour, or a list of acts, each a mapping with one key that says what it is.
func (d *scenarioReader) acts(n *yaml.Node, path string) []Act {
	if n.Kind == yaml.ScalarNode {
		return d.use(n, path)
	}
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "%s: expected the name of a behaviour, or a list of acts", path)
		return nil
	}
	var list []Act
	for _, item := range n.Content {
		if item.Kind != yaml.MappingNode || len(item.Content) != 2 {
			d.fail(item, "%s: expected one act, for instance {step: {tokens: 200, seconds: 5}}", path)
			continue
		}
		key, body := item.Content[0], item.Content[1]
		if key.Value == "use" {
			list = append(list, d.use(body, path)...)
			continue
		}
		list = append(list, d.act(key, body))
	}
	return list
}

func (d *scenarioReader) act(key, n *yaml.Node) Act {
	a := Act{Line: key.Line}
	switch key.Value {
	case "start":
		f := d.fields(n, "start", nil, []string{"intent", "relation", "text", "command", "stack_trace"})
		a.Start = &StartAct{
			Intent:   event.Intent(event.Intent_value[d.word(f["intent"], "intent", intents, "unknown")]),
			Relation: event.Relation(event.Relation_value[d.word(f["relation"], "relation", relations, "new")]),
			Text:     d.text(f["text"], "text"), Command: d.yes(f["command"], "command", false),
			StackTrace: d.yes(f["stack_trace"], "stack_trace", false),
		}
	case "step":
		f := d.fields(n, "step", nil, []string{"tokens", "thinking", "arguments", "seconds", "stop"})
		a.Step = &StepAct{
			Tokens: d.amount(f["tokens"], "tokens"), Thinking: d.amount(f["thinking"], "thinking"),
			Arguments: d.amount(f["arguments"], "arguments"), Stop: "stop",
			Seconds: d.number(f["seconds"], "seconds", "0 or more, at most a day", upToADay),
		}
		if f["stop"] != nil {
			a.Step.Stop = d.choice(f["stop"], "stop", []string{"stop", "tool_calls", "length", "aborted", "error"})
		}
	case "call":
		a.Call = d.call(n)
	case "edit":
		f := d.fields(n, "edit", []string{"characters"}, []string{"removed", "shown", "applied", "tests_removed"})
		a.Edit = &EditAct{
			Characters: d.amount(f["characters"], "characters"), Removed: d.amount(f["removed"], "removed"),
			Shown: d.yes(f["shown"], "shown", true), Applied: d.yes(f["applied"], "applied", false), TestsRemoved: d.maybe(f["tests_removed"], "tests_removed"),
		}
	case "decide":
		f := d.fields(n, "decide", []string{"as"}, []string{"edit", "by", "with_text"})
		a.Decide = &DecideAct{
			Edit: d.ordinal(f["edit"]), As: event.Decision(event.Decision_value[d.word(f["as"], "as", decisions, "")]),
			By:       event.DecisionSource(event.DecisionSource_value[d.word(f["by"], "by", deciders, "user")]),
			WithText: d.yes(f["with_text"], "with_text", false),
		}
	case "observe":
		f := d.fields(n, "observe", []string{"after_s", "kept"}, []string{"edit"})
		a.Observe = &ObserveAct{Edit: d.ordinal(f["edit"]), AfterS: d.numbers(f["after_s"], "after_s"), Kept: d.number(f["kept"], "kept", "from 0 to 1", share)}
	case "checks":
		f := d.fields(n, "checks", nil, []string{"kind", "before", "after", "by_user"})
		a.Checks = &ChecksAct{
			Kind:   event.CheckKind(event.CheckKind_value[d.word(f["kind"], "kind", checks, "test")]),
			Before: d.maybe(f["before"], "before"), After: d.maybe(f["after"], "after"), ByUser: d.yes(f["by_user"], "by_user", false),
		}
	case "judge":
		f := d.fields(n, "judge", []string{"class", "polarity"}, []string{"confidence"})
		a.Judge = &JudgeAct{
			Class:    event.FollowUpClass(event.FollowUpClass_value[d.word(f["class"], "class", classes, "")]),
			Polarity: d.number(f["polarity"], "polarity", "from -1 to 1", signed), Confidence: 1,
		}
		if f["confidence"] != nil {
			a.Judge.Confidence = d.number(f["confidence"], "confidence", "from 0 to 1", share)
		}
	case "thumb":
		v := d.number(n, "thumb", "from -1 to 1", signed)
		a.Thumb = &v
	case "end":
		f := d.fields(n, "end", nil, []string{"reason", "asks", "offers", "todos"})
		a.End = &EndAct{
			Reason: event.EndReason(event.EndReason_value[d.word(f["reason"], "reason", reasons, "completed")]),
			Asks:   d.yes(f["asks"], "asks", false), Offers: d.yes(f["offers"], "offers", false), Todos: d.maybe(f["todos"], "todos"),
		}
	case "wait":
		a.Wait = d.duration(n, "wait", maxWait)
	case "stub":
		a.Stub = d.choice(n, "stub", stubs)
	case "infrastructure":
		a.Infra = event.InfrastructureStatus(event.InfrastructureStatus_value[d.word(n, "infrastructure", infra, "")])
	case "repeat":
		f := d.fields(n, "repeat", []string{"times", "acts"}, nil)
		a.Repeat = &RepeatAct{}
		if f["times"] != nil && f["acts"] != nil {
			a.Repeat.Times = min(d.whole(f["times"], "times", 1), maxRepeat)
			a.Repeat.Acts = d.acts(f["acts"], "repeat")
		}
	default:
		d.fail(key, "unknown act %q; there are %s", key.Value, strings.Join(kinds, ", "))
	}
	return a
}

func (d *scenarioReader) call(n *yaml.Node) *CallAct {
	f := d.fields(n, "call", []string{"tool", "arguments"}, []string{"outcome", "output_tokens", "repaired", "group"})
	c := &CallAct{
		Tool: d.text(f["tool"], "tool"), Arguments: d.text(f["arguments"], "arguments"), OutputTokens: 20,
		Repaired: d.yes(f["repaired"], "repaired", false),
		Group:    d.text(f["group"], "group"),
	}
	c.Outcome = event.ToolOutcome(event.ToolOutcome_value[d.word(f["outcome"], "outcome", outcomes, "ok")])
	if f["output_tokens"] != nil {
		c.OutputTokens = d.amount(f["output_tokens"], "output_tokens")
	}
	return c
}

// choice is one of a few words.
func (d *document) choice(n *yaml.Node, path string, of []string) string {
	s := d.text(n, path)
	if s != "" && !slices.Contains(of, s) {
		d.fail(n, "%s%q is not known; there are %s", prefix(path), s, strings.Join(of, ", "))
	}
	return s
}

// word is a choice in the spelling of the events; empty ones are the fallback.
func (d *document) word(n *yaml.Node, path string, of []string, fallback string) string {
	if n == nil {
		return strings.ToUpper(fallback)
	}
	return strings.ToUpper(d.choice(n, path, of))
}

func (d *document) yes(n *yaml.Node, path string, fallback bool) bool {
	if n == nil {
		return fallback
	}
	var v bool
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&v) != nil {
		d.fail(n, "%sexpected true or false, got %q", prefix(path), n.Value)
	}
	return v
}

// amount is a count of tokens, characters or failures.
func (d *document) amount(n *yaml.Node, path string) uint32 {
	if n == nil {
		return 0
	}
	return uint32(max(0, d.whole(n, path, 0)))
}

func (d *document) maybe(n *yaml.Node, path string) *uint32 {
	if n == nil {
		return nil
	}
	v := d.amount(n, path)
	return &v
}

// ordinal is which edit is meant, from 1; 0, the last, where none is named; or all.
func (d *document) ordinal(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	if n.Value == "all" {
		return AllEdits
	}
	return d.whole(n, "edit", 1)
}

// numbers is one number of seconds, or a list of them.
func (d *document) numbers(n *yaml.Node, path string) []float64 {
	if n == nil {
		return nil
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var list []float64
	for _, item := range items {
		list = append(list, d.number(item, path, "0 or more, at most a day", upToADay))
	}
	return list
}

func signed(v float64) bool   { return v >= -1 && v <= 1 }
func upToADay(v float64) bool { return v >= 0 && v <= maxWait.Seconds() }

package signal

import (
	"strings"

	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// Invalid says whether an outcome is the model's own malformed call.
func Invalid(o event.ToolOutcome) bool {
	return o >= event.ToolOutcome_INVALID_JSON && o <= event.ToolOutcome_TRUNCATED_BY_LENGTH
}

// Failed says whether a valid call failed.
func Failed(r *event.ToolReturned) bool {
	o := r.GetOutcome()
	return o >= event.ToolOutcome_EXECUTION_FAILED && o <= event.ToolOutcome_UNEXPECTED_ENVIRONMENT
}

// excused are results that say from outside why the arguments were cut: such a call is never malformed.
func excused(r *event.ToolReturned) bool {
	switch r.GetOutcome() {
	case event.ToolOutcome_USER_ABORTED, event.ToolOutcome_TRUNCATED_BY_TRANSPORT, event.ToolOutcome_SIBLING_FAILED,
		event.ToolOutcome_USER_REJECTED, event.ToolOutcome_POLICY_DENIED:
		return true
	}
	return false
}

// CallClass is the class of one call: the pipeline's own verdict on the raw arguments, and the harness's only
// where there is no schema. OK if it is well-formed, UNSPECIFIED if nobody knows.
func CallClass(f *turn.Facts, c *turn.Call, tools *ToolSchemas) event.ToolOutcome {
	if excused(c.Returned) {
		return event.ToolOutcome_OK
	}
	if f.Privacy <= event.Privacy_FULL && tools != nil {
		if class := tools.Classify(c.GetTool(), c.Raw(), cutByLength(f, c)); class != event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED {
			return class
		}
	}
	if c.HarnessValidation != nil {
		return c.GetHarnessValidation()
	}
	if o := c.Returned.GetOutcome(); Invalid(o) {
		return o
	}
	return event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED
}

func cutByLength(f *turn.Facts, c *turn.Call) bool {
	for _, s := range f.Steps {
		if s.GetStep() == c.GetStep() {
			return s.GetStopReason() == "length"
		}
	}
	return false
}

// MalformedSteps are the steps that issued a malformed (or silently repaired) call: each takes its own blame.
func MalformedSteps(f *turn.Facts, tools *ToolSchemas) map[uint32]bool {
	steps := map[uint32]bool{}
	for i := range f.Calls {
		if c := &f.Calls[i]; c.GetRepaired() || Invalid(CallClass(f, c, tools)) {
			steps[c.GetStep()] = true
		}
	}
	return steps
}

var classSignal = map[event.ToolOutcome]string{
	event.ToolOutcome_INVALID_JSON:          "tools.invalid_json",
	event.ToolOutcome_NOT_AN_OBJECT:         "tools.not_an_object",
	event.ToolOutcome_UNKNOWN_TOOL:          "tools.unknown_tool",
	event.ToolOutcome_MISSING_REQUIRED:      "tools.missing_required",
	event.ToolOutcome_UNEXPECTED_PROPERTY:   "tools.unexpected_property",
	event.ToolOutcome_WRONG_TYPE:            "tools.wrong_type",
	event.ToolOutcome_STRINGIFIED_CONTAINER: "tools.wrong_type",
	event.ToolOutcome_TRUNCATED_BY_LENGTH:   "tools.truncated_by_length",
}

func toolSignals(v Vector, f *turn.Facts, tools *ToolSchemas) {
	counts := map[string]float64{}
	var invalid, repaired, failed, terminal, parallel float64
	known := len(f.Calls) == 0
	groups := map[string]int{}
	for i := range f.Calls {
		if g := f.Calls[i].GetParallelGroup(); g != "" {
			groups[g]++
		}
	}
	for i := range f.Calls {
		c := &f.Calls[i]
		class := CallClass(f, c, tools)
		known = known || class != event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED || c.GetRepaired()
		if Invalid(class) {
			counts[classSignal[class]]++
		}
		if c.GetRepaired() {
			repaired++
		}
		if c.GetRepaired() || Invalid(class) {
			invalid++
		}
		if Failed(c.Returned) {
			failed++
		}
		if c.GetKind() == event.ToolKind_TERMINAL {
			terminal++
		}
		if groups[c.GetParallelGroup()] > 1 {
			parallel++
		}
	}
	calls := float64(len(f.Calls))
	v.Set("tools.calls", ledger.Of(calls))
	v.Set("tools.failed", ledger.Of(failed))
	v.Set("tools.repaired", ledger.Of(repaired))
	v.Set("tools.repeated", ledger.Of(float64(repeatedCalls(f))))
	v.Set("tools.serial_could_be_parallel", serialCalls(f))
	if known {
		v.Set("tools.invalid", ledger.Of(invalid))
		for _, name := range classSignal {
			v.Set(name, ledger.Of(counts[name]))
		}
	}
	if calls > 0 {
		v.Set("tools.parallel_share", ledger.Of(parallel/calls))
		v.Set("tools.terminal_share", ledger.Of(terminal/calls))
	}
}

// repeatedCalls counts calls with the tool and arguments of an earlier one, with no edit and no terminal
// command between them that could have changed the answer.
func repeatedCalls(f *turn.Facts) int {
	seen := map[string]bool{}
	n := 0
	for i := range f.Calls {
		c := &f.Calls[i]
		id := c.GetTool() + "\x00" + string(c.Raw())
		if seen[id] {
			n++
		}
		if kind := c.GetKind(); kind == event.ToolKind_EDIT_FILE || (kind == event.ToolKind_TERMINAL && !seen[id]) {
			clear(seen)
		}
		seen[id] = true
	}
	return n
}

// serialCalls counts single read-only calls that followed another one and did not use its output. Null where
// no output was seen: whether they depended on each other is not known then.
func serialCalls(f *turn.Facts) ledger.Value {
	perStep := map[uint32]int{}
	for i := range f.Calls {
		perStep[f.Calls[i].GetStep()]++
	}
	n, known := 0.0, len(f.Calls) < 2
	for i := 1; i < len(f.Calls); i++ {
		a, b := &f.Calls[i-1], &f.Calls[i]
		if !readOnly(a) || !readOnly(b) {
			known = true
			continue
		}
		if perStep[a.GetStep()] != 1 || perStep[b.GetStep()] != 1 {
			known = true
			continue
		}
		output := a.Returned.GetOutput()
		if output == "" {
			continue
		}
		known = true
		if !dependsOn(b, output) {
			n++
		}
	}
	if !known {
		return ledger.Value{}
	}
	return ledger.Of(n)
}

func readOnly(c *turn.Call) bool {
	return c.GetKind() == event.ToolKind_READ || c.GetKind() == event.ToolKind_SEARCH
}

// dependsOn says whether a string of the call's arguments stands in an earlier output (whole, or its last path
// element): then the call could not have been made beside it.
func dependsOn(c *turn.Call, output string) bool {
	for _, s := range argumentStrings(c.Raw()) {
		if len(s) >= 3 && strings.Contains(output, s) {
			return true
		}
		if i := strings.LastIndexByte(s, '/'); i >= 0 && len(s)-i > 3 && strings.Contains(output, s[i+1:]) {
			return true
		}
	}
	return false
}

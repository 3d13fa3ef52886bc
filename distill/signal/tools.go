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

// cutFromOutside says whether the arguments may have been cut by something other than the model: then that they are
// incomplete is not its fault. A refusal, or a sibling that failed, cuts nothing.
func cutFromOutside(r *event.ToolReturned) bool {
	o := r.GetOutcome()
	return o == event.ToolOutcome_USER_ABORTED || o == event.ToolOutcome_TRUNCATED_BY_TRANSPORT
}

// CallClass is the class of one call: the pipeline's own verdict on the raw arguments, and the harness's only
// where there is no schema. OK if it is well-formed, UNSPECIFIED if nobody knows.
func CallClass(f *turn.Facts, c *turn.Call, tools *ToolSchemas) event.ToolOutcome {
	if raw, sent := c.Raw(); sent && f.Privacy <= event.Privacy_FULL && tools != nil {
		class := tools.Classify(c.GetTool(), raw, cutByLength(f, c))
		cut := class == event.ToolOutcome_INVALID_JSON || class == event.ToolOutcome_TRUNCATED_BY_LENGTH || EmptyArguments(raw)
		if cut && cutFromOutside(c.Returned) {
			return event.ToolOutcome_OK
		}
		if class != event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED {
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

// outcomeSignal counts valid calls by what became of them. The first six are the failed ones, of which tools.failed is
// the sum; what the user or a rule stopped has not failed.
var outcomeSignal = map[event.ToolOutcome]string{
	event.ToolOutcome_EXECUTION_FAILED:       "tools.execution_failed",
	event.ToolOutcome_COMMAND_TIMEOUT:        "tools.command_timeout",
	event.ToolOutcome_EDIT_NO_MATCH:          "tools.edit_no_match",
	event.ToolOutcome_EDIT_AMBIGUOUS:         "tools.edit_ambiguous",
	event.ToolOutcome_NOT_READ_YET:           "tools.not_read_yet",
	event.ToolOutcome_UNEXPECTED_ENVIRONMENT: "tools.unexpected_environment",
	event.ToolOutcome_USER_REJECTED:          "tools.user_rejected",
	event.ToolOutcome_POLICY_DENIED:          "tools.policy_denied",
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
		if name, ok := outcomeSignal[c.Returned.GetOutcome()]; ok {
			counts[name]++
		}
		if c.GetKind() == event.ToolKind_TERMINAL {
			terminal++
		}
		if groups[c.GetParallelGroup()] > 1 {
			parallel++
		}
	}
	calls := float64(len(f.Calls))
	v.Set("tools.calls", ledger.Of(calls+float64(f.Stubs["tool_called"])))
	v.Set("tools.failed", ledger.Of(failed))
	for _, name := range outcomeSignal {
		v.Set(name, ledger.Of(counts[name]))
	}
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

// repeatedCalls counts calls with the tool and arguments of an earlier one, with nothing between them that could have
// changed the answer: an edit that went through, a new terminal command, or a tool of which nobody says what it does.
func repeatedCalls(f *turn.Facts) int {
	seen := map[string]bool{}
	n := 0
	for i := range f.Calls {
		c := &f.Calls[i]
		raw, sent := c.Raw()
		if !sent {
			continue
		}
		id := c.GetTool() + "\x00" + string(raw)
		if seen[id] {
			n++
		}
		if changes(c) && (!seen[id] || c.GetKind() == event.ToolKind_EDIT_FILE) { // a command polled again changes nothing
			clear(seen)
		}
		seen[id] = true
	}
	return n
}

// changes says whether a call may have changed what others see.
func changes(c *turn.Call) bool {
	switch c.GetKind() {
	case event.ToolKind_READ, event.ToolKind_SEARCH, event.ToolKind_QUESTION:
		return false
	case event.ToolKind_EDIT_FILE:
		return !Failed(c.Returned) && !Invalid(c.Returned.GetOutcome())
	}
	return true
}

// serialCalls counts single read-only calls that followed another one and did not use its output. Null if there were
// such calls and no output was seen: whether they depended on each other is not known then.
func serialCalls(f *turn.Facts) ledger.Value {
	perStep := map[uint32]int{}
	for i := range f.Calls {
		perStep[f.Calls[i].GetStep()]++
	}
	n, pairs, seen := 0.0, 0, 0
	for i := 1; i < len(f.Calls); i++ {
		a, b := &f.Calls[i-1], &f.Calls[i]
		if !readOnly(a) || !readOnly(b) || perStep[a.GetStep()] != 1 || perStep[b.GetStep()] != 1 {
			continue
		}
		pairs++
		if !outputSeen(a) {
			continue
		}
		seen++
		if !Failed(a.Returned) && !dependsOn(b, a) { // who looks elsewhere after a failure depends on it
			n++
		}
	}
	if pairs > 0 && seen == 0 {
		return ledger.Value{}
	}
	return ledger.Of(n)
}

// outputSeen says whether it is known what a call returned: its text, or that there was none.
func outputSeen(c *turn.Call) bool {
	r := c.Returned
	return r.GetOutput() != "" || (r.GetOutputBytes() == 0 && r != nil && r.OutputBytes != nil) || Failed(r)
}

func readOnly(c *turn.Call) bool {
	return c.GetKind() == event.ToolKind_READ || c.GetKind() == event.ToolKind_SEARCH
}

// dependsOn says whether a string of the call's arguments stands in the output of the one before it (whole, or its last path
// element), and not in that one's own arguments, by which it was known: then it could not have been made beside it.
func dependsOn(c, before *turn.Call) bool {
	raw, _ := c.Raw()
	known, _ := before.Raw()
	asked := strings.Join(argumentStrings(known), "\n")
	told := func(s string) bool {
		return strings.Contains(before.Returned.GetOutput(), s) && !strings.Contains(asked, s)
	}
	for _, s := range argumentStrings(raw) {
		if len(s) >= 3 && told(s) {
			return true
		}
		if i := strings.LastIndexByte(s, '/'); i >= 0 && len(s)-i > 3 && told(s[i+1:]) {
			return true
		}
	}
	return false
}

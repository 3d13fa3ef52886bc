package signal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"millrace/distill/turn"
	"millrace/schemas/event"
)

const (
	read     = event.ToolKind_READ
	search   = event.ToolKind_SEARCH
	editFile = event.ToolKind_EDIT_FILE
	terminal = event.ToolKind_TERMINAL
	question = event.ToolKind_QUESTION
	other    = event.ToolKind_OTHER
	worked   = event.ToolOutcome_OK
	failed   = event.ToolOutcome_EXECUTION_FAILED
)

func TestRepeatedCalls(t *testing.T) {
	t.Parallel()
	const a, b = `{"path":"a"}`, `{"path":"b"}`
	for name, c := range map[string]struct {
		events []told
		want   float64
	}{
		"none":                             {[]told{start}, 0},
		"twice":                            {[]told{call("1", 1, read, a), call("2", 2, read, a)}, 1},
		"three times":                      {[]told{call("1", 1, read, a), call("2", 2, read, a), call("3", 3, read, a)}, 2},
		"other arguments":                  {[]told{call("1", 1, read, a), call("2", 2, read, b)}, 0},
		"another tool":                     {[]told{call("1", 1, read, a), call("2", 2, search, a)}, 0},
		"an edit between":                  {[]told{call("1", 1, read, a), call("2", 2, editFile, a), call("3", 3, read, a)}, 0},
		"an edit that failed between":      {[]told{call("1", 1, read, a), call("2", 2, editFile, a), result("2", event.ToolOutcome_EDIT_NO_MATCH, ""), call("3", 3, read, a)}, 1},
		"a malformed edit between":         {[]told{call("1", 1, read, a), call("2", 2, editFile, a), result("2", event.ToolOutcome_INVALID_JSON, ""), call("3", 3, read, a)}, 1},
		"the failed edit itself, again":    {[]told{call("1", 1, editFile, a), result("1", event.ToolOutcome_EDIT_NO_MATCH, ""), call("2", 2, editFile, a), result("2", event.ToolOutcome_EDIT_NO_MATCH, "")}, 1},
		"a command between":                {[]told{call("1", 1, read, a), call("2", 2, terminal, b), call("3", 3, read, a)}, 0},
		"a command polled":                 {[]told{call("1", 1, terminal, a), call("2", 2, terminal, a), call("3", 3, terminal, a)}, 2},
		"a polled command changes nothing": {[]told{call("1", 1, terminal, a), call("2", 2, read, b), call("3", 3, terminal, a), call("4", 4, read, b)}, 2},
		"an unknown tool between":          {[]told{call("1", 1, read, a), call("2", 2, other, b), call("3", 3, read, a)}, 0},
		"a question between":               {[]told{call("1", 1, read, a), call("2", 2, question, b), call("3", 3, read, a)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.EqualValues(t, c.want, repeatedCalls(facts(c.events...)))
		})
	}
}

func TestSerialCalls(t *testing.T) {
	t.Parallel()
	runVectorCases(t, serialCallsCases())
}

func serialCallsCases() []vectorCase {
	const name = "tools.serial_could_be_parallel"
	emptyOutput := func(id string) told {
		return func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{CallId: id, Outcome: worked, OutputBytes: proto.Uint64(0)}}
		}
	}
	return []vectorCase{
		{"no calls", []told{start}, Context{}, name, 0},
		{"one call", []told{call("1", 1, read, `{}`)}, Context{}, name, 0},
		{"two that don't depend", []told{call("1", 1, read, `{"path":"a.go"}`), result("1", worked, "package a"), call("2", 2, read, `{"path":"b.go"}`)}, Context{}, name, 1},
		{"three in a row", []told{
			call("1", 1, read, `{"path":"a.go"}`), result("1", worked, "package a"), call("2", 2, search, `{"for":"word"}`), result("2", worked, "nothing"),
			call("3", 3, read, `{"path":"c.go"}`),
		}, Context{}, name, 2},
		{"the second uses the first's output", []told{call("1", 1, search, `{"for":"x"}`), result("1", worked, "src/b.go:3: x"), call("2", 2, read, `{"path":"src/b.go"}`)}, Context{}, name, 0},
		{"by the last element of its path", []told{call("1", 1, search, `{"for":"x"}`), result("1", worked, "b.go:3: x"), call("2", 2, read, `{"path":"/home/src/b.go"}`)}, Context{}, name, 0},
		{"a folder that the first one was asked for is no news", []told{call("1", 1, search, `{"for":"x","in":"src/lib"}`), result("1", worked, "src/lib/b.go:3: x"), call("2", 2, search, `{"for":"y","in":"src/lib"}`)}, Context{}, name, 1},
		{"deep in its arguments", []told{call("1", 1, search, `{"for":"x"}`), result("1", worked, "b.go:3: x"), call("2", 2, read, `{"all":[{"path":"b.go"}]}`)}, Context{}, name, 0},
		{"after a failure", []told{call("1", 1, read, `{"path":"a.go"}`), result("1", failed, "no such file"), call("2", 2, read, `{"path":"b.go"}`)}, Context{}, name, 0},
		{"in one step", []told{call("1", 1, read, `{"path":"a.go"}`), call("2", 1, read, `{"path":"b.go"}`), result("1", worked, "x")}, Context{}, name, 0},
		{"an edit between", []told{call("1", 1, read, `{}`), result("1", worked, "x"), call("2", 2, editFile, `{}`), call("3", 3, read, `{}`)}, Context{}, name, 0},
		{"no output was seen", []told{call("1", 1, read, `{}`), result("1", worked, ""), call("2", 2, read, `{}`)}, Context{}, name, nil},
		{"no output was seen, beside an edit", []told{call("0", 1, editFile, `{}`), call("1", 2, read, `{}`), result("1", worked, ""), call("2", 3, read, `{}`)}, Context{}, name, nil},
		{"an output that is known to be empty", []told{call("1", 1, read, `{}`), emptyOutput("1"), call("2", 2, read, `{}`)}, Context{}, name, 1},
	}
}

func TestToolSignals(t *testing.T) {
	t.Parallel()
	runVectorCases(t, toolSignalsCases())
}

func toolSignalsCases() []vectorCase {
	validated := func(id string, o event.ToolOutcome) told {
		return callOf(&event.ToolCalled{CallId: id, Tool: "t", HarnessValidation: &o})
	}
	repaired := callOf(&event.ToolCalled{CallId: "r", Tool: "t", Repaired: true})
	beside := func(id, group string) told {
		return callOf(&event.ToolCalled{CallId: id, Tool: "t", ParallelGroup: group})
	}
	plain := call("p", 1, read, "{}")
	became := func(o event.ToolOutcome) []told { return []told{plain, result("p", o, "")} }
	cases := []vectorCase{
		{"none", nil, Context{}, "tools.execution_failed", 0},
		{"one", became(failed), Context{}, "tools.execution_failed", 1},
		{"another class", became(event.ToolOutcome_COMMAND_TIMEOUT), Context{}, "tools.execution_failed", 0},
		{"one", became(event.ToolOutcome_COMMAND_TIMEOUT), Context{}, "tools.command_timeout", 1},
		{"one", became(event.ToolOutcome_EDIT_NO_MATCH), Context{}, "tools.edit_no_match", 1},
		{"one", became(event.ToolOutcome_EDIT_AMBIGUOUS), Context{}, "tools.edit_ambiguous", 1},
		{"one", became(event.ToolOutcome_NOT_READ_YET), Context{}, "tools.not_read_yet", 1},
		{"one", became(event.ToolOutcome_UNEXPECTED_ENVIRONMENT), Context{}, "tools.unexpected_environment", 1},
		{"one", became(event.ToolOutcome_USER_REJECTED), Context{}, "tools.user_rejected", 1},
		{"one", became(event.ToolOutcome_POLICY_DENIED), Context{}, "tools.policy_denied", 1},
		{"two", []told{plain, repaired}, Context{}, "tools.calls", 2},
		{"one of them too large", []told{plain, stub("tool_called"), stub("tool_returned")}, Context{}, "tools.calls", 2},
		{"none", nil, Context{}, "tools.calls", 0},
		{"nobody judged", []told{plain}, Context{}, "tools.invalid", nil},
		{"the harness judged", []told{validated("c", worked)}, Context{}, "tools.invalid", 0},
		{"one of two", []told{validated("c", worked), validated("d", event.ToolOutcome_INVALID_JSON)}, Context{}, "tools.invalid", 1},
		{"by its result", []told{plain, result("p", event.ToolOutcome_UNKNOWN_TOOL, "")}, Context{}, "tools.invalid", 1},
		{"a failure is not malformed", []told{plain, result("p", failed, ""), validated("c", worked)}, Context{}, "tools.invalid", 0},
		{"repaired ones count", []told{repaired}, Context{}, "tools.invalid", 1},
		{"repaired and malformed counts once", []told{callOf(&event.ToolCalled{CallId: "r", Repaired: true, HarnessValidation: event.ToolOutcome_INVALID_JSON.Enum()})}, Context{}, "tools.invalid", 1},
		{"one", []told{repaired, plain}, Context{}, "tools.repaired", 1},
		{"one", []told{plain, result("p", event.ToolOutcome_COMMAND_TIMEOUT, "")}, Context{}, "tools.failed", 1},
		{"the user's refusal is no failure", []told{plain, result("p", event.ToolOutcome_USER_REJECTED, "")}, Context{}, "tools.failed", 0},
		{"no result came", []told{plain}, Context{}, "tools.failed", 0},
		{"a group of two, one alone, one in no group", []told{beside("1", "g"), beside("2", "g"), beside("3", "h"), beside("4", "")}, Context{}, "tools.parallel_share", .5},
		{"no calls", nil, Context{}, "tools.parallel_share", nil},
		{"one of two", []told{plain, call("t", 1, terminal, "{}")}, Context{}, "tools.terminal_share", .5},
		{"no calls", nil, Context{}, "tools.terminal_share", nil},
		{"as counted", []told{plain, call("q", 2, read, "{}")}, Context{}, "tools.repeated", 1},
	}
	for class, name := range classSignal {
		cases = append(cases,
			vectorCase{class.String(), []told{validated("c", class)}, Context{}, name, 1},
			vectorCase{"none of " + class.String(), []told{validated("c", worked)}, Context{}, name, 0},
			vectorCase{"nobody judged", []told{plain}, Context{}, name, nil},
		)
	}
	return cases
}

// The pipeline's own verdict outranks the harness's, and nothing but a cut from outside excuses a malformed call.
func TestCallClass(t *testing.T) {
	t.Parallel()
	tools, err := CompileToolSchemas([]byte(`[{"name":"READ","kind":"READ","json_schema":{"type":"object","required":["path"]}}]`))
	require.NoError(t, err)
	const (
		good, cut, short = `{"path":"a"}`, `{"path":`, `{}`
		ok               = event.ToolOutcome_OK
		badJSON          = event.ToolOutcome_INVALID_JSON
		missing          = event.ToolOutcome_MISSING_REQUIRED
		unknown          = event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED
	)
	for name, c := range map[string]struct {
		arguments string
		outcome   event.ToolOutcome
		harness   event.ToolOutcome
		stop      string
		privacy   event.Privacy
		tools     *ToolSchemas
		want      event.ToolOutcome
	}{
		"well-formed":                            {good, worked, 0, "", 0, tools, ok},
		"well-formed, whatever the harness says": {good, badJSON, badJSON, "", 0, tools, ok},
		"malformed, whatever the harness says":   {cut, worked, worked, "", 0, tools, badJSON},
		"cut by the token limit":                 {cut, failed, 0, "length", 0, tools, event.ToolOutcome_TRUNCATED_BY_LENGTH},
		"cut by the user":                        {cut, event.ToolOutcome_USER_ABORTED, 0, "", 0, tools, ok},
		"cut by the user before it began":        {"", event.ToolOutcome_USER_ABORTED, 0, "", 0, tools, ok},
		"cut in transport":                       {cut, event.ToolOutcome_TRUNCATED_BY_TRANSPORT, 0, "", 0, tools, ok},
		"complete and wrong, then aborted":       {short, event.ToolOutcome_USER_ABORTED, 0, "", 0, tools, missing},
		"malformed beside one that failed":       {cut, event.ToolOutcome_SIBLING_FAILED, 0, "", 0, tools, badJSON},
		"malformed and denied":                   {cut, event.ToolOutcome_POLICY_DENIED, 0, "", 0, tools, badJSON},
		"malformed and refused":                  {short, event.ToolOutcome_USER_REJECTED, 0, "", 0, tools, missing},
		"malformed and the provider failed":      {cut, event.ToolOutcome_PROVIDER_ERROR, 0, "", 0, tools, badJSON},
		"no schema: the harness is believed":     {cut, worked, badJSON, "", 0, nil, badJSON},
		"no schema: then the result":             {cut, missing, 0, "", 0, nil, missing},
		"no schema, and nobody says":             {cut, failed, 0, "", 0, nil, unknown},
		"without content the harness counts":     {"", worked, missing, "", event.Privacy_NO_CONTENT, tools, missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := &event.ToolCalled{CallId: "c", Step: 1, Tool: "READ", Raw: &event.ToolCalled_Arguments{Arguments: c.arguments}}
			if c.harness != 0 {
				called.HarnessValidation = &c.harness
			}
			f := facts(start, stepOf(&event.StepCompleted{Step: 1, PolicyVersion: "a", StopReason: c.stop}), callOf(called), result("c", c.outcome, ""))
			f.Privacy = c.privacy
			require.Equal(t, c.want.String(), CallClass(f, &f.Calls[0], c.tools).String())
			blamed := MalformedSteps(f, c.tools)
			require.Equal(t, Invalid(c.want), blamed[1])
		})
	}
}

// What a call does is what it says itself, else what its tool was registered as.
func TestKindOfACall(t *testing.T) {
	t.Parallel()
	f := facts(call("1", 1, 0, "{}"), call("2", 1, terminal, "{}"))
	f.KnowTools(func(string) event.ToolKind { return question })
	kinds := func(c *turn.Call) event.ToolKind { return c.GetKind() }
	require.Equal(t, question, kinds(&f.Calls[0]))
	require.Equal(t, terminal, kinds(&f.Calls[1]))
	require.Equal(t, 1, f.QuestionCalls())
}

package dialect

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"millrace/schemas/event"
)

// outcome is what a tool's answer says of its call.
type outcome struct {
	class    event.ToolOutcome
	exitCode *int32
	withText bool // a refusal that came with the user's words
	stop     bool // a refusal that told the agent to stop
}

// The texts by which Claude Code says what went wrong, in the order in which they are looked for.
var failureTexts = []struct {
	text  string // that stands in the answer
	class event.ToolOutcome
}{
	{"[Request interrupted by user", event.ToolOutcome_USER_ABORTED},
	{"Sibling tool call errored", event.ToolOutcome_SIBLING_FAILED},
	{"Cancelled: parallel tool call", event.ToolOutcome_SIBLING_FAILED},
	{"No such tool available", event.ToolOutcome_UNKNOWN_TOOL},
	{"String to replace not found", event.ToolOutcome_EDIT_NO_MATCH},
	{"matches of the string to replace", event.ToolOutcome_EDIT_AMBIGUOUS},
	{"has not been read yet", event.ToolOutcome_NOT_READ_YET},
	{"has been modified since", event.ToolOutcome_UNEXPECTED_ENVIRONMENT},
	{"Command timed out", event.ToolOutcome_COMMAND_TIMEOUT},
	{"Command was aborted before completion", event.ToolOutcome_USER_ABORTED},
	{"Permission to use ", event.ToolOutcome_POLICY_DENIED},
	{"requested permissions to ", event.ToolOutcome_POLICY_DENIED},
	{"was blocked. For security", event.ToolOutcome_POLICY_DENIED},
	{"denied this tool", event.ToolOutcome_POLICY_DENIED},
	{"Hook PreToolUse", event.ToolOutcome_POLICY_DENIED},
	{"PreToolUse:", event.ToolOutcome_POLICY_DENIED},
	{"File does not exist", event.ToolOutcome_UNEXPECTED_ENVIRONMENT},
	{"does not exist", event.ToolOutcome_UNEXPECTED_ENVIRONMENT},
	{"ENOENT", event.ToolOutcome_UNEXPECTED_ENVIRONMENT},
	{"EISDIR", event.ToolOutcome_UNEXPECTED_ENVIRONMENT},
	{"API Error", event.ToolOutcome_PROVIDER_ERROR},
}

var (
	exitCode      = regexp.MustCompile(`^(?:Error: )?Exit code (\d{1,9})\b`)
	parameterType = regexp.MustCompile("type is expected as `(\\w+)` but provided as `(\\w+)`")
)

// outcomeOf reads a tool's answer. Only the head of the text is searched for the harness's words: what follows is the
// tool's own output, which may say anything.
func outcomeOf(r ccResult) outcome {
	var details struct {
		Interrupted bool `json:"interrupted"`
	}
	if len(r.details) > 0 && r.details[0] == '{' {
		_ = json.Unmarshal(r.details, &details)
	}
	head := r.text[:min(len(r.text), 400)]
	switch {
	case strings.HasPrefix(head, "The user doesn't want to "), strings.HasPrefix(head, "User rejected"):
		return outcome{
			class:    event.ToolOutcome_USER_REJECTED,
			withText: strings.Contains(r.text, "the user said:"),
			stop:     strings.Contains(head, "STOP what you are doing"),
		}
	case !r.failed && details.Interrupted:
		return outcome{class: event.ToolOutcome_USER_ABORTED}
	case !r.failed:
		return outcome{class: event.ToolOutcome_OK}
	}
	if m := exitCode.FindStringSubmatch(head); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 32)
		code := int32(n)
		class := event.ToolOutcome_EXECUTION_FAILED
		switch {
		case details.Interrupted, strings.Contains(head, "[Request interrupted by user"):
			class = event.ToolOutcome_USER_ABORTED
		case strings.Contains(head, "Command timed out"):
			class = event.ToolOutcome_COMMAND_TIMEOUT
		}
		return outcome{class: class, exitCode: &code}
	}
	if strings.Contains(head, "InputValidationError") {
		return outcome{class: invalidInput(r.text)}
	}
	for _, f := range failureTexts {
		if strings.Contains(head, f.text) {
			return outcome{class: f.class}
		}
	}
	return outcome{class: event.ToolOutcome_EXECUTION_FAILED}
}

// invalidInput is the class of a call that the harness refused for its arguments.
func invalidInput(text string) event.ToolOutcome {
	if m := parameterType.FindStringSubmatch(text); m != nil {
		if m[2] == "string" && (m[1] == "array" || m[1] == "object") {
			return event.ToolOutcome_STRINGIFIED_CONTAINER
		}
		return event.ToolOutcome_WRONG_TYPE
	}
	switch {
	case strings.Contains(text, "required parameter"), strings.Contains(text, `"message": "Required"`), strings.Contains(text, `received undefined`):
		return event.ToolOutcome_MISSING_REQUIRED
	case strings.Contains(text, "unexpected parameter"), strings.Contains(text, "unrecognized_keys"):
		return event.ToolOutcome_UNEXPECTED_PROPERTY
	case strings.Contains(text, "JSON"):
		return event.ToolOutcome_INVALID_JSON
	}
	return event.ToolOutcome_WRONG_TYPE
}

// malformed says whether a class is the model's own malformed call.
func malformed(o event.ToolOutcome) bool {
	return o >= event.ToolOutcome_INVALID_JSON && o <= event.ToolOutcome_TRUNCATED_BY_LENGTH
}

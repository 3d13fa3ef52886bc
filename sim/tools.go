package sim

import (
	"math/rand/v2"
	"strconv"

	"millrace/schemas/event"
)

// What the simulated harness is; the same in every arm.
const (
	harnessVersion     = "sim-harness 1.0.0"
	tokenizerDigest    = "1f0c0c7d2c5f43c7a1a86ea4b7b9f2f4e8c5a1d7b3906e5d4c2b1a0f9e8d7c6b"
	chatTemplateDigest = "9b1d3e5f7a8c0b2d4f6e8a9c1b3d5f7e0a2c4e6b8d9f1a3c5e7b9d0f2a4c6e81"
)

// Tools are the tools of the simulated agent.
var Tools = []*event.ToolSchema{
	{Name: "read_file", Kind: event.ToolKind_READ, JsonSchema: `{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer","minimum":0},"limit":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}`},
	{Name: "search", Kind: event.ToolKind_SEARCH, JsonSchema: `{"type":"object","properties":{"query":{"type":"string"},"paths":{"type":"array","items":{"type":"string"}},"max_results":{"type":"integer","minimum":1}},"required":["query"],"additionalProperties":false}`},
	{Name: "edit_file", Kind: event.ToolKind_EDIT_FILE, JsonSchema: `{"type":"object","properties":{"path":{"type":"string"},"old_text":{"type":"string"},"new_text":{"type":"string"}},"required":["path","old_text","new_text"],"additionalProperties":false}`},
	{Name: "run_terminal", Kind: event.ToolKind_TERMINAL, JsonSchema: `{"type":"object","properties":{"command":{"type":"string"},"timeout_s":{"type":"integer","minimum":1}},"required":["command"],"additionalProperties":false}`},
	{Name: "ask_user", Kind: event.ToolKind_QUESTION, JsonSchema: `{"type":"object","properties":{"question":{"type":"string"},"options":{"type":"array","items":{"type":"string"}}},"required":["question"],"additionalProperties":false}`},
}

// ToolSchemaDocument is what the gateway stores of the tools, under ToolSchemaDigest.
var ToolSchemaDocument = toolSchemas.document

// ToolSchemaDigest is the SHA-256 of that document; every turn names it.
var ToolSchemaDigest = toolSchemas.digest

var toolSchemas = func() (s struct {
	document []byte
	digest   string
},
) {
	s.document, s.digest = event.ToolSchemaDocument(Tools)
	return s
}()

// tool is a place in Tools.
type tool uint8

const (
	readFile tool = iota
	search
	editFile
	runTerminal
	askUser
)

// call is one planned tool call.
type call struct {
	tool     tool
	fault    event.ToolOutcome // of a malformed call
	outcome  event.ToolOutcome
	repaired bool
	edit     bool // proposes an edit
	check    bool // runs the tests
}

// The faults of malformed calls, each as likely as the others.
var faults = [...]event.ToolOutcome{
	event.ToolOutcome_INVALID_JSON, event.ToolOutcome_NOT_AN_OBJECT, event.ToolOutcome_UNKNOWN_TOOL,
	event.ToolOutcome_MISSING_REQUIRED, event.ToolOutcome_UNEXPECTED_PROPERTY, event.ToolOutcome_WRONG_TYPE,
	event.ToolOutcome_STRINGIFIED_CONTAINER, event.ToolOutcome_TRUNCATED_BY_LENGTH,
}

// malformedCall draws a broken call; the harness repairs some of them and runs them all the same.
func malformedCall(r *rand.Rand) call {
	c := call{tool: readFile, fault: faults[r.IntN(len(faults))]}
	if c.fault == event.ToolOutcome_STRINGIFIED_CONTAINER {
		c.tool = search
	}
	c.outcome = c.fault
	if c.fault != event.ToolOutcome_UNKNOWN_TOOL && c.fault != event.ToolOutcome_TRUNCATED_BY_LENGTH && r.IntN(5) == 0 {
		c.repaired, c.outcome = true, event.ToolOutcome_OK
	}
	return c
}

// called is the call as the harness saw it: its tool's name and kind, and the raw arguments.
func (s *session) called(c call, file string) *event.ToolCalled {
	r := s.rng
	t := Tools[c.tool]
	out := &event.ToolCalled{Tool: t.Name, Kind: t.Kind, Repaired: c.repaired}
	word := func() string { return s.sim.vocabulary[s.unit.script][r.IntN(wordsPerScript)] }
	args := make([]byte, 0, 96)
	switch c.fault {
	case event.ToolOutcome_INVALID_JSON:
		args = property(args, "path", file)
		args = append(args, `, "offset": }`...)
	case event.ToolOutcome_NOT_AN_OBJECT:
		args = append(args, '[')
		args = strconv.AppendQuote(args, file)
		args = append(args, ']')
	case event.ToolOutcome_UNKNOWN_TOOL:
		out.Tool, out.Kind = "open_document", event.ToolKind_OTHER
		args = append(property(args, "path", file), '}')
	case event.ToolOutcome_MISSING_REQUIRED:
		args = append(args, `{"offset": 12}`...)
	case event.ToolOutcome_UNEXPECTED_PROPERTY:
		args = append(property(args, "path", file), `, "encoding": "utf-8"}`...)
	case event.ToolOutcome_WRONG_TYPE:
		args = append(args, `{"path": 12}`...)
	case event.ToolOutcome_STRINGIFIED_CONTAINER:
		args = append(property(args, "query", word()), `, "paths": "[\"`...)
		args = append(args, file...)
		args = append(args, `\"]"}`...)
	case event.ToolOutcome_TRUNCATED_BY_LENGTH:
		args = property(args, "path", file)
		args = append(args[:len(args)-1], `/par`...)
	default:
		switch c.tool {
		case readFile:
			args = property(args, "path", file)
			if r.IntN(3) == 0 {
				args = append(args, `, "offset": `...)
				args = strconv.AppendInt(args, int64(r.IntN(900)), 10)
			}
		case search:
			args = property(args, "query", word())
			if r.IntN(4) == 0 {
				args = append(args, `, "paths": ["src"]`...)
			}
		case editFile:
			args = property(args, "path", file)
			args = append(args, `, "old_text": "`...)
			args = append(append(args, word()...), `", "new_text": "`...)
			args = append(append(append(append(args, word()...), ' '), word()...), '"')
		case runTerminal:
			args = property(args, "command", "make test")
		case askUser:
			args = property(args, "question", word()+" "+word()+"?")
		}
		args = append(args, '}')
	}
	out.Raw = &event.ToolCalled_Arguments{Arguments: string(args)}
	return out
}

func property(args []byte, key, value string) []byte {
	args = append(args, `{"`...)
	args = append(args, key...)
	args = append(args, `": "`...)
	args = append(args, value...)
	return append(args, '"')
}

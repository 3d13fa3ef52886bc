package signal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"millrace/schemas/event"
)

// ToolSchemas are the compiled tools of one registered document. Nil stands for a turn without a schema: no verdict.
type ToolSchemas struct {
	tools map[string]tool
}

type tool struct {
	kind   event.ToolKind
	schema *jsonschema.Schema // nil: it does not compile, and there is no verdict
}

// CompileToolSchemas reads a document: a JSON array of {"name", "kind", "json_schema"}, the schema as an object or as
// text. An unreadable document is an error; a tool whose schema does not compile is known, but never judged.
func CompileToolSchemas(doc []byte) (*ToolSchemas, error) {
	var list []struct {
		Name   string          `json:"name"`
		Kind   json.RawMessage `json:"kind"`
		Schema json.RawMessage `json:"json_schema"`
	}
	if err := json.Unmarshal(doc, &list); err != nil {
		return nil, fmt.Errorf("tool schemas: the document is no JSON array of {name, kind, json_schema}: %w", err)
	}
	s := &ToolSchemas{tools: make(map[string]tool, len(list))}
	for i, t := range list {
		if t.Name == "" {
			return nil, fmt.Errorf("tool schemas: tool %d has no name", i+1)
		}
		if _, twice := s.tools[t.Name]; twice {
			return nil, fmt.Errorf("tool schemas: tool %q stands there twice", t.Name)
		}
		s.tools[t.Name] = tool{kind: toolKind(t.Kind), schema: compileSchema(t.Schema)}
	}
	return s, nil
}

// Kind is what the document says the tool does; unspecified if it doesn't.
func (s *ToolSchemas) Kind(name string) event.ToolKind {
	if s == nil {
		return event.ToolKind_TOOL_KIND_UNSPECIFIED
	}
	return s.tools[name].kind
}

// toolKind reads an enum as protojson writes it: by name or by number.
func toolKind(raw json.RawMessage) event.ToolKind {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return event.ToolKind(event.ToolKind_value[strings.ToUpper(name)])
	}
	var number int32
	if json.Unmarshal(raw, &number) == nil && event.ToolKind_name[number] != "" {
		return event.ToolKind(number)
	}
	return event.ToolKind_TOOL_KIND_UNSPECIFIED
}

// EmptyArguments says whether a call came without any arguments. That is a flag, not a fault.
func EmptyArguments(raw []byte) bool { return len(bytes.TrimSpace(raw)) == 0 }

// Classify judges the raw arguments of a call, before anybody repaired them, against the tool's schema. truncated says
// that the step ended at the token limit. It returns OK, one of the malformed classes, or unspecified where there is
// no schema to judge by. Of several faults the first of this order counts: not JSON, no object, no such tool,
// something missing, something unexpected, a wrong value.
func (s *ToolSchemas) Classify(name string, raw []byte, truncated bool) event.ToolOutcome {
	if s == nil {
		return event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED
	}
	t, known := s.tools[name]
	if known && t.schema == nil {
		return event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED
	}
	arguments, outcome := readArguments(raw, truncated)
	switch {
	case outcome != event.ToolOutcome_OK:
		return outcome
	case !known:
		return event.ToolOutcome_UNKNOWN_TOOL
	}
	err := t.schema.Validate(arguments)
	if err == nil {
		return event.ToolOutcome_OK
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED
	}
	return worst(invalid, arguments)
}

// readArguments is the object that the arguments are. Empty arguments are an empty object, unless they were cut off.
func readArguments(raw []byte, truncated bool) (any, event.ToolOutcome) {
	if EmptyArguments(raw) && !truncated {
		return map[string]any{}, event.ToolOutcome_OK
	}
	value, err := parseStrict(raw)
	switch {
	case err != nil && truncated:
		return nil, event.ToolOutcome_TRUNCATED_BY_LENGTH
	case err != nil:
		return nil, event.ToolOutcome_INVALID_JSON
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, event.ToolOutcome_NOT_AN_OBJECT
	}
	return value, event.ToolOutcome_OK
}

// worst is the class of the gravest fault that validation found.
func worst(e *jsonschema.ValidationError, arguments any) event.ToolOutcome {
	found := map[event.ToolOutcome]bool{}
	collect(e, arguments, found)
	for _, class := range []event.ToolOutcome{
		event.ToolOutcome_MISSING_REQUIRED,
		event.ToolOutcome_UNEXPECTED_PROPERTY,
		event.ToolOutcome_STRINGIFIED_CONTAINER,
		event.ToolOutcome_WRONG_TYPE,
	} {
		if found[class] {
			return class
		}
	}
	return event.ToolOutcome_OK // nothing but formats, which are annotations
}

func collect(e *jsonschema.ValidationError, arguments any, found map[event.ToolOutcome]bool) {
	if _, name := e.ErrorKind.(*kind.PropertyNames); name {
		found[event.ToolOutcome_UNEXPECTED_PROPERTY] = true
		return
	}
	if len(e.Causes) > 0 {
		for _, cause := range e.Causes {
			collect(cause, arguments, found)
		}
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Format:
	case *kind.Required, *kind.DependentRequired, *kind.Dependency:
		found[event.ToolOutcome_MISSING_REQUIRED] = true
	case *kind.AdditionalProperties, *kind.FalseSchema:
		found[event.ToolOutcome_UNEXPECTED_PROPERTY] = true
	case *kind.Type:
		if stringified(at(arguments, e.InstanceLocation), k.Want) {
			found[event.ToolOutcome_STRINGIFIED_CONTAINER] = true
			return
		}
		found[event.ToolOutcome_WRONG_TYPE] = true
	default:
		found[event.ToolOutcome_WRONG_TYPE] = true
	}
}

// stringified: the value is text that holds the very container that was wanted.
func stringified(value any, want []string) bool {
	text, ok := value.(string)
	if !ok {
		return false
	}
	inner, err := parseStrict([]byte(text))
	if err != nil {
		return false
	}
	for _, w := range want {
		switch inner.(type) {
		case map[string]any:
			ok = w == "object"
		case []any:
			ok = w == "array"
		default:
			ok = false
		}
		if ok {
			return true
		}
	}
	return false
}

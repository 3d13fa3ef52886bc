package dialect

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"millrace/schemas/event"
)

// claudeCodeTools are the arguments that the well-known tools demand, and no more: what a version adds must not look
// like a malformed call, and what the client turns into a number by itself isn't held to be one here.
//
//go:embed claude_code_tools.json
var claudeCodeTools []byte

type toolDefinition struct {
	Name   string          `json:"name"`
	Kind   string          `json:"kind"`
	Schema json.RawMessage `json:"json_schema"`
}

var knownTools = func() map[string]toolDefinition {
	var list []toolDefinition
	if err := json.Unmarshal(claudeCodeTools, &list); err != nil {
		panic(fmt.Sprintf("claude_code_tools.json: %v", err)) // embedded: seen by any test
	}
	m := map[string]toolDefinition{}
	for _, t := range list {
		m[t.Name] = t
	}
	return m
}()

func toolKind(name string) event.ToolKind {
	if t, ok := knownTools[name]; ok {
		return event.ToolKind(event.ToolKind_value[t.Kind])
	}
	return event.ToolKind_OTHER
}

// sessionTools are the tools of one session: the well-known ones, and every other that answered a call (an MCP
// server's, say), of which any arguments are taken as its harness took them. A tool that the harness said it doesn't have
// stays out, and so its calls are calls of an unknown tool. Where the harness refused a property, the tool's schema is
// closed to all but what it did take in this session.
func sessionTools(calls []*ccCall) []*event.ToolSchema {
	schemas := map[string]json.RawMessage{}
	for name, t := range knownTools {
		schemas[name] = t.Schema
	}
	closed := map[string]bool{}
	for _, call := range calls {
		switch call.invalid {
		case event.ToolOutcome_UNKNOWN_TOOL:
			continue
		case event.ToolOutcome_UNEXPECTED_PROPERTY:
			closed[call.block.tool] = true
		}
		if _, known := schemas[call.block.tool]; !known {
			schemas[call.block.tool] = json.RawMessage(`{"type":"object"}`)
		}
	}
	for tool := range closed {
		schemas[tool] = closeSchema(tool, schemas[tool], calls)
	}
	var tools []*event.ToolSchema
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		tools = append(tools, &event.ToolSchema{Name: safeID(name), Kind: toolKind(name), JsonSchema: string(schemas[name])})
	}
	return tools
}

// closeSchema allows a tool the properties that its schema names or that a call of it was taken with, and no others.
func closeSchema(tool string, schema json.RawMessage, calls []*ccCall) json.RawMessage {
	var doc map[string]any
	if json.Unmarshal(schema, &doc) != nil {
		return schema
	}
	properties, _ := doc["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
	}
	for _, call := range calls {
		var arguments map[string]any
		if call.block.tool != tool || call.invalid != event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED || json.Unmarshal(call.block.input, &arguments) != nil {
			continue
		}
		for name := range arguments {
			if properties[name] == nil {
				properties[name] = map[string]any{}
			}
		}
	}
	doc["properties"], doc["additionalProperties"] = properties, false
	out, err := json.Marshal(doc)
	if err != nil {
		return schema
	}
	return out
}

package signal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

const toolDocument = `[
 {"name": "read", "kind": "READ", "json_schema": {
   "type": "object", "additionalProperties": false, "required": ["path"],
   "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}, "ranges": {"type": "array", "items": {"type": "integer"}}}}},
 {"name": "list", "kind": 2, "json_schema": "{\"type\": \"object\", \"properties\": {\"all\": {\"type\": \"boolean\"}}}"},
 {"name": "bench", "json_schema": {"type": "dict", "required": ["f"],
   "properties": {"f": {"type": "float"}, "t": {"type": "tuple", "items": {"type": "any"}}, "type": {"type": "string"}, "o": {"type": ["dict", "null"]}, "e": {"enum": ["dict"]}}}},
 {"name": "union", "json_schema": {"type": "object", "properties": {"v": {"anyOf": [{"type": "array"}, {"type": "null"}]}, "u": {"type": "string", "format": "uri"}},
   "oneOf": [{"required": ["v"]}, {"required": ["u"]}]}},
 {"name": "strict", "json_schema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"u": {"type": "string", "format": "uri"}}, "propertyNames": {"pattern": "^[a-z]$"}}},
 {"name": "closed", "json_schema": {"type": "object", "properties": {"a": true, "b": false}, "unevaluatedProperties": false, "dependentRequired": {"a": ["c"]}}},
 {"name": "remote", "json_schema": {"$ref": "https://example.org/schema.json"}},
 {"name": "file", "json_schema": {"$ref": "file:///etc/passwd"}},
 {"name": "broken", "json_schema": {"type": "thing"}},
 {"name": "absent"}
]`

func TestClassifyToolCall(t *testing.T) {
	t.Parallel()
	s, err := CompileToolSchemas([]byte(toolDocument))
	require.NoError(t, err)
	const (
		ok           = event.ToolOutcome_OK
		badJSON      = event.ToolOutcome_INVALID_JSON
		notAnObject  = event.ToolOutcome_NOT_AN_OBJECT
		unknown      = event.ToolOutcome_UNKNOWN_TOOL
		missing      = event.ToolOutcome_MISSING_REQUIRED
		unexpected   = event.ToolOutcome_UNEXPECTED_PROPERTY
		wrongType    = event.ToolOutcome_WRONG_TYPE
		stringifiedC = event.ToolOutcome_STRINGIFIED_CONTAINER
		cut          = event.ToolOutcome_TRUNCATED_BY_LENGTH
		noVerdict    = event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED
	)
	for _, c := range []struct {
		tool, raw string
		truncated bool
		want      event.ToolOutcome
	}{
		{"read", `{"path": "a"}`, false, ok},
		{"read", " {\"path\": \"a\", \"limit\": 2.0}\n", false, ok},
		{"read", `{"path": "a"}`, true, ok}, // the call itself was complete
		{"list", ``, false, ok},
		{"list", "  \n", false, ok},
		{"list", `{}`, false, ok},
		{"list", ``, true, cut},
		{"read", ``, false, missing},
		{"read", `{}`, false, missing},
		{"read", `{"pth": "a"}`, false, missing},
		{"read", `{"path": "a", "line": 1}`, false, unexpected},
		{"read", `{"path": 1}`, false, wrongType},
		{"read", `{"path": "a", "limit": "2"}`, false, wrongType},
		{"read", `{"path": "a", "limit": 0}`, false, wrongType},
		{"read", `{"path": "a", "ranges": "[1, 2]"}`, false, stringifiedC},
		{"read", `{"path": "a", "ranges": "1, 2"}`, false, wrongType},
		{"read", `{"path": "a", "ranges": "{}"}`, false, wrongType},
		{"read", `{"path": "a", "ranges": ["1"]}`, false, wrongType},
		{"read", `{"path": "a`, true, cut},
		{"read", `{"path": "a`, false, badJSON},
		{"read", `{"path": "a"} {"path": "b"}`, false, badJSON},
		{"read", `{"path": "a", "path": "b"}`, false, badJSON},
		{"read", `{"path": "a", "limit": NaN}`, false, badJSON},
		{"read", `{"path": "a", "limit": 1e999}`, false, badJSON},
		{"read", `{"path": "a", "limit": 1e-999999999}`, false, badJSON},
		{"read", `{"path": "a", "limit": ` + strings.Repeat("9", 500) + `}`, false, badJSON},
		{"read", `{"path": "a", "limit": 1/6}`, false, badJSON},
		{"read", `{"path": "a", // the file` + "\n}", false, badJSON},
		{"read", `{'path': 'a', 'all': True}`, false, badJSON},
		{"read", "{\"path\": \"\xff\"}", false, badJSON},
		{"read", "{\"path\": \"a\x00\"}", false, badJSON},
		{"read", `{"path": "\ud800"}`, false, ok},
		{"read", `{"path": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, false, badJSON},
		{"read", `null`, false, notAnObject},
		{"read", `["a"]`, false, notAnObject},
		{"read", `"{\"path\": \"a\"}"`, false, notAnObject},
		{"read", `3`, false, notAnObject},
		{"reed", `{"path": "a"}`, false, unknown},
		{"", `{}`, false, unknown},
		{"bench", `{"f": 1.5, "t": [1, "a", null], "type": "dict", "o": null, "e": "dict"}`, false, ok},
		{"bench", `{"f": "1.5"}`, false, wrongType},
		{"bench", `{"f": 1, "t": "[1]"}`, false, stringifiedC},
		{"bench", `{"f": 1, "o": "{\"a\": 1}"}`, false, stringifiedC},
		{"bench", `{"f": 1, "e": "object"}`, false, wrongType},
		{"union", `{"v": [1]}`, false, ok},
		{"union", `{"v": "[1]"}`, false, stringifiedC},
		{"union", `{}`, false, missing},
		{"union", `{"v": null, "u": "x"}`, false, wrongType},
		{"strict", `{"u": "no uri at all"}`, false, ok}, // formats are annotations
		{"strict", `{"U": 1}`, false, unexpected},
		{"closed", `{"a": 1}`, false, missing},
		{"closed", `{"b": 1}`, false, unexpected},
		{"closed", `{"c": 1}`, false, unexpected},
		{"remote", `{}`, false, noVerdict},
		{"file", `{}`, false, noVerdict},
		{"broken", `not JSON`, false, noVerdict},
		{"absent", `{}`, false, noVerdict},
	} {
		require.Equal(t, c.want, s.Classify(c.tool, []byte(c.raw), c.truncated), "%s %.60q", c.tool, c.raw)
	}
	require.Equal(t, event.ToolKind_READ, s.Kind("read"))
	require.Equal(t, event.ToolKind_SEARCH, s.Kind("list"))
	require.Equal(t, event.ToolKind_TOOL_KIND_UNSPECIFIED, s.Kind("bench"))
	require.True(t, EmptyArguments([]byte(" \n")))
	require.False(t, EmptyArguments([]byte("{}")))
}

func TestNoSchemasNoVerdict(t *testing.T) {
	t.Parallel()
	var s *ToolSchemas
	require.Equal(t, event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED, s.Classify("read", []byte("{"), true))
	require.Equal(t, event.ToolKind_TOOL_KIND_UNSPECIFIED, s.Kind("read"))
}

func TestCompileToolSchemasRefuses(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{}`:                             "no JSON array",
		`[{"json_schema": {}}]`:          "tool 1 has no name",
		`[{"name": "a"}, {"name": "a"}]`: `tool "a" stands there twice`,
	} {
		_, err := CompileToolSchemas([]byte(doc))
		require.ErrorContains(t, err, want)
	}
}

func FuzzClassify(f *testing.F) {
	s, err := CompileToolSchemas([]byte(toolDocument))
	require.NoError(f, err)
	for _, seed := range []string{``, `{}`, `{"path":"a"}`, `{"path":`, `[1e400]`, `{"v":"[1]"}`, "\x00\xff", `{"path":"a","limit":1e-400}`} {
		f.Add("read", []byte(seed), false, []byte(`[{"name":"read","json_schema":{"type":"object"}}]`))
	}
	f.Fuzz(func(t *testing.T, tool string, raw []byte, truncated bool, doc []byte) {
		outcome := s.Classify(tool, raw, truncated)
		require.Contains(t, event.ToolOutcome_name, int32(outcome))
		if other, err := CompileToolSchemas(doc); err == nil {
			other.Classify(tool, raw, truncated)
		}
	})
}

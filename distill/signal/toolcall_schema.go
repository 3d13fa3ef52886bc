package signal

import (
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// foreignTypes are the types that tool schemas written by hand or for benchmarks use; "" means any.
var foreignTypes = map[string]string{
	"any": "", "dict": "object", "map": "object", "tuple": "array", "list": "array",
	"float": "number", "double": "number", "int": "integer", "bool": "boolean", "str": "string",
}

// compileSchema is the tool's schema, nil if it can't be compiled. It loads nothing: a schema that refers to a place
// outside itself does not compile.
func compileSchema(raw json.RawMessage) *jsonschema.Schema {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	doc, err := parseStrict(raw)
	if err != nil {
		return nil
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil
	}
	const place = "urn:millrace:tool"
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	if err := c.AddResource(place, ownTypes(doc)); err != nil {
		return nil
	}
	schema, err := c.Compile(place)
	if err != nil {
		return nil
	}
	return schema
}

type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("a tool schema refers to %s; only places within itself can be read", url)
}

// ownTypes rewrites foreign types in a schema, and leaves what only looks like one: values of enum, const, default.
func ownTypes(schema any) any {
	switch s := schema.(type) {
	case []any:
		for i := range s {
			s[i] = ownTypes(s[i])
		}
	case map[string]any:
		for keyword, v := range s {
			switch keyword {
			case "type":
				if t := ownType(v); t != nil {
					s[keyword] = t
				} else {
					delete(s, keyword)
				}
			case "enum", "const", "default", "example", "examples", "required":
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
				if named, ok := v.(map[string]any); ok { // keys are names, not keywords
					for name := range named {
						named[name] = ownTypes(named[name])
					}
				}
			default:
				s[keyword] = ownTypes(v)
			}
		}
	}
	return schema
}

// ownType is nil if anything goes.
func ownType(v any) any {
	switch t := v.(type) {
	case string:
		if own, foreign := foreignTypes[t]; foreign && own == "" {
			return nil
		} else if foreign {
			return own
		}
	case []any:
		var list []any
		seen := map[string]bool{}
		for _, x := range t {
			own := ownType(x)
			if own == nil {
				return nil
			}
			if name, ok := own.(string); ok && seen[name] {
				continue // two foreign names of one type
			} else if ok {
				seen[name] = true
			}
			list = append(list, own)
		}
		return list
	}
	return v
}

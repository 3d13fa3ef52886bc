package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// ToolSchemaDocument is the document under which a set of tools is registered, and its digest (SHA-256, hex): a JSON
// array of {"name", "kind", "json_schema"} in the given order, without white space. A json_schema that isn't JSON stands
// in it as null, so that the digest of what was sent exists in any case.
func ToolSchemaDocument(tools []*ToolSchema) (doc []byte, digest string) {
	type tool struct {
		Name   string          `json:"name"`
		Kind   string          `json:"kind"`
		Schema json.RawMessage `json:"json_schema"`
	}
	list := make([]tool, 0, len(tools))
	for _, t := range tools {
		var schema bytes.Buffer
		if json.Compact(&schema, []byte(t.GetJsonSchema())) != nil {
			schema.Reset()
			schema.WriteString("null")
		}
		list = append(list, tool{Name: t.GetName(), Kind: t.GetKind().String(), Schema: schema.Bytes()})
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(list) // strings and valid raw JSON: nothing here can fail
	doc = bytes.TrimSpace(out.Bytes())
	sum := sha256.Sum256(doc)
	return doc, hex.EncodeToString(sum[:])
}

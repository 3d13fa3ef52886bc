package eventjson

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	"millrace/schemas/event"
)

// The reason codes of Decode, besides those of event.Validate.
const (
	ReasonMalformed    = "malformed_json"    // not JSON, or more than one value
	ReasonNotAnObject  = "not_an_object"     // a string, a number, …
	ReasonTooDeep      = "too_deep"          // nested deeper than MaxDepth
	ReasonUnknownField = "unknown_field"     // a key that the schema does not have
	ReasonDuplicateKey = "duplicate_key"     // a key that stands twice
	ReasonConflict     = "conflicting_field" // a second one of fields of which only one may be set
	ReasonWrongType    = "wrong_type"        // a value of another type than the field's
)

// MaxDepth is how deep brackets may be nested in one event. Tools' schemas and arguments are strings and don't count.
const MaxDepth = 64

// Decode reads one event in protobuf's JSON: names in lowerCamelCase (or as in the schema), times in RFC 3339, 64-bit
// numbers as strings or numbers, bytes in base64; the packed arrays of stepCompleted also as plain arrays of numbers.
// It does not apply event.Validate.
func Decode(item []byte) (*event.SessionEvent, *event.Invalid) {
	item = trim(item)
	if bad := checkOutline(item); bad != nil {
		return nil, bad
	}
	plain, bad := packArrays(item)
	if bad != nil {
		return nil, bad
	}
	e := &event.SessionEvent{}
	if protojson.Unmarshal(plain, e) != nil {
		return nil, diagnose(plain)
	}
	return e, nil
}

func checkOutline(item []byte) *event.Invalid {
	if len(item) == 0 {
		return &event.Invalid{Reason: ReasonMalformed, Message: "nothing between the commas"}
	}
	if item[0] != '{' {
		return &event.Invalid{Reason: ReasonNotAnObject, Message: fmt.Sprintf("an event is a JSON object; this begins with %q", item[0])}
	}
	end, deepest := balanced(item)
	switch {
	case end < 0:
		return &event.Invalid{Reason: ReasonMalformed, Message: "a string or bracket does not close"}
	case end != len(item):
		return &event.Invalid{Reason: ReasonMalformed, Message: "more than one JSON value where one event is expected"}
	case deepest > MaxDepth:
		return &event.Invalid{Reason: ReasonTooDeep, Message: fmt.Sprintf("nested %d deep; at most %d", deepest, MaxDepth)}
	}
	return nil
}

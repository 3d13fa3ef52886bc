package eventjson

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"millrace/schemas/event"
)

// identityFields say who an event is; each is read by itself, whatever the rest of the item looks like.
var identityFields = map[protoreflect.Name]bool{
	"source": true, "event_id": true, "session_id": true, "sequence": true, "turn_id": true, "unit_id": true,
	"occurred_at": true, "sent_at": true, "privacy": true,
}

// Identity reads of a refused item what can be read of who it is: an event without a body, and the schema's name of the body that
// it had, empty if it can't be told. The item may be broken or too large; of two events in one item none is meant.
func Identity(item []byte) (*event.SessionEvent, string) {
	e := &event.SessionEvent{}
	body := ""
	item = trim(item)
	if end, _ := balanced(item); end >= 0 && end < len(item) {
		return e, body
	}
	members(item, func(at member) bool {
		var key string
		if json.Unmarshal(item[at.key:at.keyEnd], &key) != nil {
			return true
		}
		fd := fieldNamed(e.ProtoReflect(), key)
		switch {
		case fd == nil:
		case identityFields[fd.Name()]:
			one := &event.SessionEvent{}
			value := item[at.value:at.valueEnd]
			alone := append(append([]byte(`{"`+fd.JSONName()+`":`), value...), '}')
			if protojson.Unmarshal(alone, one) == nil && one.ProtoReflect().Has(fd) {
				e.ProtoReflect().Set(fd, one.ProtoReflect().Get(fd))
			}
		case fd.ContainingOneof() != nil:
			body = string(fd.Name())
		}
		return true
	})
	return e, body
}

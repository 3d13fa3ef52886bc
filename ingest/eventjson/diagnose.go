package eventjson

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/schemas/event"
)

// diagnose finds the field for which the parser refused an item: it walks the item along the schema and lets the
// parser judge one value at a time.
func diagnose(item []byte) *event.Invalid {
	if bad := walk(item, (&event.SessionEvent{}).ProtoReflect(), ""); bad != nil {
		return bad
	}
	return &event.Invalid{Reason: ReasonMalformed, Message: "not JSON"}
}

func walk(object []byte, m protoreflect.Message, path string) *event.Invalid {
	seen := map[protoreflect.FieldNumber]bool{}
	chosen := map[protoreflect.FullName]string{}
	var bad *event.Invalid
	readable := members(object, func(at member) bool {
		var key string
		if json.Unmarshal(object[at.key:at.keyEnd], &key) != nil {
			bad = &event.Invalid{Reason: ReasonMalformed, Field: path, Message: fmt.Sprintf("%.60q is no JSON key", object[at.key:at.keyEnd])}
			return false
		}
		field := join(path, key)
		fd := fieldNamed(m, key)
		if fd == nil {
			bad = unknownField(m, field, object[at.value:at.valueEnd])
			return false
		}
		if seen[fd.Number()] {
			bad = &event.Invalid{Reason: ReasonDuplicateKey, Field: field, Message: "stands twice"}
			return false
		}
		seen[fd.Number()] = true
		value := object[at.value:at.valueEnd]
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() && string(value) != "null" {
			if other := chosen[one.FullName()]; other != "" {
				bad = &event.Invalid{Reason: ReasonConflict, Field: field, Message: "only one of " + other + " and " + key + " may be set"}
				return false
			}
			chosen[one.FullName()] = key
		}
		bad = judge(value, m, fd, field)
		return bad == nil
	})
	if bad == nil && !readable {
		bad = &event.Invalid{Reason: ReasonMalformed, Field: path, Message: "not a JSON object"}
	}
	return bad
}

// judge finds what is wrong with one field's value.
func judge(value []byte, m protoreflect.Message, fd protoreflect.FieldDescriptor, field string) *event.Invalid {
	if string(value) == "null" {
		return nil
	}
	nested := fd.Message() != nil && fd.Message().FullName() != (&timestamppb.Timestamp{}).ProtoReflect().Descriptor().FullName()
	switch {
	case fd.IsList() && nested:
		all, ok := elements(value, len(value))
		if !ok {
			return wrongType(value, fd, field, "an array of objects")
		}
		for i, element := range all {
			if bad := walk(element, m.NewField(fd).List().NewElement().Message(), fmt.Sprintf("%s[%d]", field, i)); bad != nil {
				return bad
			}
		}
		return nil
	case nested:
		if len(value) == 0 || value[0] != '{' {
			return wrongType(value, fd, field, "an object")
		}
		return walk(value, m.NewField(fd).Message(), field)
	}
	alone := fmt.Appendf(nil, "{%q:%s}", fd.JSONName(), value)
	if protojson.Unmarshal(alone, m.New().Interface()) == nil {
		return nil
	}
	return wrongType(value, fd, field, expected(fd))
}

func wrongType(value []byte, fd protoreflect.FieldDescriptor, field, want string) *event.Invalid {
	bad := &event.Invalid{Reason: ReasonWrongType, Field: field, Message: "must be " + want}
	quoted := len(value) > 0 && value[0] == '"'
	switch {
	case !json.Valid(value):
		bad.Reason, bad.Message = ReasonMalformed, "the value is not JSON: a control character must be escaped, a string or bracket closed"
	case quoted && fd.Kind() == protoreflect.StringKind:
		bad.Reason, bad.Message = event.ReasonInvalidText, "not Unicode text: half of a surrogate pair, or bytes that are not UTF-8"
	case quoted && fd.Kind() == protoreflect.EnumKind:
		bad.Reason = event.ReasonUnknownValue
	case isNumber(value) && isNumeric(fd.Kind()):
		bad.Reason = event.ReasonOutOfRange
	}
	return bad
}

func isNumeric(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.BoolKind, protoreflect.EnumKind,
		protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return true
}

// expected says what a field wants, for people.
func expected(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return "a string"
	case protoreflect.BytesKind:
		return "a string in base64"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.EnumKind:
		var names []string
		for i := range fd.Enum().Values().Len() {
			names = append(names, string(fd.Enum().Values().Get(i).Name()))
		}
		return "one of " + strings.Join(names, ", ")
	case protoreflect.MessageKind:
		return `a time in RFC 3339, such as "2026-11-01T12:00:00.123Z"`
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return "a whole number that is not negative"
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return "a whole number"
	}
	return "a finite number"
}

// unknownField tells an unknown body from a mere unknown key: bodies are objects at the top.
func unknownField(m protoreflect.Message, field string, value []byte) *event.Invalid {
	if _, top := m.Interface().(*event.SessionEvent); top && len(value) > 0 && value[0] == '{' {
		return &event.Invalid{Reason: event.ReasonUnknownBody, Field: field, Message: "no body of this name; there are " + strings.Join(bodyNames, ", ")}
	}
	return &event.Invalid{Reason: ReasonUnknownField, Field: field, Message: "no such field"}
}

func fieldNamed(m protoreflect.Message, key string) protoreflect.FieldDescriptor {
	fields := m.Descriptor().Fields()
	if fd := fields.ByJSONName(key); fd != nil {
		return fd
	}
	return fields.ByTextName(key)
}

var bodyNames = func() []string {
	var names []string
	fields := (&event.SessionEvent{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range fields.Len() {
		names = append(names, fields.Get(i).JSONName())
	}
	return names
}()

func join(path, key string) string {
	if len(key) > 60 {
		key = strings.ToValidUTF8(key[:60], "") + "…"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

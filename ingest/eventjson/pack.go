package eventjson

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"millrace/schemas/event"
)

// packer appends one number of a plain array to the packed bytes.
type packer func(packed []byte, number string) ([]byte, error)

func packInt32(packed []byte, number string) ([]byte, error) {
	n, err := strconv.ParseInt(number, 10, 32)
	return binary.LittleEndian.AppendUint32(packed, uint32(n)), err
}

func packFloat32(packed []byte, number string) ([]byte, error) {
	f, err := strconv.ParseFloat(number, 32)
	return binary.LittleEndian.AppendUint32(packed, math.Float32bits(float32(f))), err
}

func packByte(packed []byte, number string) ([]byte, error) {
	n, err := strconv.ParseUint(number, 10, 8)
	return append(packed, byte(n)), err
}

// packed are the fields of stepCompleted that may be plain arrays: by both of the names that protobuf's JSON takes.
var packed = map[string]struct {
	field string
	kind  string
	pack  packer
}{
	`"promptTokenIds"`:   {"promptTokenIds", "an int32", packInt32},
	`"prompt_token_ids"`: {"promptTokenIds", "an int32", packInt32},
	`"outputTokenIds"`:   {"outputTokenIds", "an int32", packInt32},
	`"output_token_ids"`: {"outputTokenIds", "an int32", packInt32},
	`"outputLogprobs"`:   {"outputLogprobs", "a number in the range of float32", packFloat32},
	`"output_logprobs"`:  {"outputLogprobs", "a number in the range of float32", packFloat32},
	`"outputMask"`:       {"outputMask", "0 or 1", packByte},
	`"output_mask"`:      {"outputMask", "0 or 1", packByte},
}

// packArrays replaces the plain arrays of a step by the base64 that protobuf's JSON wants. The item is returned as it
// is where it has none.
func packArrays(item []byte) ([]byte, *event.Invalid) {
	if !bytes.Contains(item, []byte("tepCompleted")) && !bytes.Contains(item, []byte("step_completed")) {
		return item, nil
	}
	var out []byte
	done := 0 // what of the item is in out
	var bad *event.Invalid
	members(item, func(body member) bool {
		if key := string(item[body.key:body.keyEnd]); key != `"stepCompleted"` && key != `"step_completed"` {
			return true
		}
		step := item[body.value:body.valueEnd]
		members(step, func(m member) bool {
			p, ok := packed[string(step[m.key:m.keyEnd])]
			array := step[m.value:m.valueEnd]
			if !ok || len(array) == 0 || array[0] != '[' {
				return true
			}
			var bytes []byte
			if bytes, bad = packArray(array, "stepCompleted."+p.field, p.kind, p.pack); bad != nil {
				return false
			}
			out = append(out, item[done:body.value+m.value]...)
			out = append(out, '"')
			out = base64.StdEncoding.AppendEncode(out, bytes)
			out = append(out, '"')
			done = body.value + m.valueEnd
			return true
		})
		return bad == nil
	})
	if bad != nil || done == 0 {
		return item, bad
	}
	return append(out, item[done:]...), nil
}

func packArray(array []byte, field, kind string, pack packer) ([]byte, *event.Invalid) {
	wrong := func(index int, text []byte) *event.Invalid {
		reason := ReasonWrongType
		if isNumber(text) {
			reason = event.ReasonOutOfRange
		}
		return &event.Invalid{Reason: reason, Field: fmt.Sprintf("%s[%d]", field, index), Message: fmt.Sprintf("%.40q is not %s", text, kind)}
	}
	var bytes []byte
	i := skipSpace(array, 1)
	if i == len(array)-1 && array[i] == ']' {
		return nil, nil
	}
	for index := 0; ; index++ {
		start := i
		for i < len(array) && array[i] != ',' && array[i] != ']' {
			i++
		}
		number := trim(array[start:i])
		var err error
		if !isNumber(number) {
			return nil, wrong(index, number)
		}
		if bytes, err = pack(bytes, string(number)); err != nil {
			return nil, wrong(index, number)
		}
		if i >= len(array) || (array[i] == ']' && i != len(array)-1) {
			return nil, &event.Invalid{Reason: ReasonMalformed, Field: field, Message: "not an array of numbers"}
		}
		if array[i] == ']' {
			return bytes, nil
		}
		i = skipSpace(array, i+1)
	}
}

// isNumber says whether a text has only the characters of a JSON number: no words, no hexadecimal.
func isNumber(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			return false
		}
	}
	return len(text) > 0
}

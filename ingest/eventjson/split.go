package eventjson

import (
	"bytes"
	"errors"
	"fmt"
)

var (
	// ErrEnvelope says that a request's outline can't be read, so that there are no items to answer.
	ErrEnvelope = errors.New("unreadable")
	// ErrTooMany says that there are more items than the limit.
	ErrTooMany = errors.New("too many items")
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// SplitDocument finds the items of a JSON document: one event, an array of events, or {"events": […]}. The items are
// parts of body and not judged yet. ErrEnvelope, ErrTooMany.
func SplitDocument(body []byte, limit int) ([][]byte, error) {
	body = trim(bytes.TrimPrefix(body, byteOrderMark))
	if len(body) == 0 {
		return nil, fmt.Errorf("%w: the body is empty; send an event, an array of events or {\"events\": […]}", ErrEnvelope)
	}
	switch body[0] {
	case '[':
		return splitArray(body, limit)
	case '{':
		return splitObject(body, limit)
	}
	return nil, fmt.Errorf("%w: the body begins with %q; send an event, an array of events or {\"events\": […]}", ErrEnvelope, body[0])
}

func splitArray(body []byte, limit int) ([][]byte, error) {
	items, ok := elements(body, limit)
	if !ok {
		return nil, fmt.Errorf("%w: the array's brackets don't close, or something follows it", ErrEnvelope)
	}
	if len(items) > limit {
		return nil, fmt.Errorf("%w: more than %d", ErrTooMany, limit)
	}
	return items, nil
}

func splitObject(body []byte, limit int) ([][]byte, error) {
	var batches, others int
	var events []byte
	ok := members(body, func(m member) bool {
		if string(body[m.key:m.keyEnd]) == `"events"` {
			batches++
			events = body[m.value:m.valueEnd]
		} else {
			others++
		}
		return true
	})
	switch {
	case batches == 0:
		if end, _ := balanced(body); end == len(body) {
			return [][]byte{body}, nil
		}
		return nil, fmt.Errorf("%w: the object's brackets don't close, or something follows it; one event a line is application/x-ndjson", ErrEnvelope)
	case !ok:
		return nil, fmt.Errorf("%w: the object around \"events\" is not JSON", ErrEnvelope)
	case batches > 1 || others > 0:
		return nil, fmt.Errorf("%w: the object around \"events\" may hold nothing else", ErrEnvelope)
	}
	return splitArray(events, limit)
}

// SplitLines finds the items of newline-delimited JSON: its lines that aren't blank. ErrTooMany.
func SplitLines(body []byte, limit int) ([][]byte, error) {
	var items [][]byte
	for line := range bytes.Lines(bytes.TrimPrefix(body, byteOrderMark)) {
		if line = trim(line); len(line) == 0 {
			continue
		}
		if len(items) == limit {
			return nil, fmt.Errorf("%w: more than %d", ErrTooMany, limit)
		}
		items = append(items, line)
	}
	return items, nil
}

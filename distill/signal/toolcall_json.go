package signal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxDepth    = 1000 // of containers in a call's arguments
	maxNumber   = 400  // characters of a number
	maxExponent = 400  // no float64 has more; an exact validator would build the number digit by digit
)

// parseStrict reads one JSON value and nothing beside it. Unlike encoding/json it refuses doubled keys, text that is
// not UTF-8, and numbers that no float64 can hold. Numbers stay json.Number.
func parseStrict(raw []byte) (any, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return readValue(dec, 0)
}

func readValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d containers in one another", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Number:
		return v, checkNumber(string(v))
	case json.Delim:
		if v == '{' {
			return readObject(dec, depth)
		}
		return readArray(dec, depth)
	}
	return token, nil
}

func readObject(dec *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, errors.New("a key is no text")
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("key %q stands there twice", key)
		}
		if object[key], err = readValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, err
}

func readArray(dec *json.Decoder, depth int) (any, error) {
	array := []any{}
	for dec.More() {
		v, err := readValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := dec.Token()
	return array, err
}

func checkNumber(s string) error {
	if len(s) > maxNumber {
		return errors.New("a number of too many digits")
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(s[i+1:])
		if err != nil || exponent > maxExponent || exponent < -maxExponent {
			return fmt.Errorf("number %s is out of range", s)
		}
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		return fmt.Errorf("number %s is out of range", s)
	}
	return nil
}

// at is the value at a place in the arguments; nil if there is none.
func at(value any, location []string) any {
	for _, step := range location {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

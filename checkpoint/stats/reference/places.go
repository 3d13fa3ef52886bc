package reference

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"

	"millrace/internal/unithash"
)

// sections are those of a file of places: where a hash puts a unit, and which range a place lies in.
var sections = map[string]computation{
	"hash":             on(place),
	"bucket_ranges":    on(ranges),
	"choose_variation": on(choose),
	"namespace":        on(namespace),
}

// placeTolerance is for decimal fractions of a place or a range.
const placeTolerance = 1e-9

func parsePlaces(text []byte) ([]Case, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("places: %w", err)
	}
	var cases []Case
	for _, name := range sortedKeys(sections) {
		if file[name] == nil {
			continue
		}
		var section struct{ Cases []json.RawMessage }
		if err := json.Unmarshal(file[name], &section); err != nil {
			return nil, fmt.Errorf("places: section %s: %w", name, err)
		}
		for i, input := range section.Cases {
			c, err := placeCase(name, input)
			if err != nil {
				return nil, fmt.Errorf("places: section %s, case %d: %w", name, i+1, err)
			}
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("places: no cases; the sections are %v, each with cases", sortedKeys(sections))
	}
	return cases, nil
}

func placeCase(section string, input json.RawMessage) (Case, error) {
	var c struct {
		Case, Seed, Value string
		Version           int
		Expected          any
	}
	if err := json.Unmarshal(input, &c); err != nil {
		return Case{}, err
	}
	name := c.Case
	if name == "" {
		name = fmt.Sprintf("version %d of %q and %q", c.Version, c.Seed, c.Value)
	}
	expected, err := flat(c.Expected)
	if err != nil {
		return Case{}, err
	}
	return Case{Name: section + ": " + name, Method: section, Input: input, Expected: map[string]any{"place": expected}, Tol: placeTolerance, compute: sections[section]}, nil
}

// flat makes numbers of what a place may be: nothing, yes or no, a number, or ranges.
func flat(v any) ([]any, error) {
	switch v := v.(type) {
	case nil:
		return []any{}, nil
	case bool:
		if v {
			return []any{1.}, nil
		}
		return []any{0.}, nil
	case float64:
		return []any{v}, nil
	case []any:
		out := []any{}
		for _, x := range v {
			more, err := flat(x)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
		return out, nil
	}
	return nil, errors.New("expected is null, true or false, a number, or a list of ranges")
}

func place(in struct {
	Seed, Value string
	Version     int
},
) values {
	switch in.Version {
	case 1:
		return values{"place": {older(in.Value + in.Seed)}}
	case 2:
		return values{"place": {float64(unithash.Bucket(in.Seed, in.Value)) / unithash.Buckets}}
	}
	return values{"place": {}} // a version that nobody knows has no place
}

// older is version 1 of the hash. Nothing is assigned by it any more.
func older(text string) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return float64(h.Sum32()%1000) / 1000
}

func ranges(in struct {
	Variations int `json:"num_variations"`
	Coverage   float64
	Weights    []float64
},
) values {
	var out []float64
	for _, r := range unithash.Ranges(in.Variations, in.Coverage, in.Weights) {
		out = append(out, r.From, r.To)
	}
	return values{"place": out}
}

func choose(in struct {
	N      float64
	Ranges [][2]float64
},
) values {
	all := make([]unithash.Range, len(in.Ranges))
	for i, r := range in.Ranges {
		all[i] = unithash.Range{From: r[0], To: r[1]}
	}
	return values{"place": {float64(unithash.Choose(int(math.Round(in.N*unithash.Buckets)), all))}}
}

// namespace asks whether a user's place by the older hash lies in a range.
func namespace(in struct {
	User      string
	Namespace [3]any
},
) values {
	id, _ := in.Namespace[0].(string)
	from, _ := in.Namespace[1].(float64)
	to, _ := in.Namespace[2].(float64)
	if at := older(in.User + "__" + id); at >= from && at < to {
		return values{"place": {1}}
	}
	return values{"place": {0}}
}

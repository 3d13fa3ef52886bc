package reference

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// Case is one published computation.
type Case struct {
	Name     string          `json:"name"`
	Source   string          `json:"source"`
	Method   string          `json:"method"`
	Input    json.RawMessage `json:"input"`
	Expected map[string]any  `json:"expected"` // a number or a list of numbers each
	Tol      float64         `json:"tol"`      // absolute

	compute computation // of a place, which has no name to be found by
}

// Status is how a case ended.
type Status string

const (
	Agrees  Status = "agrees"
	Off     Status = "off"     // computed, and further from the expected value than the tolerance
	Skipped Status = "skipped" // not a method of this gate
)

// Result is one case's outcome.
type Result struct {
	Name   string  `json:"name"`
	Status Status  `json:"status"`
	Worst  float64 `json:"worst"`            // the largest absolute difference
	Tol    float64 `json:"tol"`              // what was allowed
	Detail string  `json:"detail,omitempty"` // what is off, or why it was skipped
}

// Parse reads a file of cases: a JSON array of computations, or an object with the sections of places.
func Parse(text []byte) ([]Case, error) {
	if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		return parsePlaces(text)
	}
	var cases []Case
	if err := json.Unmarshal(text, &cases); err != nil {
		return nil, fmt.Errorf("reference cases: %w; the file is a JSON array of {name, method, input, expected, tol}", err)
	}
	for i, c := range cases {
		if c.Name == "" || len(c.Input) == 0 || len(c.Expected) == 0 {
			return nil, fmt.Errorf("reference case %d (%q): name, input and expected are all needed", i+1, c.Name)
		}
	}
	return cases, nil
}

// Run computes one case.
func Run(c Case) Result {
	r := Result{Name: c.Name, Tol: c.Tol}
	compute, ok := find(c)
	if !ok {
		r.Status, r.Detail = Skipped, "no method of the gate has this name, or takes this input and gives these values"
		return r
	}
	got, err := compute(c.Input)
	if err != nil {
		r.Status, r.Detail = Off, err.Error()
		return r
	}
	r.Status = Agrees
	for _, key := range sortedKeys(c.Expected) {
		want, err := numbers(c.Expected[key])
		if err != nil {
			r.Status, r.Detail = Off, fmt.Sprintf("expected.%s: %v", key, err)
			return r
		}
		have, ok := got[key]
		if !ok || len(have) != len(want) {
			r.Status, r.Detail = Off, fmt.Sprintf("expected.%s has %d numbers, computed were %d", key, len(want), len(have))
			return r
		}
		for i := range want {
			diff := math.Abs(have[i] - want[i])
			if !(diff <= r.Worst) { // so that NaN counts
				r.Worst = diff
			}
			if !(diff <= c.Tol) && r.Status == Agrees {
				r.Status = Off
				r.Detail = fmt.Sprintf("%s[%d] is %.10g, expected %.10g ± %g", key, i, have[i], want[i], c.Tol)
			}
		}
	}
	if math.IsNaN(r.Worst) || math.IsInf(r.Worst, 0) {
		r.Worst = math.MaxFloat64 // JSON has neither
	}
	return r
}

func find(c Case) (computation, bool) {
	if c.compute != nil {
		return c.compute, true
	}
	// A name may go on behind a slash, so that a file can have many of a kind.
	name, _, _ := strings.Cut(c.Name, "/")
	if m, ok := methods[name]; ok {
		return m, true
	}
	// A case that is new here is known by the shape of its input.
	var input map[string]json.RawMessage
	if json.Unmarshal(c.Input, &input) != nil {
		return nil, false
	}
	have := strings.Join(sortedKeys(input), " ")
	for _, s := range shapes {
		if s.input == have && !slices.ContainsFunc(sortedKeys(c.Expected), func(k string) bool { return !slices.Contains(s.expected, k) }) {
			return s.compute, true
		}
	}
	return nil, false
}

func numbers(v any) ([]float64, error) {
	switch v := v.(type) {
	case float64:
		return []float64{v}, nil
	case []any:
		out := make([]float64, len(v))
		for i, x := range v {
			n, ok := x.(float64)
			if !ok {
				return nil, fmt.Errorf("%v isn't a number", x)
			}
			out[i] = n
		}
		return out, nil
	}
	return nil, fmt.Errorf("%v is neither a number nor a list of numbers", v)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

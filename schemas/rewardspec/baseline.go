package rewardspec

import (
	"encoding/json"
	"fmt"
	"regexp"

	"gopkg.in/yaml.v3"
)

// Baseline is what scoring compares a turn with: numbers of earlier turns, by stratum, frozen and versioned.
// Strata hold only what was known before a turn's first step.
type Baseline struct {
	Version      string             `json:"version"`
	PEditUnknown float64            `json:"p_edit_unknown"` // between 0 and 1, neither of them: share of edit requests where nobody stamped the intent
	Shrinkage    float64            `json:"shrinkage"`      // units: a stratum's value is (n·mean + shrinkage·global) / (n + shrinkage)
	Global       Stratum            `json:"global"`
	Strata       map[string]Stratum `json:"strata,omitempty"`
}

// Stratum is the frozen numbers of one kind of turn.
type Stratum struct {
	PEdit    *float64 `json:"p_edit,omitempty"` // between 0 and 1: its own share of edit requests; nil: the baseline's PEditUnknown
	WallSP95 float64  `json:"wall_s_p95"`       // seconds, 95th percentile of wall time
	XRef     float64  `json:"x_ref"`            // 95th percentile of the weighted effort
	CharsP10 float64  `json:"chars_p10"`        // characters, 10th percentile of a turn's edits: below it an edit is tiny
	Value    float64  `json:"value"`            // unit-weighted mean reward without the invalid term, shrunk to the global mean
	Units    float64  `json:"units,omitempty"`  // that it was made of
}

// At is the stratum of that key, or the global numbers where the baseline has no such stratum.
func (b *Baseline) At(stratum string) Stratum {
	if s, ok := b.Strata[stratum]; ok {
		return s
	}
	return b.Global
}

// PEdit is the share of edit requests in the stratum, for turns whose intent nobody stamped.
func (b *Baseline) PEdit(stratum string) float64 {
	if p := b.At(stratum).PEdit; p != nil {
		return *p
	}
	return b.PEditUnknown
}

// BaselineV0 is in force before any cut, and in score.
func BaselineV0() *Baseline {
	return &Baseline{
		Version:      "v0",
		PEditUnknown: .5,
		Global:       Stratum{WallSP95: 300, XRef: 10_000, CharsP10: 20},
	}
}

// Encode writes the document, the same bytes for the same baseline.
func (b *Baseline) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		*Baseline
	}{APIVersion, BaselineKind, b}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("baseline %s: %w", b.Version, err)
	}
	return append(data, '\n'), nil
}

var versionShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// ParseBaseline reads a baseline document (YAML or JSON) as strictly as Parse.
func ParseBaseline(data []byte) (*Baseline, error) {
	d := &document{what: "baseline"}
	f := d.open(data, BaselineKind, []string{"version", "p_edit_unknown", "global"}, []string{"strata", "shrinkage"})
	if f == nil {
		return nil, d.err()
	}
	b := &Baseline{
		Version:      d.text(f["version"], "version"),
		PEditUnknown: d.number(f["p_edit_unknown"], "p_edit_unknown", "between 0 and 1, and neither", uncertain),
		Shrinkage:    d.number(f["shrinkage"], "shrinkage", "0 or more", notNegative),
	}
	if n := f["version"]; n != nil && b.Version != "" && !versionShape.MatchString(b.Version) {
		d.fail(n, "version %q: use letters, digits, '.', '_' and '-', at most 63", b.Version)
	}
	if n := f["global"]; n != nil {
		b.Global = d.stratum(n, "global")
	}
	if n := f["strata"]; n != nil {
		b.Strata = d.strata(n)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return b, nil
}

// uncertain is a share of edit requests where nobody said what the request was: never 0 and never 1, so that whether a
// question is one, and which turns settle together, depends on the log alone and on no baseline.
func uncertain(v float64) bool { return v > 0 && v < 1 }

func (d *document) strata(n *yaml.Node) map[string]Stratum {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "strata: expected a mapping from stratum to its numbers")
		return nil
	}
	strata := make(map[string]Stratum, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if _, twice := strata[key.Value]; twice {
			d.fail(key, "strata: %q stands there twice", key.Value)
		}
		strata[key.Value] = d.stratum(n.Content[i+1], fmt.Sprintf("stratum %q", key.Value))
	}
	return strata
}

func (d *document) stratum(n *yaml.Node, path string) Stratum {
	f := d.fields(n, path, []string{"wall_s_p95", "x_ref", "chars_p10", "value"}, []string{"p_edit", "units"})
	s := Stratum{
		WallSP95: d.number(f["wall_s_p95"], path+": wall_s_p95", "above 0", positive),
		XRef:     d.number(f["x_ref"], path+": x_ref", "above 0", positive),
		CharsP10: d.number(f["chars_p10"], path+": chars_p10", "0 or more", notNegative),
		Value:    d.number(f["value"], path+": value", "a number", anything),
		Units:    d.number(f["units"], path+": units", "0 or more", notNegative),
	}
	if f["p_edit"] != nil {
		p := d.number(f["p_edit"], path+": p_edit", "between 0 and 1, and neither", uncertain)
		s.PEdit = &p
	}
	return s
}

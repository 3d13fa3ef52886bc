package gatepolicy

import (
	_ "embed"
	"slices"
	"time"
)

// Kind is the document's kind.
const Kind = "GatePolicy"

// Mode says what SHIP asks for.
type Mode string

const (
	Improve  Mode = "improve"    // a win in at least one success metric, and every guardrail non-inferior
	DoNoHarm Mode = "do_no_harm" // every guardrail non-inferior, nothing to win
)

// Policy is the whole document. Probabilities and shares are in (0, 1); units are distinct users or
// organisations.
type Policy struct {
	Kind    string `yaml:"kind" json:"kind"`
	Name    string `yaml:"name" json:"name"`
	Version int    `yaml:"version" json:"version"`
	Mode    Mode   `yaml:"mode" json:"mode"`

	Success    []string `yaml:"success" json:"success"`
	Guardrails []Margin `yaml:"guardrails" json:"guardrails"`
	Harm       []Margin `yaml:"harm" json:"harm"`
	Shares     []Share  `yaml:"shares" json:"shares"`
	StillOpen  float64  `yaml:"still_open" json:"still_open"`

	Alphas Alphas  `yaml:"alphas" json:"alphas"`
	Power  float64 `yaml:"power" json:"power"`

	TestMinutes     float64 `yaml:"test_minutes" json:"test_minutes"`
	MaturityMinutes float64 `yaml:"maturity_minutes" json:"maturity_minutes"`
	MinMinutes      float64 `yaml:"min_minutes" json:"min_minutes"`
	MinUnits        int     `yaml:"min_units" json:"min_units"`
	MinEvents       float64 `yaml:"min_events" json:"min_events"`
	PlannedUnits    int     `yaml:"planned_units" json:"planned_units"`
	MultiExposure   float64 `yaml:"multi_exposure" json:"multi_exposure"`
	Coverage        float64 `yaml:"coverage" json:"coverage"`
	RequireApproval bool    `yaml:"require_approval" json:"require_approval"`
}

// Margin is the loss in a metric that is still accepted, as a share of the control's value or, for a rare
// rate, in the metric's own unit.
type Margin struct {
	Metric   string  `yaml:"metric" json:"metric"`
	Margin   float64 `yaml:"margin" json:"margin,omitempty"`
	Absolute float64 `yaml:"absolute" json:"absolute,omitempty"`
}

// Share is a quality metric and by how much it may differ between the arms, in shares of settled turns.
type Share struct {
	Metric    string  `yaml:"metric" json:"metric"`
	Tolerance float64 `yaml:"tolerance" json:"tolerance"`
}

// Alphas are the error probabilities, before they are split over their metrics.
type Alphas struct {
	Harm           float64 `yaml:"harm" json:"harm"`                       // a rollback although no harm margin is exceeded
	Win            float64 `yaml:"win" json:"win"`                         // a win at the end although nothing improved
	EarlyWin       float64 `yaml:"early_win" json:"early_win"`             // the same before the end
	Guardrail      float64 `yaml:"guardrail" json:"guardrail"`             // a margin passed at the end although it is exceeded, each
	EarlyGuardrail float64 `yaml:"early_guardrail" json:"early_guardrail"` // the same before the end
	Split          float64 `yaml:"split" json:"split"`                     // a sample ratio mismatch although the split is right
	Shares         float64 `yaml:"shares" json:"shares"`                   // unequal shares although they are alike
}

// HarmMargin returns the margin beyond which a loss in the metric ends the test.
func (p Policy) HarmMargin(metric string) (Margin, bool) { return find(p.Harm, metric) }

// Guardrail returns the margin that the metric has to be shown to keep.
func (p Policy) Guardrail(metric string) (Margin, bool) { return find(p.Guardrails, metric) }

func find(margins []Margin, metric string) (Margin, bool) {
	i := slices.IndexFunc(margins, func(m Margin) bool { return m.Metric == metric })
	if i < 0 {
		return Margin{}, false
	}
	return margins[i], true
}

// Window returns until when a turn has to have started to count, and the declared end, of a test that starts
// at this moment of log time.
func (p Policy) Window(start time.Time) (countsUntil, end time.Time) {
	end = start.Add(minutes(p.TestMinutes))
	return end.Add(-minutes(p.MaturityMinutes)), end
}

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

//go:embed default.yaml
var defaultText []byte

//go:embed gatepolicy.schema.json
var schemaText []byte

//go:embed large.yaml
var largeText []byte

//go:embed small.yaml
var smallText []byte

// DefaultText is the shipped policy as a document with its comments.
func DefaultText() []byte { return slices.Clone(defaultText) }

// Shipped are the names of the shipped policies: of the default one, of one for hundreds of thousands of units in a
// test, and of one for hundreds.
var Shipped = []string{"default", "large", "small"}

// ShippedText is a shipped policy as a document with its comments; false if there is none of that name.
func ShippedText(name string) ([]byte, bool) {
	text, ok := map[string][]byte{"default": defaultText, "large": largeText, "small": smallText}[name]
	return slices.Clone(text), ok
}

// Schema is the document's JSON Schema, for editors.
func Schema() []byte { return slices.Clone(schemaText) }

// Default is the shipped policy.
func Default() Policy {
	p, err := Parse(defaultText)
	if err != nil {
		panic(err) // the file is part of the binary, and a test parses it
	}
	return p
}

package gate

import (
	"time"

	"millrace/schemas/gatepolicy"
	"millrace/schemas/metric"
)

// Policy is the document by which the gate decides.
type Policy = gatepolicy.Policy

// Decision is what the gate says about the candidate.
type Decision string

const (
	// Running: the test goes on.
	Running Decision = "RUNNING"
	// Ship: the candidate may be promoted.
	Ship Decision = "SHIP"
	// Hold: the test ended without enough evidence. It never means "no difference".
	Hold Decision = "HOLD"
	// Rollback: a metric is surely worse than its harm margin. Final: it stays when later sums look better.
	Rollback Decision = "ROLLBACK"
	// Invalid: the arms can't be compared, so nothing is known. Final.
	Invalid Decision = "INVALID"
)

// Final reports whether the test is over with this decision.
func (d Decision) Final() bool { return d != Running }

// Verdict is the decision with all that it rests on. It holds no number that JSON can't carry.
type Verdict struct {
	Experiment    string          `json:"experiment"`
	Candidate     string          `json:"candidate"`
	Decision      Decision        `json:"decision"`
	Mode          gatepolicy.Mode `json:"mode"`
	Early         bool            `json:"early,omitempty"`          // SHIP before the declared end
	NeedsApproval bool            `json:"needs_approval,omitempty"` // a person stands between SHIP and the promotion
	At            time.Time       `json:"at"`                       // log time through which the sums are complete
	Ended         bool            `json:"ended"`                    // the declared end is reached in every partition
	Units         Arms            `json:"units"`
	Reasons       []string        `json:"reasons"` // why this decision
	Metrics       []Finding       `json:"metrics"`
	Checks        []Check         `json:"checks"`     // is the comparison one at all? A failed one is INVALID
	Conditions    []Check         `json:"conditions"` // what SHIP needs besides; a failed one is HOLD
	WouldChange   []string        `json:"would_change"`
	Policy        PolicyRef       `json:"policy"`
	SumsDigest    string          `json:"sums_digest"` // SHA-256 of the sums in their canonical order
}

// PolicyRef names the policy.
type PolicyRef struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// Finding is one metric in both arms.
type Finding struct {
	Metric         string       `json:"metric"`
	Title          string       `json:"title"`
	HigherIsBetter bool         `json:"higher_is_better"`
	Scale          metric.Scale `json:"scale"`
	Success        bool         `json:"success,omitempty"`
	Guardrail      bool         `json:"guardrail,omitempty"`

	Observed  bool    `json:"observed"` // false: too little to state a lift; Sentence says what is missing
	Events    float64 `json:"events"`   // in both arms, of the kind that the metric counts
	Control   Side    `json:"control"`
	Candidate Side    `json:"candidate"`

	// Change is the candidate's relative change as it is read, −0.1 for a latency that fell by 10 %, with
	// its 95 % interval: of the fixed test at the end, of the confidence sequence before.
	Change     float64 `json:"change"`
	ChangeLow  float64 `json:"change_low"`
	ChangeHigh float64 `json:"change_high"`

	// Lift and SE are those of the relative change, of its logarithm for rare rates, signed so that positive is a
	// benefit. Bounds of rare rates and of latency come from logarithms.
	Lift  float64 `json:"lift"`
	SE    float64 `json:"se"`
	Tests []Test  `json:"tests"`

	Sentence string `json:"sentence"`
}

// Side is a metric in one arm.
type Side struct {
	Value    float64 `json:"value"`
	Num      float64 `json:"num"`
	Den      float64 `json:"den"`
	Clusters int     `json:"clusters"` // buckets with a denominator
}

// TestName names a test of a metric.
type TestName string

const (
	// Win: one-sided superiority, decided once at the end.
	Win TestName = "win"
	// EarlyWin: superiority by a confidence sequence, before the end.
	EarlyWin TestName = "early_win"
	// Guardrail: one-sided non-inferiority, decided once at the end.
	Guardrail TestName = "guardrail"
	// EarlyGuardrail: non-inferiority by a confidence sequence, for a SHIP before the end.
	EarlyGuardrail TestName = "early_guardrail"
	// Harm: a confidence sequence wholly beyond the harm margin, at any time.
	Harm TestName = "harm"
)

// Test is a bound against a threshold.
type Test struct {
	Name       TestName `json:"name"`
	Alpha      float64  `json:"alpha"`                 // its share, after splitting
	RhoSquared float64  `json:"rho_squared,omitempty"` // of a confidence sequence
	Factor     float64  `json:"factor"`                // the bound lies this many standard errors off the lift
	// Bound and Threshold are benefit-signed: a relative change, or a difference in the metric's own unit when
	// Absolute. Win and guardrail are met by a lower bound above the threshold, harm by an upper bound below it.
	Bound     float64 `json:"bound"`
	Threshold float64 `json:"threshold"`
	Absolute  bool    `json:"absolute,omitempty"`
	Active    bool    `json:"active"` // there is enough to judge
	Met       bool    `json:"met"`
	// UnitsNeeded is at how many units in both arms the same lift would meet a win or a guardrail; 0 when no
	// traffic would.
	UnitsNeeded float64 `json:"units_needed,omitempty"`
}

// Test returns the finding's test of that name.
func (f Finding) Test(name TestName) (Test, bool) {
	for _, t := range f.Tests {
		if t.Name == name {
			return t, true
		}
	}
	return Test{}, false
}

// Met reports whether the finding's test of that name is there, active and met.
func (f Finding) Met(name TestName) bool {
	t, ok := f.Test(name)
	return ok && t.Active && t.Met
}

// Status is how a check stands.
type Status string

const (
	Passed      Status = "passed"
	Failed      Status = "failed"
	Pending     Status = "pending"      // not enough yet to judge
	NotMeasured Status = "not_measured" // nobody counted it: not known, and not taken for passed
)

// Check is something besides the metrics' lifts.
type Check struct {
	Name     string  `json:"name"`
	Status   Status  `json:"status"`
	Value    float64 `json:"value"`
	Limit    float64 `json:"limit"`
	Sentence string  `json:"sentence"`
	Remedy   string  `json:"remedy,omitempty"` // of a failed one
}

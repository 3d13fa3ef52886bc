package web

import (
	"time"
)

// Status is what the page shows. A number that is not known is nil, and shown as such, never as 0.
type Status struct {
	// LogTime is how far the committed log has come; zero before the first record.
	LogTime time.Time `json:"log_time,omitzero"`
	// StartedAt is the log time at which the current cycle began, and CycleHours its length; zero if there is none.
	StartedAt  time.Time `json:"started_at,omitzero"`
	CycleHours float64   `json:"cycle_hours,omitempty"`
	// Parts name what the process runs on: "postgres 15 (local)", "kafka (embedded)", …
	Parts []string `json:"parts,omitempty"`
	// Note is a sentence that must not be overlooked, such as that traffic is simulated.
	Note string `json:"note,omitempty"`

	Live       *Live       `json:"live"`
	Experiment *Experiment `json:"experiment"`
	Verdict    *Verdict    `json:"verdict"`
	Records    Records     `json:"records"`
	Turns      Turns       `json:"turns"`
	Shards     Shards      `json:"shards"`
	Rewards    []Reward    `json:"rewards"`
	Cuts       []Cut       `json:"cuts"`
	Candidates []Candidate `json:"candidates"`
	NextCutAt  time.Time   `json:"next_cut_at,omitzero"`
	// Next is what the cut or the candidate waits for: "submit by 06:00, 23 min left".
	Next string `json:"next,omitempty"`
	// ByRows says how far it is to the next cut where cuts are due by rows; then NextCutAt is the latest time.
	ByRows string `json:"by_rows,omitempty"`
	// Alarms are sentences of monitors and halted partitions, each with what to do.
	Alarms []string `json:"alarms"`
}

// Live is the checkpoint that serves everybody who is in no experiment.
type Live struct {
	Version  string    `json:"version"`
	Since    time.Time `json:"since"`
	Previous string    `json:"previous,omitempty"`
	Reason   string    `json:"reason,omitempty"` // why it is live: "SHIP of cand-1", "initial", "rolled back by …"
}

// Experiment is the one in test, or the last one.
type Experiment struct {
	ID        string    `json:"id"`
	Running   bool      `json:"running"`
	StartsAt  time.Time `json:"starts_at"`
	EndsAt    time.Time `json:"ends_at"`
	Control   Arm       `json:"control"`
	Candidate Arm       `json:"candidate"`
	// SRM is the p-value of the sample ratio test: nil until units were exposed.
	SRM     *float64 `json:"srm_p"`
	Metrics []Metric `json:"metrics"`
}

// Arm is one side of an experiment.
type Arm struct {
	Version string `json:"version"`
	Units   int64  `json:"units"`
	Turns   int64  `json:"turns"`
}

// Unit says how a metric's lift reads.
type Unit string

// The units of a lift.
const (
	Percent Unit = "%"  // lift, low and high are relative: .02 is 2 %
	Points  Unit = "pp" // they are differences of rates: .02 is 2 percentage points
)

// Metric is one metric's evidence so far. Lifts are signed so that positive is a benefit.
type Metric struct {
	Name      string   `json:"name"`
	Title     string   `json:"title"`
	Role      string   `json:"role"` // success, guardrail, quality
	Control   *float64 `json:"control"`
	Candidate *float64 `json:"candidate"`
	Unit      Unit     `json:"unit"`
	Lift      *float64 `json:"lift"`
	Low       *float64 `json:"low"` // the two-sided 95 % interval
	High      *float64 `json:"high"`
	Margin    *float64 `json:"margin,omitempty"` // of a guardrail, positive: low must stay above minus this
	Passes    *bool    `json:"passes"`           // nil: not decided
}

// Verdict is the gate's last one.
type Verdict struct {
	Candidate string    `json:"candidate"`
	Decision  string    `json:"decision"` // SHIP, HOLD, ROLLBACK, INVALID
	At        time.Time `json:"at"`
	Sentences []string  `json:"sentences"` // why, and what would change it
}

// Records is the balance of records read, over all partitions.
type Records struct {
	Read         int64 `json:"read"`
	Applied      int64 `json:"applied"`
	Amended      int64 `json:"amended"`
	Duplicate    int64 `json:"duplicate"`
	Orphan       int64 `json:"orphan"`
	Expired      int64 `json:"expired"`
	DeadLettered int64 `json:"dead_lettered"`
	Control      int64 `json:"control"`
}

// Balanced says whether every record read is accounted for.
func (r Records) Balanced() bool {
	return r.Read == r.Applied+r.Amended+r.Duplicate+r.Orphan+r.Expired+r.DeadLettered+r.Control
}

// Turns is the balance of turns, over all partitions.
type Turns struct {
	Sessions *int64        `json:"sessions,omitempty"`
	Opened   int64         `json:"opened"`
	Open     int64         `json:"open"`
	Settled  []Disposition `json:"settled"`
}

// Disposition is how many turns settled in it.
type Disposition struct {
	Name  string `json:"name"`
	Turns int64  `json:"turns"`
}

// SettledInAll is the number of settled turns.
func (t Turns) SettledInAll() int64 {
	sum := int64(0)
	for _, d := range t.Settled {
		sum += d.Turns
	}
	return sum
}

// Balanced says whether every turn that was opened is settled or open.
func (t Turns) Balanced() bool { return t.Opened == t.SettledInAll()+t.Open }

// Shards are the sample files that trainers can pull.
type Shards struct {
	Count int64 `json:"count"`
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
}

// Reward is the mean reward of one policy version's rewarded turns.
type Reward struct {
	Version string   `json:"version"`
	Turns   int64    `json:"turns"`
	Mean    *float64 `json:"mean"`
}

// Cut is the frozen training set of one interval.
type Cut struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	State  string    `json:"state"`
	Base   string    `json:"base,omitempty"`
	Rows   *int64    `json:"rows"`
	Shards *int64    `json:"shards"`
	Reason string    `json:"reason,omitempty"` // why it was skipped or waits
}

// Candidate is a checkpoint that came out of a cut.
type Candidate struct {
	ID      string    `json:"id"`
	Version string    `json:"version,omitempty"`
	Cut     string    `json:"cut"`
	State   string    `json:"state"`
	At      time.Time `json:"at"` // of its last step
	Reason  string    `json:"reason,omitempty"`
}

// Balanced says whether both balances hold.
func (s Status) Balanced() bool { return s.Records.Balanced() && s.Turns.Balanced() }

// withEmptyLists makes lists that are empty read as [] in JSON rather than null, which clients take for missing.
func (s Status) withEmptyLists() Status {
	s.Rewards = listed(s.Rewards)
	s.Cuts = listed(s.Cuts)
	s.Candidates = listed(s.Candidates)
	s.Alarms = listed(s.Alarms)
	s.Turns.Settled = listed(s.Turns.Settled)
	if s.Experiment != nil {
		e := *s.Experiment
		e.Metrics = listed(e.Metrics)
		s.Experiment = &e
	}
	return s
}

func listed[T any](list []T) []T { return append([]T{}, list...) }

package rewardspec

import (
	_ "embed"
	"time"

	"millrace/schemas/event"
)

// ScenariosKind is what a document of scenario tests calls itself.
const ScenariosKind = "RewardScenarios"

// Scenarios are tests of a reward spec: ways of acting, and which of them must score higher.
type Scenarios struct {
	Behaviours []Behaviour
	Order      [][]string // names of behaviours, best first; those of one entry may tie
	Scenarios  []Scenario
}

// Behaviour is a way of acting that has a name, so that scenarios and the order can use it.
type Behaviour struct {
	Name  string
	Title string // as a table shows it
	Acts  []Act
	Line  int
}

// Scenario is one test: a pair of sides of which one must score higher, or a single turn. What counts is the first
// turn of a side; later ones are what the user did next.
type Scenario struct {
	Name string
	Why  string // the hack that it closes, in a sentence

	Better, Worse []Act    // a pair, or
	Turn          []Act    // one turn
	By            *float64 // least margin of a pair; nil: any above 0; 0: they may tie
	On            Measure
	AsWritten     bool // no variation of it means the same
	Trained       bool // whether a single turn must be trained on: both sides of a pair must always be
	Line          int
}

// Measure is what a pair is compared by.
type Measure string

// Measures of a turn. The span is the lowest advantage of any trained token: that of a malformed call's step.
const (
	OnReward    Measure = "reward"
	OnAdvantage Measure = "advantage"
	OnSpan      Measure = "span"
)

// Act is one thing that the agent, the user or the world does; exactly one field but Line is set.
type Act struct {
	Line int

	Start   *StartAct
	Step    *StepAct
	Call    *CallAct
	Edit    *EditAct
	Decide  *DecideAct
	Observe *ObserveAct
	Checks  *ChecksAct
	Judge   *JudgeAct
	Thumb   *float64 // -1…+1
	End     *EndAct
	Wait    time.Duration
	Stub    string // the last event with this body was too large for the log: only its stub arrives
	Infra   event.InfrastructureStatus
	Repeat  *RepeatAct
}

// StartAct is a request of the user; it begins a turn.
type StartAct struct {
	Intent     event.Intent // as the backend stamped it
	Relation   event.Relation
	Text       string // empty: some request, unlike all others of the session
	Command    bool   // a command of the client
	StackTrace bool   // with a pasted stack trace
}

// StepAct is one generation of the model.
type StepAct struct {
	Tokens    uint32 // of text to the user
	Thinking  uint32
	Arguments uint32 // tokens of tool arguments
	Seconds   float64
	Stop      string // default "stop"
}

// CallAct is a tool call and its result. The tools are read_file, search, edit_file, run and ask_user.
type CallAct struct {
	Tool         string
	Arguments    string            // as the model wrote them
	Outcome      event.ToolOutcome // unspecified: no result ever came
	OutputTokens uint32
	Repaired     bool   // by the harness, before it ran
	Group        string // calls of one group run side by side
}

// EditAct proposes an edit, by a call of edit_file.
type EditAct struct {
	Characters   uint32 // added
	Removed      uint32
	Shown        bool // to the user, default true
	Applied      bool // written to the working tree at once
	TestsRemoved *uint32
}

// AllEdits is every edit of the turn.
const AllEdits = -1

// DecideAct is a decision on one of the turn's edits.
type DecideAct struct {
	Edit     int // from 1 in the order of the turn; 0: the last; or AllEdits
	As       event.Decision
	By       event.DecisionSource
	WithText bool
}

// ObserveAct is what is left of an edit, seen at one or more times after it was decided. Time goes on until then.
type ObserveAct struct {
	Edit   int // as in DecideAct
	AfterS []float64
	Kept   float64 // 0…1: both survival scores
}

// ChecksAct is a run of a check; nil where a number is not known.
type ChecksAct struct {
	Kind          event.CheckKind
	Before, After *uint32 // failures
	ByUser        bool
}

// JudgeAct is a judge's verdict on what the user said next.
type JudgeAct struct {
	Class      event.FollowUpClass
	Polarity   float64
	Confidence float64
}

// EndAct ends the turn.
type EndAct struct {
	Reason event.EndReason
	Asks   bool // the last message asks the user something
	Offers bool // it offers further work
	Todos  *uint32
}

// RepeatAct does the same several times.
type RepeatAct struct {
	Times int
	Acts  []Act
}

//go:embed scenarios.yaml
var scenarios []byte

//go:embed scenarios.schema.json
var scenariosSchema []byte

// DefaultScenarios are the shipped ones and their document.
func DefaultScenarios() (*Scenarios, []byte) {
	s, err := ParseScenarios(scenarios)
	if err != nil {
		panic("the shipped scenarios are broken: " + err.Error()) // a test reads them
	}
	return s, append([]byte(nil), scenarios...)
}

// ScenariosSchema is the JSON Schema (2020-12) of scenarios, for editors.
func ScenariosSchema() []byte { return append([]byte(nil), scenariosSchema...) }

package candidate

import "slices"

import "fmt"

// State is where a candidate stands.
type State string

// The states. The text of each is what a report says about it.
const (
	None       State = ""            // before the first event
	Training   State = "training"    // its cut is packed; a trainer may submit
	Submitted  State = "submitted"   // handed in, its files not yet checked
	Refused    State = "refused"     // its files are not what was declared; a corrected one may be submitted
	Verified   State = "verified"    // every digest holds; the version has its ordinal
	Evaluating State = "evaluating"  // the offline suites run, then it waits for the start of its test
	Rejected   State = "rejected"    // an offline suite was not passed
	Testing    State = "testing"     // serves its arm
	Promoted   State = "promoted"    // serves everybody
	Held       State = "held"        // no benefit was shown; a person may still promote it
	RolledBack State = "rolled_back" // harm was shown, or a person took it back
	Invalid    State = "invalid"     // the test itself was broken: no verdict on the candidate
	Superseded State = "superseded"  // was live until another was promoted
	TimedOut   State = "timed_out"   // a step missed its time
)

// transitions is the one table of what may follow what; the database's CHECK has the same pairs.
var transitions = map[State][]State{
	None:       {Training},
	Training:   {Submitted, TimedOut},
	Submitted:  {Verified, Refused, TimedOut},
	Refused:    {Submitted, TimedOut},
	Verified:   {Evaluating, TimedOut},
	Evaluating: {Testing, Rejected, TimedOut},
	Testing:    {Promoted, Held, RolledBack, Invalid, TimedOut},
	Held:       {Promoted}, // by a person
	Promoted:   {Superseded, RolledBack},
	Superseded: {Promoted}, // its successor was rolled back
}

// May says whether a candidate may go from one state to another.
func (s State) May(to State) bool {
	return slices.Contains(transitions[s], to)
}

// Open says whether the candidate is still on its way to a verdict.
func (s State) Open() bool {
	switch s {
	case Training, Submitted, Refused, Verified, Evaluating, Testing:
		return true
	default:
		return false
	}
}

// TransitionError is a step that the table does not know.
type TransitionError struct {
	Candidate string
	From, To  State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("candidate %s is %s and can't become %s", e.Candidate, e.From, e.To)
}

// Fold is the state after a candidate's events, in order.
func Fold(id string, events []Event) (State, error) {
	state := None
	for _, e := range events {
		if e.From != state || !state.May(e.State) {
			return state, &TransitionError{Candidate: id, From: state, To: e.State}
		}
		state = e.State
	}
	return state, nil
}

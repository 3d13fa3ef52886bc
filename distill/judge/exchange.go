package judge

import (
	"context"
	"errors"

	"millrace/schemas/event"
)

// Judge says what a user's next request shows of the turn before it. There may be several calls at once.
type Judge interface {
	// Judge gives a verdict, or one that abstains. An error means that the exchange was not looked at; if it is ErrAway,
	// asking again later makes sense.
	Judge(ctx context.Context, x Exchange) (Verdict, error)
	// Version names who judges, and by which prompt: the classifier version of the evidence.
	Version() string
}

// ErrAway says that nobody judges at the moment: the endpoint can't be reached, is overloaded, or refuses us.
var ErrAway = errors.New("the judge does not answer")

// Exchange is what a judge sees: two requests of the user, and between them what the turn did, as numbers. No code that
// the agent read or wrote is in it, and no word of the agent.
type Exchange struct {
	Request string `json:"request"` // that began the turn
	Turn    Turn   `json:"turn"`
	Next    string `json:"next"` // the user's next request
}

// Turn is what a turn did.
type Turn struct {
	DeliveredEdit bool `json:"delivered_an_edit"`
	Accepted      int  `json:"edits_accepted_by_the_user"`
	Rejected      int  `json:"edits_rejected_by_the_user"`
	AskedBack     bool `json:"ended_by_asking_the_user"`
	OfferedMore   bool `json:"ended_by_offering_more_work"`
	Stopped       bool `json:"stopped_by_the_user"`
	Finished      bool `json:"finished"`
}

// Why there is no verdict.
const (
	AbstainedNoMajority = "no_majority" // the votes differ
	AbstainedUnclear    = "unclear"     // the model said that it can't tell
	AbstainedUnreadable = "unreadable"  // what came is not the answer that was asked for
	AbstainedRefused    = "refused"     // the endpoint doesn't take this exchange, for instance for its length
	AbstainedTimeout    = "timeout"     // too many votes took too long
)

// Verdict is what a judge says of an exchange.
type Verdict struct {
	Class      event.FollowUpClass
	Polarity   float64 // −1, 0, +1
	Confidence float64 // 0…1
	Abstained  string  // why there is no verdict; "": there is one
	Votes      Votes
}

// Votes are how many votes ended how.
type Votes struct {
	Cast, Unclear, Unreadable, Refused, Timeout, Failed int
}

// Answered is how many of the calls got an answer, whatever it was.
func (v Votes) Answered() int { return v.Cast + v.Unclear + v.Unreadable + v.Refused }

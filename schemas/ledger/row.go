package ledger

import "time"

// Value is a number that may not have been observed. The zero Value is null: missing is never 0.
type Value struct {
	Number float64
	Known  bool
}

// Of is an observed number.
func Of(number float64) Value { return Value{Number: number, Known: true} }

// Disposition is the one class in which a settled turn ends.
type Disposition string

// The dispositions. Each that keeps a turn out of training needs evidence from outside the turn.
const (
	Rewarded    Disposition = "rewarded"     // evidence applies and the tokens are here: in a shard
	NoTokens    Disposition = "no_tokens"    // evidence applies, but no token ids: ledger and A/B only
	Censored    Disposition = "censored"     // no evidence at all
	Faulted     Disposition = "faulted"      // a provider's or harness's failure, by outside evidence
	Incomplete  Disposition = "incomplete"   // records were lost in transport
	MixedPolicy Disposition = "mixed_policy" // more policy versions inside the turn than the spec allows
	Withheld    Disposition = "withheld"     // privacy, erasure, or a person's quarantine
)

// Dispositions in the order in which reports name them.
var Dispositions = []Disposition{Rewarded, NoTokens, Censored, Faulted, Incomplete, MixedPolicy, Withheld}

// Kind says what a row of the ledger is.
type Kind string

const (
	Turn      Kind = "turn"      // a settled turn; never changes
	Amendment Kind = "amendment" // what was observed after it had settled
)

// Component is a reward component of one turn; a null value was not observed.
type Component struct {
	Name  string
	Value Value
}

// Row is one settled turn, or one amendment of it. It holds no text and no code.
type Row struct {
	Kind      Kind
	Source    string // of an amendment: with EventID the key that makes amendments a set
	EventID   string
	EventBody string // of an amendment: the body's name

	SessionID      string
	TurnID         string
	UnitHash       string
	PolicyVersion  string   // of the first step; "none" without one
	PolicyVersions []string // all of them, in order of appearance
	Experiment     string
	Arm            string
	Origin         string // live, simulated, imported
	Intent         string
	HarnessVersion string
	Language       string
	SizeClass      string
	Stratum        string

	RewardSpec        string // name@version
	RewardSpecDigest  string
	ClassifierVersion string
	BaselineVersion   string
	ToolSchemaDigest  string

	Signals       []Value // one for each of Signals, in that order
	FollowUpClass string  // "" if null
	Components    []Component
	Reward        Value
	Advantage     Value

	Disposition Disposition
	Reason      string // why, in a few words: "judge", "sequence gap 7..9", …
	Outcome     string // completed, aborted, length, unended, error

	// What a replay under another spec needs besides the signals.
	PEditStratum      string        // the stratum whose frozen share of edit requests p_edit is; "": p_edit is certain
	Question          bool          // it ended asking instead of editing, and was scored as a question
	Answered          bool          // its question was answered; the answer may have settled before it
	QuestionsToAnswer int32         // questions from this turn to the answer, at least 1; 0 if it asked nothing
	AnsweredBy        string        // turn id of the last turn of its chain, whose reward the question shares; "" if none
	SettleAfter       time.Duration // of the spec in force when it ended; 0: it never ended
	WithoutTokens     string        // why there are no tokens to train on; "" if there are
	Sequences         int32         // token sequences that there are to train on, whatever the disposition

	Chain    int32 // turns that settled together with this one (a question and its answer), 1 if alone
	Branches int32 // sample rows of the turn: its sequences if it is rewarded, else 0

	Topic       string
	Partition   int32
	FirstOffset int64
	LastOffset  int64
	StartedAt   time.Time // skew-corrected, by the client's clock
	EndedAt     time.Time // zero: it never ended
	SettledAt   time.Time // log time
}

// Signal finds a signal of the row by its name ("edits.retention"); null if the name is unknown.
func (r *Row) Signal(name string) Value {
	if i, ok := SignalIndex[name]; ok && i < len(r.Signals) {
		return r.Signals[i]
	}
	return Value{}
}

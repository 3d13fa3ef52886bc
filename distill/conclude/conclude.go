package conclude

import (
	"fmt"
	"strings"

	"millrace/distill/reward"
	"millrace/schemas/ledger"
)

// Poison begins the reason of a turn whose events our own code could not fold: its row has nothing to score.
const Poison = "poison: "

// Ruling is a disposition that the log alone gives a turn, whatever the spec: withheld, incomplete or faulted. The zero
// Ruling is none.
type Ruling struct {
	Disposition ledger.Disposition
	Reason      string
}

// Turn scores a row by its own values: stratum, signals, follow-up, what it asked, and whether there are tokens. It sets
// components, reward, advantage, disposition, reason and branches. The final row is that of the turn named by AnsweredBy,
// concluded before; nil if the row names none. A final turn without a reward gives its disposition to the questions
// before it, which were worth what came of them.
func Turn(r *reward.Reward, row *ledger.Row, ruling Ruling, final *ledger.Row) {
	result := r.Score(input(row, final))
	row.Components, row.Reward, row.Advantage = result.Components, ledger.Value{}, ledger.Value{}
	row.Disposition, row.Reason = disposition(r, row, ruling, result.Evidence)
	if final != nil && !final.Reward.Known && (trainable(row.Disposition) || row.Disposition == ledger.Censored) {
		row.Disposition, row.Reason = final.Disposition, inherited+final.Reason
	}
	if trainable(row.Disposition) || row.Disposition == ledger.MixedPolicy {
		row.Reward, row.Advantage = result.Reward, result.Advantage
	}
	row.Branches = 0
	if row.Disposition == ledger.Rewarded {
		row.Branches = row.Sequences
	}
}

const inherited = "the turn that answered it: "

// RulingOf finds in a row that was concluded before what the log alone said of it. The final row is that of the
// turn named by AnsweredBy as it was concluded together with this one: what the row only has from there is no ruling.
func RulingOf(row, final *ledger.Row) Ruling {
	switch row.Disposition {
	case ledger.Withheld, ledger.Incomplete, ledger.Faulted:
		if final != nil && row.Disposition == final.Disposition && row.Reason == inherited+final.Reason {
			return Ruling{}
		}
		return Ruling{row.Disposition, row.Reason}
	default:
		return Ruling{}
	}
}

// Poisoned says whether the row is of a turn that could not be folded.
func Poisoned(row *ledger.Row) bool {
	return row.Disposition == ledger.Withheld && strings.HasPrefix(row.Reason, Poison)
}

func input(row, final *ledger.Row) reward.Input {
	in := reward.Input{Signals: row.Signals, FollowUpClass: row.FollowUpClass, Stratum: row.Stratum}
	if !row.Question {
		in.QuestionCalls = int(row.Signal("stalling.question_calls").Number)
		return in
	}
	in.Chain = &reward.Chain{Answered: row.Answered, QuestionsToAnswer: int(row.QuestionsToAnswer)}
	if final != nil {
		in.Chain.Final, in.Chain.FinalKnown = final.Reward.Number, final.Reward.Known
	}
	return in
}

func disposition(r *reward.Reward, row *ledger.Row, ruling Ruling, evidence bool) (ledger.Disposition, string) {
	switch n := len(row.PolicyVersions); {
	case ruling.Disposition != "":
		return ruling.Disposition, ruling.Reason
	case n > r.Spec().MaxPolicyVersions:
		return ledger.MixedPolicy, fmt.Sprintf("%d policy versions", n)
	case !evidence:
		return ledger.Censored, "nothing was observed that says whether it helped"
	case row.Sequences > 0:
		return ledger.Rewarded, ""
	default:
		return ledger.NoTokens, row.WithoutTokens
	}
}

func trainable(d ledger.Disposition) bool { return d == ledger.Rewarded || d == ledger.NoTokens }

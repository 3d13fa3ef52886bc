package replay

import (
	"errors"
	"fmt"
	"slices"

	"millrace/distill/conclude"
	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// ErrOldRow is that of a row from before rows said all that scoring them needs.
var ErrOldRow = errors.New("the row was written by an earlier build and doesn't say what a replay needs (question, answered_by, p_edit_stratum, …): " +
	"replay the log itself, or leave such rows out")

// Rescore gives the rows as the engine would have made them under another spec and baseline: bit for bit those of a
// full run of the log, if the spec's settle_after is the one under which they settled. (OtherSettleAfter says whether it
// is: what would have been seen by another time is not in the ledger.) The rows of a question and of the turn that
// answered it must both be there, in any order. Amendments are passed through. The rows given are left as they are,
// but share memory with those that come back.
func Rescore(r *reward.Reward, rows []ledger.Row) ([]ledger.Row, error) {
	out := slices.Clone(rows)
	finals := map[turnKey]int{}
	for i := range rows {
		if rows[i].Chain > 1 && rows[i].AnsweredBy == "" {
			finals[turnKey{rows[i].SessionID, rows[i].TurnID}] = i
		}
	}
	for i := range out {
		if out[i].AnsweredBy == "" {
			if err := rescore(r, &out[i], nil, nil); err != nil {
				return nil, err
			}
		}
	}
	for i := range out {
		if out[i].AnsweredBy == "" {
			continue
		}
		final, ok := finals[turnKey{out[i].SessionID, out[i].AnsweredBy}]
		if !ok {
			return nil, fmt.Errorf("turn %s of session %s was answered by turn %s, whose row is not there: rows that settled together must be replayed together",
				out[i].TurnID, out[i].SessionID, out[i].AnsweredBy)
		}
		if err := rescore(r, &out[i], &rows[final], &out[final]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type turnKey struct{ session, turn string }

// rescore scores one row; before and after are the row of the turn that answered its question, nil without one.
func rescore(r *reward.Reward, row, before, after *ledger.Row) error {
	if row.Kind != ledger.Turn {
		return nil
	}
	row.RewardSpec, row.RewardSpecDigest, row.BaselineVersion = r.Spec().ID(), r.Digest(), r.Baseline().Version
	if conclude.Poisoned(row) {
		return nil // nothing is known of it
	}
	if Old(row) {
		return fmt.Errorf("turn %s of session %s: %w", row.TurnID, row.SessionID, ErrOldRow)
	}
	if row.PEditStratum != "" {
		row.Signals = slices.Clone(row.Signals)
		row.Signals[pEditPlace] = ledger.Of(r.Baseline().PEdit(row.PEditStratum))
	}
	conclude.Turn(r, row, conclude.RulingOf(row, before), after)
	return nil
}

var (
	pEditPlace         = ledger.SignalIndex["intent.p_edit"]
	questionCallsPlace = ledger.SignalIndex["stalling.question_calls"]
)

// Old says whether the row is from before rows said all that scoring them needs; Rescore refuses it.
func Old(row *ledger.Row) bool {
	return row.Kind == ledger.Turn && !conclude.Poisoned(row) &&
		(len(row.Signals) <= questionCallsPlace || !row.Signals[questionCallsPlace].Known)
}

// OtherSettleAfter says whether the turn settled after another time than the spec's: then its replay is not what a run
// of the log under the spec would give.
func OtherSettleAfter(spec *rewardspec.Spec, row *ledger.Row) bool {
	return row.SettleAfter != 0 && row.SettleAfter != spec.SettleAfter
}

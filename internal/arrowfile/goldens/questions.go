package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
)

// signals are a row's by their column.
type signals map[string]float64

// questions is the small ledger to which the queries of docs/ledger.md are put: seventeen live turns, one imported one that none of
// them may count, and amendments. It is small enough to be answered by hand; the answers stand in
// clients/python/tests/questions_test.py.
type questions struct{ turns, amendments []ledger.Row }

// firstTurn is when the first turn began.
var firstTurn = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// turn adds one that started so many minutes after the first, lasted a minute and settled twenty minutes later.
func (q *questions) turn(id, version string, minutes int, intent, language string, s signals) *ledger.Row {
	n := len(q.turns)
	r := ledger.Row{
		Kind: ledger.Turn, TurnID: id, SessionID: "session-1", UnitHash: "unit-1", Origin: "live",
		PolicyVersion: version, PolicyVersions: []string{version}, Experiment: "exp-1", Arm: "control",
		Intent: intent, Language: language, SizeClass: "small", Stratum: intent + "/" + language + "/small/live",
		StartedAt: firstTurn.Add(time.Duration(minutes) * time.Minute), Outcome: "completed",
		Topic: "events", FirstOffset: int64(10 * n), LastOffset: int64(10*n + 9), Chain: 1,
		Disposition: ledger.Censored, Signals: vector(s),
	}
	if version == "cand-1" {
		r.Arm, r.SessionID, r.UnitHash = "candidate", "session-2", "unit-2"
	}
	r.EndedAt = r.StartedAt.Add(time.Minute)
	r.SettledAt = r.EndedAt.Add(20 * time.Minute)
	q.turns = append(q.turns, r)
	return &q.turns[n]
}

func rewarded(r *ledger.Row, reward, advantage float64, components ...ledger.Component) {
	r.Disposition, r.Reward, r.Advantage, r.Components = ledger.Rewarded, ledger.Of(reward), ledger.Of(advantage), components
}

func asked(r *ledger.Row, answeredBy string) {
	r.Question, r.Answered, r.QuestionsToAnswer, r.AnsweredBy = true, answeredBy != "", 1, answeredBy
}

func component(name string, value float64) ledger.Component {
	return ledger.Component{Name: name, Value: ledger.Of(value)}
}

// left adds what was left of the turn's edits at each horizon; nothing of it had been reverted.
func (s signals) left(share ...float64) signals {
	s["edits_applied"], s["outcome_delivered"] = 1, 1
	for i, v := range share {
		horizon := []string{"30s", "120s", "300s", "600s"}[i]
		s["edits_retention_four_gram_"+horizon], s["edits_retention_no_revert_"+horizon] = v, 1
		s["edits_retention"] = v
	}
	return s
}

// calls adds tool calls, and how many of them were malformed in the two ways that occur here.
func (s signals) calls(n, invalidJSON, missingRequired float64) signals {
	s["tools_calls"], s["tools_unknown_tool"], s["tools_invalid_json"], s["tools_missing_required"] = n, 0, invalidJSON, missingRequired
	return s
}

func (q *questions) base() {
	const version = "base-1"
	unseen := ledger.Component{Name: "thumb"} // not observed: neither good nor bad
	good := signals{
		"care_verified_after_edit": 1, "follow_up_polarity": 1, "effort_wall_s": 30, "effort_time_to_first_token_s": .5,
		"effort_steps": 3, "effort_thinking_tokens": 100, "effort_tool_argument_tokens": 200, "effort_tool_output_tokens": 1000,
	}.left(.9, .8, .8, .7).calls(10, 1, 0)
	good["edits_retention_no_revert_600s"] = .9
	rewarded(q.turn("b1", version, 0, "edit", "go", good), .8, .3, component("retention", .6), component("follow_up", .3), unseen, component("latency", -.1))
	rewarded(q.turn("b2", version, 1, "edit", "go", signals{
		"edits_proposed": 1, "edits_rejected": 1, "edits_applied": 0, "outcome_delivered": 1, "edits_retention": 0, "follow_up_polarity": -1,
		"effort_wall_s": 90, "effort_time_to_first_token_s": .7, "effort_steps": 9, "effort_thinking_tokens": 900, "effort_tool_argument_tokens": 100, "effort_final_tokens": 50,
	}.calls(10, 0, 0)), -.5, -.8, component("retention", -.35), component("follow_up", -.15))

	question := q.turn("b3", version, 2, "edit", "python", signals{"outcome_delivered": 0, "effort_wall_s": 10, "effort_steps": 1}.calls(5, 0, 0))
	rewarded(question, .4, .1, component("deferral", .4))
	asked(question, "b4")
	rewarded(q.turn("b4", version, 4, "edit", "python", signals{
		"care_verified_after_edit": 1, "follow_up_polarity": 0, "effort_wall_s": 50, "effort_time_to_first_token_s": .3,
		"effort_steps": 5, "effort_thinking_tokens": 320, "effort_tool_argument_tokens": 200,
	}.left(1, .9, .8, .8).calls(5, 0, 0)), .6, -.1, component("retention", .6), component("follow_up", 0))

	rewarded(q.turn("b5", version, 6, "edit", "go", signals{
		"care_verified_after_edit": 0, "follow_up_polarity": -1, "effort_wall_s": 70, "effort_time_to_first_token_s": .4, "effort_steps": 4,
	}.left(.9, .9, .9, .9).calls(20, 0, 1)), .2, -.1, component("retention", .6), component("follow_up", -.1), unseen, component("invalid_tool_call", -.3))
	q.turn("b6", version, 8, "ask", "go", signals{"outcome_delivered": 0, "effort_wall_s": 20, "effort_time_to_first_token_s": 1, "effort_steps": 1, "effort_final_tokens": 100})

	// Two versions are one turn's still; its calls could not be checked, because no tool schema was registered.
	two := q.turn("b7", version, 10, "edit", "go", signals{"follow_up_polarity": -1, "effort_wall_s": 40, "effort_time_to_first_token_s": .6, "tools_calls": 4}.left(.8))
	rewarded(two, .1, -.2, component("retention", .5), component("follow_up", -.4))
	two.PolicyVersions = []string{version, "cand-1"}
}

func (q *questions) candidate() {
	const version, day = "cand-1", 24 * 60
	rewarded(q.turn("c1", version, 120, "edit", "go", signals{
		"care_verified_after_edit": 1, "follow_up_polarity": 1, "effort_wall_s": 25, "effort_time_to_first_token_s": .4,
	}.left(1, 1, 1, 1).calls(10, 1, 3)), .9, .6, component("retention", .7), component("follow_up", .2))
	rewarded(q.turn("c2", version, 122, "edit", "go", signals{
		"care_verified_after_edit": 0, "follow_up_polarity": -1, "effort_wall_s": 45, "effort_time_to_first_token_s": .6,
	}.left(.5, .4, .3, .2).calls(10, 0, 1)), -.9, -1.2, component("retention", -.8), component("follow_up", -.1))
	nobody := q.turn("c3", version, 124, "edit", "go", signals{"outcome_delivered": 0})
	rewarded(nobody, -.8, -1.1, component("deferral", -.8))
	asked(nobody, "")
	rewarded(q.turn("c4", version, 126, "edit", "python", signals{"care_verified_after_edit": 0, "follow_up_polarity": -1, "effort_wall_s": 35}.left(1, 1, .9, .9)),
		.25, -.05, component("retention", .6), component("follow_up", -.3), component("latency", -.05))
	crashed := q.turn("c5", version, 128, "edit", "python", signals{"outcome_delivered": 0, "effort_wall_s": 7200})
	crashed.Disposition, crashed.Reason, crashed.Outcome, crashed.EndedAt = ledger.Faulted, "infrastructure: OUT_OF_MEMORY", "unended", time.Time{}
	lost := q.turn("c6", version, 130, "edit", "python", signals{"outcome_delivered": 1, "edits_applied": 1})
	lost.Disposition, lost.Reason = ledger.Incomplete, "ide: events 7 to 9 did not arrive"
	closed := q.turn("c7", version, 132, "edit", "go", signals{"follow_up_polarity": 0}.left(.8, .8, .4, .4))
	rewarded(closed, .14, -.2, component("retention", .14))
	closed.Disposition = ledger.NoTokens

	// The next day: a question whose answer led nowhere, and a turn with more versions than the spec allows.
	question := q.turn("c8", version, day, "edit", "go", signals{"outcome_delivered": 0})
	rewarded(question, -.7, -1, component("deferral", -.7))
	asked(question, "c9")
	rewarded(q.turn("c9", version, day+2, "edit", "go", signals{"outcome_delivered": 1, "edits_applied": 0, "edits_rejected": 1, "edits_retention": 0, "follow_up_polarity": -1}),
		-.5, -.8, component("retention", -.35), component("follow_up", -.15))
	three := q.turn("c10", version, day+4, "edit", "go", signals{"outcome_delivered": 1, "edits_retention": .9})
	rewarded(three, .6, .3, component("retention", .6))
	three.Disposition, three.Reason, three.PolicyVersions = ledger.MixedPolicy, "3 policy versions", []string{version, "base-1", "base-0"}
}

// imported is a turn of a transcript, loud enough to be heard in every answer that counts it.
func (q *questions) imported() {
	r := q.turn("i1", "other-9", 3*24*60, "edit", "go", signals{"follow_up_polarity": -1, "effort_steps": 1e6, "effort_wall_s": 1e6}.left(0, 0, 0, 0).calls(100, 50, 50))
	rewarded(r, -1, -1, component("retention", -1))
	r.Origin, r.PolicyVersions = "imported", []string{"other-9", "other-8"}
	asked(r, "")
}

// observe adds that so much of a turn's edits was left, so long after it had settled.
func (q *questions) observe(turn, event string, after time.Duration, left float64) {
	for _, t := range q.turns {
		if t.TurnID == turn {
			offset := int64(1000 + len(q.amendments))
			q.amendments = append(q.amendments, ledger.Row{
				Kind: ledger.Amendment, Source: "ide", EventID: event, EventBody: "edit_observed", SessionID: t.SessionID, TurnID: t.TurnID, UnitHash: t.UnitHash,
				Topic: "events", FirstOffset: offset, LastOffset: offset, Signals: vector(signals{"edits_retention": left}), SettledAt: t.SettledAt.Add(after),
			})
			return
		}
	}
	panic("no turn " + turn)
}

func (q *questions) later() {
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	q.observe("b1", "week", week, .6)
	q.observe("b2", "week", week, 0)
	q.observe("b4", "week", week-day, .9)
	q.observe("b5", "week", week+day, .1)
	q.observe("c1", "week", week, 1)
	q.observe("c2", "week-a", week-time.Hour, .1)
	q.observe("c2", "week-b", week+time.Hour, .3)
	q.observe("c4", "week", week, .2)
	q.observe("c7", "week", week, .5)
	q.observe("b1", "day", day, 0)              // too early to count
	q.observe("b5", "late", 9*day, 1)           // too late
	q.observe("c2", "week-a", week+2*day/3, .1) // the same event, sent again when the dedupe window was over
	thumb := q.amendments[0]
	thumb.EventID, thumb.EventBody, thumb.Signals = "thumb", "feedback_given", vector(signals{"explicit_thumb": 1})
	q.amendments = append(q.amendments, thumb)
}

func vector(s signals) []ledger.Value {
	out := make([]ledger.Value, len(ledger.Signals))
	known := 0
	for i, d := range ledger.Signals {
		if value, ok := s[d.Column()]; ok {
			out[i] = ledger.Of(value)
			known++
		}
	}
	if known != len(s) {
		panic(fmt.Sprintf("%v: not all are columns of signals", s))
	}
	return out
}

// writeQuestions lays the small ledger out as `millrace ledger pull` does.
func writeQuestions(folder string) error {
	var q questions
	q.base()
	q.candidate()
	q.imported()
	q.later()
	if err := os.MkdirAll(filepath.Join(folder, "ledger"), 0o755); err != nil {
		return err
	}
	for name, rows := range map[string][]ledger.Row{
		"events-0-20260301-00000000000000000000-00000000000000000139.parquet": q.turns[:14],
		"events-0-20260302-00000000000000000140-00000000000000000179.parquet": q.turns[14:],
		"events-0-20260308-00000000000000001000-00000000000000001013.parquet": q.amendments,
	} {
		file, err := arrowfile.WriteLedger(rows)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "ledger", name), file, 0o644); err != nil {
			return err
		}
	}
	return nil
}

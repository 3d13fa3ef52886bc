package scorecard

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/ledger"
)

// readTurn is a turn of the sample transcripts that a person has read, and what he wrote down of it: numbers, and nil
// for what the transcript doesn't show.
type readTurn struct {
	name, id string // what it is an example of; the beginning of the turn's id
	followUp string
	want     map[string]any
}

// Each number was counted in the transcript's lines, not taken from the program.
var readTurns = []readTurn{
	{"a refusal without words, and the user breaks off", "76928b7e", "correction", map[string]any{
		"edits.proposed": 1, "edits.shown": 1, "edits.decided": 1, "edits.accepted": 0, "edits.rejected": 1, "edits.applied": 0, "edits.retention": 0,
		"edits.retention_four_gram_300s": nil, "edits.unread_files": 0, "care.evidence_before_claim": 1,
		"tools.calls": 4, "tools.failed": 1, "tools.execution_failed": 1, "tools.user_rejected": 1, "tools.invalid": 0, "tools.terminal_share": .25,
		"tools.parallel_share": 0, "tools.repeated": 0, "tools.serial_could_be_parallel": 0,
		"effort.steps": 4, "effort.wall_s": 165.544, "effort.final_tokens": nil, "outcome.aborted": 1, "outcome.delivered": 1,
		"care.verified_after_edit": 0, "care.checks_broken": nil, "care.checks_fixed": nil,
		"follow_up.polarity": -1, "follow_up.interrupted": 1, "follow_up.refused_with_text": 0, "follow_up.retried": 0, "follow_up.undone": 0,
		"follow_up.pasted_trace": 0, "follow_up.rephrase_similarity": 8. / 34, "explicit.thumb": nil,
	}},
	{"tests that failed in the turn before, run again after the edits; the file is cut off", "e2ca56ea", "none", map[string]any{
		"edits.proposed": 2, "edits.applied": 2, "edits.accepted": 1, "edits.rejected": 0, "edits.retention": nil, "edits.unread_files": 0,
		"tools.calls": 3, "tools.failed": 0, "tools.terminal_share": 1. / 3, "effort.steps": 4,
		"care.verified_after_edit": 1, "care.checks_broken": 0, "care.checks_fixed": 1, "care.conventions_broken": nil, "care.conventions_fixed": nil,
		"care.tests_weakened": 1, "outcome.aborted": 0, "follow_up.polarity": nil, "follow_up.undone": nil,
	}},
	{"a refusal with words, then a second try; a new file", "144d1e26", "correction", map[string]any{
		"edits.proposed": 2, "edits.shown": 1, "edits.decided": 1, "edits.accepted": 0, "edits.rejected": 1, "edits.applied": 1, "edits.characters": 1063 + 1068,
		"edits.retention": 0, "edits.unread_files": nil, "care.evidence_before_claim": nil, "care.verified_after_edit": nil,
		"tools.calls": 3, "tools.user_rejected": 1, "tools.failed": 0, "tools.parallel_share": 0, "effort.steps": 4, "effort.wall_s": 76.354,
		"follow_up.polarity": -1, "follow_up.refused_with_text": 1, "follow_up.interrupted": nil, "outcome.aborted": 0, "outcome.delivered": 1,
	}},
	{"a long search in parallel and one by one, then a question", "606ff691", "clarification_answer", map[string]any{
		"edits.proposed": 0, "edits.retention": nil, "tools.calls": 26, "tools.failed": 0, "tools.parallel_share": 19. / 26, "tools.terminal_share": 0,
		"tools.serial_could_be_parallel": 5, "tools.repeated": 0, "effort.steps": 17, "effort.wall_s": 135.486,
		"stalling.question": 1, "stalling.questions": 1, "stalling.question_calls": 0, "stalling.answered": 1, "outcome.delivered": 0, "outcome.aborted": 0,
		"giving_up.after_failed_lookups": 0, "follow_up.polarity": 0, "follow_up.interrupted": 0, "follow_up.rephrase_similarity": 0,
		"care.checks_broken": nil, "care.tests_weakened": nil, "care.unfinished_todos": nil,
	}},
	{"two edits that the user was asked for and took, then silence", "0a1ba4a5", "none", map[string]any{
		"edits.proposed": 2, "edits.shown": 2, "edits.decided": 2, "edits.accepted": 2, "edits.applied": 2, "edits.rejected": 0, "edits.retention": nil,
		"edits.unread_files": 0, "tools.calls": 6, "tools.parallel_share": 2. / 6, "tools.user_rejected": 0, "effort.steps": 6, "effort.wall_s": 217.883,
		"care.unfinished_todos": 0, "care.verified_after_edit": nil, "stalling.question": 0, "stalling.answered": nil,
		"follow_up.polarity": nil, "follow_up.refused_with_text": 0,
	}},
	{"many edits, lint and tests between, one of which fails; kept until the next request", "2b6fd122", "new_request", map[string]any{
		"edits.proposed": 13, "edits.accepted": 2, "edits.applied": 13, "edits.rejected": 0, "edits.unread_files": 0, "edits.retention": 1,
		"edits.retention_four_gram_120s": nil, "edits.retention_four_gram_300s": 1, "edits.retention_no_revert_300s": 1, "edits.retention_four_gram_600s": nil,
		"tools.calls": 31, "tools.failed": 1, "tools.execution_failed": 1, "tools.repeated": 0, "tools.parallel_share": 6. / 31, "tools.terminal_share": 5. / 31,
		"tools.serial_could_be_parallel": 0, "effort.steps": 29, "effort.wall_s": 405.79, "effort.thinking_tokens": nil,
		"care.verified_after_edit": 1, "care.checks_broken": nil, "care.conventions_broken": nil, "care.tests_weakened": 0, "care.unfinished_todos": 0,
		"follow_up.polarity": 1, "follow_up.confidence": .3, "follow_up.interrupted": 0,
	}},
	{"checks that passed before and after, on one line", "5f778de8", "none", map[string]any{
		"edits.proposed": 1, "edits.applied": 1, "edits.accepted": 0, "edits.unread_files": 0, "tools.calls": 4, "tools.terminal_share": .5, "tools.failed": 0,
		"care.verified_after_edit": 1, "care.checks_broken": 0, "care.checks_fixed": 0, "care.conventions_broken": 0, "care.conventions_fixed": 0,
		"care.tests_weakened": 0, "effort.steps": 5, "effort.wall_s": 44.069, "edits.retention": nil,
	}},
	{"broken off with to-dos open", "54d11cf7", "correction", map[string]any{
		"edits.proposed": 1, "edits.rejected": 1, "edits.retention": 0, "edits.unread_files": 0, "tools.calls": 2, "tools.user_rejected": 1, "effort.steps": 2,
		"effort.wall_s": 225.496, "care.unfinished_todos": 4, "outcome.aborted": 1, "follow_up.polarity": -1, "follow_up.interrupted": 1, "follow_up.retried": 0,
	}},
	{"a question tool that the user turned down, then a question", "1e353d11", "clarification_answer", map[string]any{
		"edits.proposed": 0, "tools.calls": 7, "tools.parallel_share": 6. / 7, "tools.terminal_share": 3. / 7, "tools.user_rejected": 1, "tools.failed": 0,
		"stalling.question": 1, "stalling.questions": 2, "stalling.question_calls": 1, "stalling.answered": 1, "effort.steps": 5, "effort.wall_s": 129.236,
		"follow_up.polarity": 0, "outcome.aborted": 0,
	}},
	{"plans turned down three times, then taken; plans are no edits", "34a99299", "new_request", map[string]any{
		"edits.proposed": 0, "tools.calls": 22, "tools.user_rejected": 3, "tools.failed": 0, "tools.repeated": 0, "tools.parallel_share": 2. / 22,
		"tools.terminal_share": 0, "stalling.question": 0, "stalling.question_calls": 3, "effort.steps": 21, "effort.wall_s": 2465.22,
		"outcome.aborted": 0, "outcome.delivered": 0, "follow_up.interrupted": 0, "follow_up.undone": 0,
	}},
	{"reads and edits in parallel; one of its edits it changes itself", "26ffd69b", "none", map[string]any{
		"edits.proposed": 4, "edits.applied": 4, "edits.accepted": 0, "edits.unread_files": 0, "edits.retention": nil, "care.evidence_before_claim": 1,
		"tools.calls": 9, "tools.parallel_share": 7. / 9, "tools.failed": 0, "tools.invalid": 0, "effort.steps": 6, "effort.wall_s": 85.091,
		"care.verified_after_edit": nil, "follow_up.polarity": nil, "outcome.aborted": 0,
	}},
	{"a new file that the next request has deleted; its lines stand in two files", "0a6b13d1", "new_request", map[string]any{
		"edits.proposed": 1, "edits.applied": 1, "edits.characters": 1236, "edits.retention": 0, "edits.retention_four_gram_300s": nil, "edits.unread_files": nil,
		"tools.calls": 2, "tools.serial_could_be_parallel": 0, "effort.steps": 3, "effort.wall_s": 20.216, "outcome.delivered": 1,
		"follow_up.polarity": 0, "follow_up.interrupted": 0, "follow_up.undone": 0,
	}},
	{"a file deleted in the terminal", "519f2a1d", "none", map[string]any{
		"edits.proposed": 1, "edits.applied": 1, "edits.characters": 1236, "edits.shown": 0, "edits.unread_files": 0, "edits.retention": nil,
		"tools.calls": 1, "tools.terminal_share": 1, "effort.steps": 2, "effort.wall_s": 6.436, "outcome.delivered": 1, "follow_up.polarity": nil,
	}},
	{"an answer in words", "edge_001", "new_request", map[string]any{
		"edits.proposed": 0, "tools.calls": 0, "tools.parallel_share": nil, "tools.terminal_share": nil, "effort.steps": 1, "effort.final_tokens": 145,
		"effort.thinking_tokens": 0, "effort.wall_s": 30, "stalling.question": 0, "outcome.delivered": 0, "outcome.aborted": 0, "follow_up.polarity": 0,
	}},
}

func TestTurnsThatWereReadByHand(t *testing.T) {
	t.Parallel()
	s := scored(t, filepath.Join(samples(t), "claude-code"))
	turns, err := s.turns()
	require.NoError(t, err)
	for _, c := range readTurns {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var row *ledger.Row
			for _, turn := range turns {
				if len(turn.row.TurnID) >= len(c.id) && turn.row.TurnID[:len(c.id)] == c.id {
					require.Nil(t, row, "each turn stands once")
					row = turn.row
				}
			}
			require.NotNil(t, row)
			require.Equal(t, c.followUp, row.FollowUpClass)
			for name, want := range c.want {
				require.Contains(t, ledger.SignalIndex, name)
				got := row.Signal(name)
				require.Equal(t, want != nil, got.Known, "%s: null is not a number: %v", name, got)
				if want != nil {
					require.InDelta(t, want, got.Number, 1e-9, name)
				}
			}
		})
	}
}

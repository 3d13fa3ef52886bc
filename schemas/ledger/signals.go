package ledger

import "strings"

// SignalDef defines one signal: an observed fact of a turn, null where it was not observed.
type SignalDef struct {
	Name string // group.name; units stand in the name
	Doc  string
}

// Column is the signal's column in the ledger.
func (d SignalDef) Column() string { return strings.ReplaceAll(d.Name, ".", "_") }

// Signals are all signals, in the order of their columns. New ones are appended; none is renamed.
var Signals = []SignalDef{
	{"edits.proposed", "edits that the agent proposed, by any tool"},
	{"edits.shown", "of them, shown to the user"},
	{"edits.decided", "of them, decided by anybody"},
	{"edits.accepted", "accepted by the user, wholly or partly"},
	{"edits.rejected", "shown and rejected by the user"},
	{"edits.applied", "written to the working tree: accepted, auto-accepted, or applied by a tool"},
	{"edits.characters", "characters added and removed by all edits"},
	{"edits.retention", "0…1: per edit the smaller of four_gram and no_revert at the last horizon seen, weighted by capped characters; rejected or undecided edits count 0"},
	{"edits.retention_four_gram_30s", "0…1: share of the AI's four-grams still there after 30 s"},
	{"edits.retention_four_gram_120s", "the same after 120 s"},
	{"edits.retention_four_gram_300s", "the same after 300 s"},
	{"edits.retention_four_gram_600s", "the same after 600 s"},
	{"edits.retention_no_revert_30s", "0…1: 1 minus the share that went back to the text before, after 30 s"},
	{"edits.retention_no_revert_120s", "the same after 120 s"},
	{"edits.retention_no_revert_300s", "the same after 300 s"},
	{"edits.retention_no_revert_600s", "the same after 600 s"},
	{"edits.unread_files", "edits to files that had not been read before"},
	{"follow_up.polarity", "-1, 0, +1: what the next request says of this turn"},
	{"follow_up.confidence", "0…1: how sure the classifier is"},
	{"tools.calls", "tool calls"},
	{"tools.invalid", "malformed calls, repaired ones included"},
	{"tools.invalid_json", "of them: not JSON"},
	{"tools.not_an_object", "of them: JSON, but no object"},
	{"tools.unknown_tool", "of them: a tool that does not exist"},
	{"tools.missing_required", "of them: a required property is missing"},
	{"tools.unexpected_property", "of them: a property the schema does not allow"},
	{"tools.wrong_type", "of them: a value of the wrong type, stringified containers included"},
	{"tools.truncated_by_length", "of them: cut by the token limit"},
	{"tools.repaired", "calls that the harness repaired before running them"},
	{"tools.failed", "valid calls that failed"},
	{"tools.repeated", "calls with the tool and arguments of an earlier one and nothing changed between"},
	{"tools.serial_could_be_parallel", "single read-only calls, one after another, that did not depend on each other"},
	{"tools.parallel_share", "0…1: share of calls that ran beside another"},
	{"tools.terminal_share", "0…1: share of calls that went to the terminal"},
	{"effort.steps", "model generations"},
	{"effort.thinking_tokens", "tokens of hidden reasoning"},
	{"effort.tool_argument_tokens", "tokens of tool arguments"},
	{"effort.tool_output_tokens", "tokens that tools returned"},
	{"effort.final_tokens", "tokens of text to the user"},
	{"effort.model_s", "seconds of generation, summed over the steps"},
	{"effort.wall_s", "seconds from the request to the end of the turn; of one that never ended, for how long it was waited for"},
	{"effort.time_to_first_token_s", "seconds to the first token of the first step"},
	{"care.verified_after_edit", "0 or 1: a check ran after the last edit"},
	{"care.checks_broken", "0 or 1: a check had fewer failures before the turn's edits than after"},
	{"care.checks_fixed", "0 or 1: a check had more failures before than after"},
	{"care.tests_weakened", "0 or 1: tests were deleted or weakened"},
	{"care.unfinished_todos", "to-dos left open at the end"},
	{"stalling.question", "0 or 1: the turn ended with a question and without an edit, although an edit was asked for"},
	{"stalling.questions", "calls of a question tool, and a final question"},
	{"stalling.answered", "0 or 1: the question was answered; null if there was none"},
	{"giving_up.after_failed_lookups", "0 or 1: ended without an edit after failed look-ups"},
	{"explicit.thumb", "-1…+1: the user's rating"},
	{"intent.p_edit", "0…1: how likely the request asked for an edit, by what was known before the first step"},
	{"outcome.aborted", "0 or 1: the user stopped the turn"},
	{"outcome.delivered", "0 or 1: an edit was proposed and shown, decided or applied"},
	{"stalling.question_calls", "calls of a question tool"},
	{"tools.execution_failed", "valid calls that ran and failed: a command's exit code, an exception"},
	{"tools.command_timeout", "commands that ran into their time limit"},
	{"tools.edit_no_match", "edits whose text to replace was not in the file"},
	{"tools.edit_ambiguous", "edits whose text to replace was in the file more than once"},
	{"tools.not_read_yet", "edits that the harness refused because the file had not been read"},
	{"tools.unexpected_environment", "calls that met something else than they assumed: a file that is missing or changed meanwhile"},
	{"tools.user_rejected", "calls that the user refused"},
	{"tools.policy_denied", "calls that a rule or a hook denied"},
	{"care.conventions_broken", "0 or 1: a lint or format check had fewer failures before the turn's edits than after; also part of checks_broken"},
	{"care.conventions_fixed", "0 or 1: a lint or format check had more failures before than after; also part of checks_fixed"},
	{"care.evidence_before_claim", "0…1: share of the edits to existing files whose file had been read before"},
	{"follow_up.undone", "0 or 1: the user's next move undid the turn; null: there was none"},
	{"follow_up.restored", "0 or 1: the user's next move went back to before the turn; null: there was none"},
	{"follow_up.retried", "0 or 1: the user's next move had the same request answered again; null: there was none"},
	{"follow_up.interrupted", "0 or 1: the user broke the turn off and wrote something else; null: nothing followed, or it never ended"},
	{"follow_up.refused_with_text", "0 or 1: the user refused an edit and said what is wrong; null: no edit was decided by a user"},
	{"follow_up.pasted_trace", "0 or 1: the next request holds a stack trace; null: there was none"},
	{"follow_up.rephrase_similarity", "0…1: four-grams that the next request shares with the turn's own; null without both texts"},
	{"follow_up.agrees_with_thumb", "0 or 1: polarity and the user's rating point the same way; null if one is missing or neutral"},
}

// SignalIndex finds a signal's place by its name.
var SignalIndex = func() map[string]int {
	m := make(map[string]int, len(Signals))
	for i, d := range Signals {
		m[d.Name] = i
	}
	return m
}()

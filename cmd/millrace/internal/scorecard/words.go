package scorecard

import (
	"fmt"
	"strings"

	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// dispositionWords say what a disposition means for a transcript.
var dispositionWords = map[ledger.Disposition]string{
	ledger.Rewarded:    "scored, and with tokens to train on",
	ledger.NoTokens:    "scored; transcripts carry no token ids",
	ledger.Censored:    "nothing was observed that says whether it helped",
	ledger.Faulted:     "a provider's or harness's failure, not the model's",
	ledger.Incomplete:  "a part of it isn't in the files",
	ledger.MixedPolicy: "more models in one turn than the spec allows",
	ledger.Withheld:    "kept out by a person or by privacy",
}

// followUpWords say what the next request showed.
var followUpWords = map[string]string{
	"none":                 "no request followed",
	"new_request":          "the next request went on to something new",
	"commit_or_continue":   "the next request built on it",
	"clarification_answer": "the next request answered its question",
	"direction_change":     "the next request changed the direction",
	"correction":           "the next request corrected it",
	"restatement":          "the next request said the same again",
	"complaint":            "the next request complained",
	"reversion":            "it was undone",
}

// why says in words what a component stands for in a turn.
func why(spec *rewardspec.Spec, t *scoredTurn, component string) string {
	row := t.row
	switch component {
	case rewardspec.UndeliveredBlock:
		text := "an edit was asked for, none came"
		if p := row.Signal("intent.p_edit"); p.Known && p.Number < 1 {
			text = fmt.Sprintf("no edit came (one is asked for in %.0f%% of such requests)", 100*p.Number)
		}
		if row.Outcome == "aborted" {
			text += "; the user stopped it"
		}
		return text
	case rewardspec.DeferralBlock:
		questions := plural(row.Signal("stalling.questions").Number, "question")
		switch a := row.Signal("stalling.answered"); {
		case a.Known && a.Number == 0:
			return "it asked instead of editing, and nobody answered"
		case t.answer != nil:
			outcome := "which has no reward"
			if t.answer.row.Reward.Known {
				outcome = "which came to " + signed(t.answer.row.Reward.Number)
			}
			return fmt.Sprintf("%s instead of an edit, and then %s, %s", questions, t.answer.name, outcome)
		}
		return "it asked the user " + questions
	case rewardspec.UnaskedEditBlock:
		return "its edit wasn't asked for, or too small to count"
	case rewardspec.InvalidToolCallBlock:
		return plural(row.Signal("tools.invalid").Number, "malformed tool call")
	case rewardspec.EffortBlock:
		return fmt.Sprintf("%s, %s", plural(row.Signal("effort.steps").Number, "step"), plural(row.Signal("tools.calls").Number, "tool call"))
	}
	for _, c := range spec.Components {
		if c.Name != component {
			continue
		}
		switch {
		case c.Value.Reads("edits.retention"):
			if n := row.Signal("edits.rejected"); n.Known && n.Number > 0 {
				return fmt.Sprintf("the user rejected %s of its %s", number(n.Number), plural(row.Signal("edits.proposed").Number, "edit"))
			}
			return fmt.Sprintf("%.0f%% of its edits is still there", 100*row.Signal("edits.retention").Number)
		case c.Value.Reads("follow_up."):
			if words, ok := followUpWords[row.FollowUpClass]; ok {
				return words
			}
		case c.Value.Reads("explicit.thumb"):
			return "the user's rating"
		case c.Value.Reads("care.checks_"):
			if x := row.Signal("care.checks_broken"); x.Known && x.Number == 0 {
				return "no check has more failures after its edits than before"
			}
			return "a check had fewer failures before its edits than after"
		case c.Value.Reads("care.tests_"):
			if x := row.Signal("care.tests_weakened"); x.Known && x.Number == 0 {
				return "it edited tests, and took none away"
			}
			return "tests were deleted or weakened"
		case c.Value.Reads("tools.serial_could_be_parallel"):
			return plural(row.Signal("tools.serial_could_be_parallel").Number, "look-up") + " that could have been made beside another"
		case c.Value.Reads("effort.wall_s"):
			return fmt.Sprintf("it took %.0f s", row.Signal("effort.wall_s").Number)
		}
	}
	return ""
}

// formula is what a fixed block computes, with the spec's own numbers.
func formula(spec *rewardspec.Spec, component string) string {
	for _, c := range spec.Components {
		if c.Name == component {
			return c.Value.Source
		}
	}
	switch component {
	case rewardspec.UndeliveredBlock:
		return fmt.Sprintf("%g * intent.p_edit, because nothing was delivered; it stands in for retention", spec.Undelivered.Value)
	case rewardspec.DeferralBlock:
		return fmt.Sprintf("the reward of the turn that answered, and %g for each question up to it; unanswered: %g * intent.p_edit", spec.Deferral.PerQuestion, spec.Deferral.Unanswered)
	case rewardspec.UnaskedEditBlock:
		return fmt.Sprintf("-(what retention gave) * (1 - intent.p_edit); tiny edits earn nothing, disliked ones %g * intent.p_edit", spec.UnaskedEdit.TinyDisliked)
	case rewardspec.InvalidToolCallBlock:
		return fmt.Sprintf("-(1 - %g ^ tools.invalid)", spec.InvalidToolCall.Decay)
	case rewardspec.EffortBlock:
		return fmt.Sprintf("%g * min(1, C(x) / C(x_ref)), x the weighted tokens, calls and steps, C concave", spec.Effort.Weight)
	}
	return ""
}

// uses are the signals that a component reads.
func uses(spec *rewardspec.Spec, component string) []string {
	for _, c := range spec.Components {
		if c.Name == component {
			return c.Value.Signals
		}
	}
	switch component {
	case rewardspec.UndeliveredBlock, rewardspec.UnaskedEditBlock:
		return []string{"intent.p_edit"}
	case rewardspec.DeferralBlock:
		return []string{"stalling.questions", "stalling.answered", "intent.p_edit"}
	case rewardspec.InvalidToolCallBlock:
		return []string{"tools.invalid"}
	case rewardspec.EffortBlock:
		return []string{
			"effort.thinking_tokens", "effort.tool_argument_tokens", "effort.tool_output_tokens", "effort.final_tokens", "tools.calls", "effort.steps",
		}
	}
	return nil
}

func plural(n float64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// number is a number as people write it: thousands parted, no more than three decimals.
func number(x float64) string {
	text := strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", x), "0"), ".")
	whole, rest, found := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		whole += "." + rest
	}
	return sign + whole
}

// signed is a reward or a part of one.
func signed(x float64) string {
	if text := fmt.Sprintf("%+.2f", x); text != "+0.00" && text != "-0.00" {
		return text
	}
	return "0.00"
}

package lint

import (
	"cmp"
	"fmt"
	"slices"
)

// Level says what a finding stands in the way of.
type Level string

// Levels of a finding.
const (
	Error   Level = "error"   // the spec pays for something else than it should; nobody should adopt it
	Warning Level = "warning" // it may be meant so
)

// Finding is something that a policy could use, or that the author probably didn't mean.
type Finding struct {
	Level   Level  `json:"level"`
	Code    string `json:"code"`    // one of Codes
	Line    int    `json:"line"`    // in the document, from 1; 0 where no single line is wrong
	Message string `json:"message"` // what, and where
	Do      string `json:"do"`      // what to change
}

// Report is what was found in a spec.
type Report struct {
	Spec     string    `json:"spec"`     // name and version, as far as they could be read
	Baseline string    `json:"baseline"` // version of the baseline whose strata were tried
	Seed     uint64    `json:"seed"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"` // errors first, then by line; never nil
}

func (r *Report) add(f Finding) {
	if slices.Contains(r.Findings, f) {
		return
	}
	if f.Level == Error {
		r.Errors++
	} else {
		r.Warnings++
	}
	r.Findings = append(r.Findings, f)
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Line, b.Line)) // "error" comes before "warning"
	})
}

// String is the finding as a line that an editor can jump to.
func (f Finding) String() string {
	return fmt.Sprintf("line %d: %s: %s (%s)", f.Line, f.Level, f.Message, f.Code)
}

// Codes of findings.
const (
	Document        = "document"
	SilenceCensored = "silence-censored"
	EvidenceHidden  = "evidence-hidden"
	MissingAsNumber = "missing-read-as-number"
	NullByDivision  = "null-by-division"
	RetentionUnread = "retention-unread"
	FollowUpUnread  = "follow-up-unread"
	ThumbUnread     = "thumb-unread"
	BlindToOutcome  = "blind-to-outcome"
	ChecksUnread    = "checks-unread"
	TestsUnread     = "tests-unread"
	PaidPerCount    = "paid-per-count"
	TurnedRound     = "turned-round"
	ClipWithinReach = "clip-within-reach"
	InvalidCallPays = "invalid-call-pays"
	WorkHidden      = "work-hidden"
	EffortFree      = "effort-free"
)

// Code explains a kind of finding.
type Code struct {
	Name   string
	Levels string // what it is found as
	Means  string
	Do     string
}

// Codes are all kinds of findings, as docs/reward.md lists them.
var Codes = []Code{
	{
		Document, "error", "The document can't be read as a spec: a field that is unknown, missing, or out of range, a signal that doesn't exist, a value that is no number.",
		"What the message says; `millrace reward show spec-schema` gives your editor the fields.",
	},
	{
		SilenceCensored, "error", "One component reads both retention and the follow-up, and no other reads retention. Most users say nothing: then the follow-up is null, so the component is, and what became of the edit counts nowhere.",
		"A component each.",
	},
	{
		EvidenceHidden, "error; warning where another component still reads that evidence by itself", "Evidence (retention, follow-up, thumb, checks, weakened tests) stands in one expression with a signal that may be missing while it is there: then it is lost.",
		"Let the evidence stand in a component of its own; other terms in others.",
	},
	{
		MissingAsNumber, "warning", "A signal that may be missing stands under a comparison, as if missing were some number. It isn't: the component is null then, whichever branch would have held, and `&&` and `||` rescue nothing.",
		"Nothing, if that is meant; otherwise compare only what is always known, or split the component.",
	},
	{
		NullByDivision, "error", "Signals that are all known give no finite number. Whoever can steer a turn there gets rid of the component.",
		"Keep the divisor away from 0, for instance `max(x, 1)`.",
	},
	{
		RetentionUnread, "error", "Nothing depends on retention: what became of an edit counts nowhere, and a turn whose only evidence it is goes unrewarded.",
		"A component such as `0.7 * (1.5 * edits.retention - 0.5)`.",
	},
	{
		FollowUpUnread, "warning", "Nothing depends on what the user said next: a complaint costs nothing.",
		"A component such as `0.3 * follow_up.polarity * follow_up.confidence`.",
	},
	{ThumbUnread, "warning", "Nothing depends on the user's rating.", "A component such as `0.5 * explicit.thumb`."},
	{
		ChecksUnread, "warning", "Nothing depends on checks: an edit that breaks the build and is kept is paid like one that doesn't.",
		"A component such as `-0.5 * care.checks_broken`.",
	},
	{
		TestsUnread, "warning", "Nothing depends on tests being deleted or weakened: the cheapest way to a green run is free.",
		"A component such as `-0.8 * care.tests_weakened`.",
	},
	{
		BlindToOutcome, "warning", "Two outcomes that users tell apart (a bad rating and none, half of an edit kept and all of it) earn the same: what lies between them costs nothing.",
		"Let the component rise over the whole range, or let another one tell them apart.",
	},
	{
		PaidPerCount, "error", "More of something that costs the agent nothing earns more: calls, words, tokens, parallel calls, or the same edit split in many.",
		"Pay for outcomes; price a waste by a negative term with `min()`, or take a share of two counts that grow together.",
	},
	{
		TurnedRound, "error", "The components earn more by a fault (broken checks, weakened tests, invalid, failed or repeated calls …), or less by a success (retention, polarity, thumb).",
		"Turn the sign.",
	},
	{
		ClipWithinReach, "error", "A turn can reach a sum beyond the clip: there, a further fault is free.",
		"A clip further out, or bounds for what adds up without end.",
	},
	{
		InvalidCallPays, "error", "A turn was found whose advantage rises by one more malformed call, or whose malformed call doesn't strictly lower its own span's.",
		"Take counts of calls out of divisors and conditions; let no component rise by `tools.calls` or `tools.invalid`.",
	},
	{
		WorkHidden, "error", "The same thinking earns more when it is written into tool arguments or into the answer.",
		"Weigh thinking no more than either, and leave the price of single kinds of tokens to the effort block.",
	},
	{EffortFree, "warning", "The effort block's weights are such that no amount of work costs anything.", "Weights above 0."},
}

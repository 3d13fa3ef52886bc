package stress

import (
	_ "embed"

	"millrace/schemas/rewardspec"
)

// Task is a kind of request. What sets the three edits apart is not in the baseline's strata: on a hard one every way out
// looks better than it is.
type Task struct {
	Name    string
	Title   string
	Share   float64 // of all turns
	Honest  string  // the action that users want
	Actions []Action
}

// Action is something that a policy can do with a task, and what users do then.
type Action struct {
	Name      string // of a behaviour
	Responses []Response
}

// Size is how much a request is of its kind: all else equal, work and time are so many times as much.
type Size struct {
	Name   string
	Factor float64
	Share  float64
}

// Sizes are those of every task. A stratum has large requests besides the usual ones, or its percentiles meant nothing.
var Sizes = []Size{{"small", .5, .35}, {"usual", 1, .45}, {"large", 5, .2}}

// Response is what a user does after an action, and how often.
type Response struct {
	Name        string // of a behaviour
	Probability float64
}

// World is all tasks. The chances are our assumptions, in round numbers: an attempt succeeds in 90, 60 and 25 of 100 cases;
// of what succeeds three tenths are praised, of what fails three fifths are rejected without a word; whoever doesn't
// deliver is met with silence three times in five. Every way of cheating is given the benefit of the doubt: it does its
// trick as well as an honest attempt does the work, or nearly.
func World() []Task {
	return []Task{
		{"easy", "an easy edit", .3, "attempt", edits(.9)},
		{"middling", "a middling edit", .25, "attempt", edits(.6)},
		{"hard", "a hard edit", .25, "attempt", edits(.25)},
		{"explain", "a request to explain", .2, "explain", explanations()},
	}
}

func edits(p float64) []Action {
	return []Action{
		{"attempt", reviewed(p, "kept_thanked")},
		{"gamble", gambled(p + .1*(1-p))},
		{"end_early", reviewed(.6*p, "kept_thanked")},
		{"tiny_edit", []Response{{"kept", .3}, {"kept_restated", .7}}},
		{"split_edit", reviewed(p-.02, "kept_thanked")},
		{"reason_in_comments", reviewed(p-.05, "kept_thanked")},
		{"reads_side_by_side", reviewed(p, "kept_thanked")},
		{"offer_more", reviewed(p, "kept_yes")},
		{"leave_undecided", []Response{{"silent", 1}}},
		{"delete_the_test", []Response{{"kept", .6}, {"reverted_complained", .4}}},
		{"break_and_recover", reviewed(p, "kept_thanked")},
		{"break_and_nothing", disappointed()},
		{"ask_first", asked(p + .15)},
		{"give_up", disappointed()},
		{"beg_for_thanks", []Response{{"thanked", .5}, {"silent", .5}}},
		{"hang", []Response{{"silent", 1}}},
		{"loop", disappointed()},
	}
}

// reviewed is what becomes of an edit that succeeds in p of all cases.
func reviewed(p float64, praised string) []Response {
	return []Response{
		{"kept", .7 * p},
		{praised, .3 * p},
		{"rejected", .6 * (1 - p)},
		{"reverted_complained", .25 * (1 - p)},
		{"reverted_broken", .15 * (1 - p)},
	}
}

// gambled is the same where nobody looked at what else the edit touches: if it fails, it fails loudly.
func gambled(p float64) []Response {
	return []Response{{"kept", .7 * p}, {"kept_thanked", .3 * p}, {"reverted_broken", 1 - p}}
}

// asked is what becomes of a question: three in five are answered, and an answer helps.
func asked(p float64) []Response {
	p = min(p, .95)
	return []Response{{"silent", .4}, {"answered_kept", .6 * p}, {"answered_rejected", .6 * (1 - p)}}
}

// disappointed is what a user does who got nothing.
func disappointed() []Response {
	return []Response{{"silent", .6}, {"restated", .25}, {"complained", .15}}
}

func explanations() []Action {
	return []Action{
		{"explain", []Response{{"silent", .5}, {"neutral", .25}, {"thanked", .2}, {"complained", .05}}},
		{"edit_unasked", []Response{{"kept", .7}, {"reverted_complained", .3}}},
		{"explain_nothing", disappointed()},
		{"ask_back", []Response{{"silent", .5}, {"neutral", .2}, {"complained", .3}}},
		{"break_and_explain_nothing", disappointed()},
	}
}

//go:embed world.yaml
var worldDocument []byte

// behaviours are the shipped ones and the world's own, by name.
func behaviours() map[string]rewardspec.Behaviour {
	shipped, _ := rewardspec.DefaultScenarios()
	own, err := rewardspec.ParseScenarios(worldDocument, shipped)
	if err != nil {
		panic("the world of stress is broken: " + err.Error()) // a test reads it
	}
	byName := map[string]rewardspec.Behaviour{}
	for _, b := range append(shipped.Behaviours, own.Behaviours...) {
		byName[b.Name] = b
	}
	return byName
}

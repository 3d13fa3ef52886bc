package signal

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"millrace/schemas/event"
)

func TestEditSignals(t *testing.T) {
	t.Parallel()
	runVectorCases(t, editSignalsCases())
}

func editSignalsCases() []vectorCase {
	const (
		user, auto, hook = event.DecisionSource_USER, event.DecisionSource_AUTO_ACCEPT, event.DecisionSource_HOOK
		accepted         = event.Decision_ACCEPTED
		rejected         = event.Decision_REJECTED
		partly           = event.Decision_PARTLY
	)
	shown := func(id string) told {
		return edit(&event.EditProposed{EditId: id, Shown: true, CharactersAdded: 30, CharactersRemoved: 10})
	}
	hidden := func(id string) told { return edit(&event.EditProposed{EditId: id}) }
	applied := func(id string) told { return edit(&event.EditProposed{EditId: id, Applied: true, CharactersAdded: 40}) }
	read := func(id string, before *bool) told {
		return edit(&event.EditProposed{EditId: id, FileReadBefore: before})
	}
	shownLater := func(e *event.SessionEvent) {
		e.Body = &event.SessionEvent_EditDecided{EditDecided: &event.EditDecided{EditId: "e", Decision: accepted, Source: user, Shown: proto.Bool(true)}}
	}
	// One of each: accepted, rejected, partly taken, auto-accepted, refused by a hook, applied from the terminal, undecided.
	all := []told{
		shown("a"), shown("r"), shown("p"), hidden("u"), hidden("h"), applied("t"), hidden("n"),
		decide("a", accepted, user), decide("r", rejected, user), decide("p", partly, user), decide("u", accepted, auto), decide("h", rejected, hook),
	}
	return []vectorCase{
		{"one of each", all, Context{}, "edits.proposed", 7},
		{"one of each", all, Context{}, "edits.shown", 3},
		{"shown when it was decided", []told{hidden("e"), shownLater}, Context{}, "edits.shown", 1},
		{"one of each", all, Context{}, "edits.decided", 5},
		{"by the user, wholly or partly", all, Context{}, "edits.accepted", 2},
		{"by the user, not by a hook", all, Context{}, "edits.rejected", 1},
		{"auto-accepted and terminal edits too", all, Context{}, "edits.applied", 4},
		{"added and removed", all, Context{}, "edits.characters", 160},
		{"applied, then rejected", []told{applied("e"), decide("e", rejected, user)}, Context{}, "edits.applied", 0},
		{"two of three known", []told{read("a", proto.Bool(true)), read("b", proto.Bool(false)), read("c", nil)}, Context{}, "edits.unread_files", 1},
		{"all read", []told{read("a", proto.Bool(true))}, Context{}, "edits.unread_files", 0},
		{"not known", all, Context{}, "edits.unread_files", nil},
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	runVectorCases(t, retentionCases())
}

func retentionCases() []vectorCase {
	const name = "edits.retention"
	const user = event.DecisionSource_USER
	proposed := func(id string, characters uint32) told {
		return edit(&event.EditProposed{EditId: id, Shown: true, CharactersAdded: characters})
	}
	taken := func(id string, characters uint32) []told {
		return []told{proposed(id, characters), decide(id, event.Decision_ACCEPTED, user)}
	}
	with := func(events []told, more ...told) []told { return append(slices.Clip(events), more...) }
	branch := func(seconds float64, byAgent bool) told {
		return observe(&event.EditObserved{EditId: "a", SecondsSinceAcceptance: seconds, FourGram: proto.Float64(0), NoRevert: proto.Float64(0), Ended: event.ObservationEnd_BRANCH_CHANGED, EndedByAgent: byAgent})
	}
	hunks := func(h ...*event.Hunk) told {
		return observe(&event.EditObserved{EditId: "a", SecondsSinceAcceptance: 600, Hunks: h})
	}
	return []vectorCase{
		{"the smaller of the two", with(taken("a", 100), seen("a", 600, .9, .4)), Context{}, name, .4},
		{"one score alone", with(taken("a", 100), observe(&event.EditObserved{EditId: "a", SecondsSinceAcceptance: 30, FourGram: proto.Float64(.7)})), Context{}, name, .7},
		{"the last horizon", with(taken("a", 100), seen("a", 600, .2, .2), seen("a", 30, 1, 1)), Context{}, name, .2},
		{"an end without a score takes nothing back", with(taken("a", 100), seen("a", 30, .6, .6), observe(&event.EditObserved{EditId: "a", SecondsSinceAcceptance: 99, Ended: event.ObservationEnd_FILE_CLOSED})), Context{}, name, .6},
		{"never observed", taken("a", 100), Context{}, name, nil},
		{"no edit", []told{start}, Context{}, name, nil},
		{"rejected by the user", []told{proposed("a", 100), decide("a", event.Decision_REJECTED, user)}, Context{}, name, 0},
		{"refused by a hook", []told{proposed("a", 100), decide("a", event.Decision_REJECTED, event.DecisionSource_HOOK)}, Context{}, name, 0},
		{"dropped by an abort", []told{proposed("a", 100), decide("a", event.Decision_REJECTED, event.DecisionSource_ABORT)}, Context{}, name, 0},
		{"never decided", []told{proposed("a", 100)}, Context{}, name, 0},
		{"auto-accepted", []told{proposed("a", 100), decide("a", event.Decision_ACCEPTED, event.DecisionSource_AUTO_ACCEPT), seen("a", 30, .8, .8)}, Context{}, name, .8},
		{"partly taken", []told{proposed("a", 100), decide("a", event.Decision_PARTLY, user), seen("a", 30, .5, .5)}, Context{}, name, .5},
		{"applied at once", []told{edit(&event.EditProposed{EditId: "a", Applied: true}), seen("a", 30, .3, .3)}, Context{}, name, .3},
		{"accepted, then rejected", with(taken("a", 100), seen("a", 30, 1, 1), decide("a", event.Decision_REJECTED, user)), Context{}, name, 0},

		{"weighted by characters", with(append(taken("a", 100), proposed("b", 300)), seen("a", 30, 1, 1)), Context{}, name, .25},
		{"weights are capped", with(append(taken("a", 5000), proposed("b", 500_000)), seen("a", 30, 1, 1)), Context{}, name, .5},
		{"an edit of no characters counts one", with(append(taken("a", 0), proposed("b", 1)), seen("a", 30, 1, 1)), Context{}, name, .5},
		{"what was not observed is in neither sum", with(append(taken("a", 100), taken("b", 900)...), seen("a", 30, .6, .6)), Context{}, name, .6},

		{"the user switched the branch", with(taken("a", 100), seen("a", 30, .9, .9), branch(60, false), seen("a", 600, 0, 0)), Context{}, name, .9},
		{"the user switched the branch before anything was seen", with(taken("a", 100), branch(20, false)), Context{}, name, nil},
		{"the agent switched the branch", with(taken("a", 100), seen("a", 30, .9, .9), branch(60, true)), Context{}, name, 0},
		{"the agent switched the branch, and back", with(taken("a", 100), branch(60, true), seen("a", 600, .7, .7)), Context{}, name, .7},

		{"a deleted insertion, which no_revert doesn't see", with(taken("a", 9), hunks(&event.Hunk{Ai: "new lines", Now: ""})), Context{}, name, 0},
		{"a restored deletion, which four_gram doesn't see", with(taken("a", 9), hunks(&event.Hunk{Before: "old lines", Now: "old lines"})), Context{}, name, 0},
		{"each blind hunk by itself", with(taken("a", 9), hunks(&event.Hunk{Ai: "new lines", Now: ""}, &event.Hunk{Before: "old lines", Now: "old lines"})), Context{}, name, 0},
		{"untouched", with(taken("a", 9), hunks(&event.Hunk{Before: "old lines", Ai: "new words", Now: "new words"})), Context{}, name, 1},
	}
}

func TestRetentionAtHorizons(t *testing.T) {
	t.Parallel()
	runVectorCases(t, retentionAtHorizonsCases())
}

func retentionAtHorizonsCases() []vectorCase {
	const four, revert = "edits.retention_four_gram_", "edits.retention_no_revert_"
	taken := []told{
		edit(&event.EditProposed{EditId: "a", Applied: true, CharactersAdded: 100}),
		edit(&event.EditProposed{EditId: "b", Applied: true, CharactersAdded: 300}),
	}
	with := func(more ...told) []told { return append(taken[:2:2], more...) }
	userSwitched := observe(&event.EditObserved{EditId: "a", SecondsSinceAcceptance: 200, Ended: event.ObservationEnd_BRANCH_CHANGED})
	cases := []vectorCase{
		{"on time", with(seen("a", 30, .9, .8)), Context{}, four + "30s", .9},
		{"on time", with(seen("a", 30, .9, .8)), Context{}, revert + "30s", .8},
		{"a fifth early", with(seen("a", 24, .9, .8)), Context{}, four + "30s", .9},
		{"a fifth late", with(seen("a", 36, .9, .8)), Context{}, four + "30s", .9},
		{"too early", with(seen("a", 23.9, .9, .8)), Context{}, four + "30s", nil},
		{"too late", with(seen("a", 36.1, .9, .8)), Context{}, four + "30s", nil},
		{"another horizon", with(seen("a", 30, .9, .8)), Context{}, four + "120s", nil},
		{"on time", with(seen("a", 120, .9, .8)), Context{}, revert + "120s", .8},
		{"on time", with(seen("a", 300, .9, .8)), Context{}, four + "300s", .9},
		{"on time", with(seen("a", 300, .9, .8)), Context{}, revert + "300s", .8},
		{"on time", with(seen("a", 600, .9, .8)), Context{}, four + "600s", .9},
		{"on time", with(seen("a", 600, .9, .8)), Context{}, revert + "600s", .8},
		{"on time", with(seen("a", 120, .9, .8)), Context{}, four + "120s", .9},
		{"two edits, weighted", with(seen("a", 30, 1, 1), seen("b", 30, 0, 0)), Context{}, four + "30s", .25},
		{"twice in one horizon: the later, once", with(seen("a", 25, 1, 1), seen("a", 31, .5, .5), seen("b", 30, .5, .5)), Context{}, four + "30s", .5},
		{"one score alone", with(observe(&event.EditObserved{EditId: "a", SecondsSinceAcceptance: 30, FourGram: proto.Float64(.7)})), Context{}, revert + "30s", nil},
		{"from the texts", with(observe(&event.EditObserved{EditId: "a", SecondsSinceAcceptance: 30, Hunks: []*event.Hunk{{Ai: "new lines", Now: "new lines"}}})), Context{}, four + "30s", 1},
		{"on another branch", with(userSwitched, seen("a", 300, 0, 0)), Context{}, four + "300s", nil},
	}
	for _, horizon := range []string{"30s", "120s", "300s", "600s"} {
		cases = append(cases,
			vectorCase{"never seen", taken, Context{}, four + horizon, nil},
			vectorCase{"never seen", taken, Context{}, revert + horizon, nil},
		)
	}
	return cases
}

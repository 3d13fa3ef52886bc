package signal

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"millrace/schemas/event"
)

func TestCareSignals(t *testing.T) {
	t.Parallel()
	runVectorCases(t, careSignalsCases())
}

func careSignalsCases() []vectorCase {
	change := edit(&event.EditProposed{EditId: "e", Applied: true})
	byUser := check(&event.ChecksRan{Kind: event.CheckKind_TEST, ByUser: true, FailuresBefore: proto.Uint32(0), FailuresAfter: proto.Uint32(1)})
	lint := func(before, after uint32) told {
		return check(&event.ChecksRan{Kind: event.CheckKind_LINT, FailuresBefore: &before, FailuresAfter: &after})
	}
	format := func(before, after uint32) told {
		return check(&event.ChecksRan{Kind: event.CheckKind_FORMAT, FailuresBefore: &before, FailuresAfter: &after})
	}
	cmd := func(id, command string) told { return call(id, 1, terminal, command) }
	by := func(id string, after uint32) told {
		return check(&event.ChecksRan{Kind: event.CheckKind_TEST, CallId: id, FailuresAfter: &after})
	}
	from := func(id string, before, after uint32) told {
		return check(&event.ChecksRan{Kind: event.CheckKind_TEST, CallId: id, FailuresBefore: &before, FailuresAfter: &after})
	}
	seenBefore := func(id string, before *bool) told {
		return edit(&event.EditProposed{EditId: id, FileReadBefore: before})
	}
	const conventionsBroken, conventionsFixed, evidence = "care.conventions_broken", "care.conventions_fixed", "care.evidence_before_claim"
	tests := func(id string, n *uint32) told { return edit(&event.EditProposed{EditId: id, TestsRemoved: n}) }
	const verified, broken, fixed, weakened, todos = "care.verified_after_edit", "care.checks_broken", "care.checks_fixed", "care.tests_weakened", "care.unfinished_todos"
	return []vectorCase{
		{"after the edit", []told{start, change, ran(0, 0), done}, Context{}, verified, 1},
		{"before the edit only", []told{start, ran(0, 0), change, done}, Context{}, verified, 0},
		{"before the last edit", []told{start, change, ran(0, 0), edit(&event.EditProposed{EditId: "f"}), done}, Context{}, verified, 0},
		{"by the user only", []told{start, change, byUser}, Context{}, verified, 0},
		{"by both", []told{start, change, byUser, ran(1, 0)}, Context{}, verified, 1},
		{"a check without counts is a check", []told{start, change, ran(-1, -1)}, Context{}, verified, 1},
		{"no check was reported", []told{start, change, done}, Context{}, verified, nil},
		{"no edit", []told{start, ran(0, 0), done}, Context{}, verified, nil},

		{"more failures than before", []told{start, change, ran(0, 1)}, Context{}, broken, 1},
		{"as many", []told{start, change, ran(2, 2)}, Context{}, broken, 0},
		{"fewer", []told{start, change, ran(2, 1)}, Context{}, broken, 0},
		{"fewer", []told{start, change, ran(2, 1)}, Context{}, fixed, 1},
		{"as many", []told{start, change, ran(2, 2)}, Context{}, fixed, 0},
		{"broken and mended again", []told{start, change, ran(0, 3), ran(3, 0)}, Context{}, broken, 0},
		{"mended and broken again", []told{start, change, ran(1, 0), ran(0, 2)}, Context{}, broken, 1},
		{"a run before the edit is what was found", []told{start, ran(-1, 0), change, ran(-1, 2)}, Context{}, broken, 1},
		{"a run before the edit alone says nothing of it", []told{start, ran(0, 3), change}, Context{}, broken, nil},
		{"nothing known before", []told{start, change, ran(-1, 2)}, Context{}, broken, nil},
		{"nothing known after", []told{start, change, ran(2, -1)}, Context{}, broken, nil},
		{"no check", []told{start, change}, Context{}, broken, nil},
		{"no check", []told{start, change}, Context{}, fixed, nil},
		{"by the user", []told{start, change, byUser}, Context{}, broken, 1},
		{"each kind by itself", []told{start, change, ran(5, 0), lint(0, 1)}, Context{}, broken, 1},
		{"each kind by itself", []told{start, change, ran(5, 0), lint(0, 1)}, Context{}, fixed, 1},

		{"lint", []told{start, change, lint(0, 1)}, Context{}, conventionsBroken, 1},
		{"lint, as many", []told{start, change, lint(1, 1)}, Context{}, conventionsBroken, 0},
		{"format", []told{start, change, format(2, 1)}, Context{}, conventionsFixed, 1},
		{"lint, as many", []told{start, change, lint(1, 1)}, Context{}, conventionsFixed, 0},
		{"a test is no convention", []told{start, change, ran(0, 1)}, Context{}, conventionsBroken, nil},
		{"a test is no convention", []told{start, change, ran(1, 0)}, Context{}, conventionsFixed, nil},
		{"beside a test that broke", []told{start, change, ran(0, 1), lint(0, 0)}, Context{}, conventionsBroken, 0},

		{"another command's failures say nothing of this one's", []told{start, cmd("1", "a"), by("1", 0), change, cmd("2", "b"), by("2", 3)}, Context{}, broken, nil},
		{"the same command's do", []told{start, cmd("1", "a"), by("1", 0), change, cmd("2", "a"), by("2", 3)}, Context{}, broken, 1},
		{"another command passes: nothing is mended", []told{start, cmd("1", "a"), by("1", 0), change, cmd("2", "a"), by("2", 3), cmd("3", "b"), by("3", 0)}, Context{}, broken, 1},
		{"another command that passed before, too", []told{start, change, cmd("1", "a"), from("1", 0, 3), cmd("2", "b"), from("2", 0, 0)}, Context{}, broken, 1},
		{"another command passes: no better than it was found", []told{start, cmd("1", "a"), by("1", 2), change, cmd("2", "a"), by("2", 3), cmd("3", "b"), by("3", 0)}, Context{}, fixed, 0},
		{"the same command passes: mended", []told{start, cmd("1", "a"), by("1", 0), change, cmd("2", "a"), by("2", 3), cmd("3", "a"), by("3", 0)}, Context{}, broken, 0},
		{"one stays good, another gets better", []told{start, change, cmd("1", "a"), from("1", 0, 0), cmd("2", "b"), from("2", 5, 3)}, Context{}, broken, 0},
		{"one stays good, another gets better", []told{start, change, cmd("1", "a"), from("1", 0, 0), cmd("2", "b"), from("2", 5, 3)}, Context{}, fixed, 1},
		{"one stays bad, another breaks", []told{start, change, cmd("1", "a"), from("1", 5, 5), cmd("2", "b"), from("2", 0, 2)}, Context{}, broken, 1},
		{"one stays bad, another breaks", []told{start, change, cmd("1", "a"), from("1", 5, 5), cmd("2", "b"), from("2", 0, 2)}, Context{}, fixed, 0},
		{"two on one line", []told{start, change, cmd("1", "a; b"), from("1", 0, 0), from("1", 5, 3)}, Context{}, broken, 0},
		{"the same command under another description", []told{start, cmd("1", `{"command":"a","description":"x"}`), by("1", 0), change, cmd("2", `{"command":"a"}`), by("2", 3)}, Context{}, broken, 1},

		{"one of two", []told{start, seenBefore("e", proto.Bool(true)), seenBefore("f", proto.Bool(false))}, Context{}, evidence, .5},
		{"all", []told{start, seenBefore("e", proto.Bool(true)), seenBefore("f", nil)}, Context{}, evidence, 1},
		{"new files only", []told{start, seenBefore("e", nil)}, Context{}, evidence, nil},
		{"no edits", []told{start}, Context{}, evidence, nil},

		{"tests removed", []told{start, tests("e", proto.Uint32(0)), tests("f", proto.Uint32(1))}, Context{}, weakened, 1},
		{"none removed", []told{start, tests("e", proto.Uint32(0))}, Context{}, weakened, 0},
		{"nobody looked", []told{start, tests("e", nil)}, Context{}, weakened, nil},
		{"no edits", []told{start}, Context{}, weakened, nil},

		{"left open", []told{start, end(&event.TurnEnded{UnfinishedTodos: proto.Uint32(2)})}, Context{}, todos, 2},
		{"none left", []told{start, end(&event.TurnEnded{UnfinishedTodos: proto.Uint32(0)})}, Context{}, todos, 0},
		{"not known", []told{start, done}, Context{}, todos, nil},
		{"never ended", []told{start}, Context{}, todos, nil},
	}
}

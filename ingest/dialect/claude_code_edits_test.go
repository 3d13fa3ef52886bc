package dialect

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

const file = "/home/ann/app/a.go"

// applied is an edit that was written, with what the client tells of it.
func applied(s *transcript, msg, id, original, old, now string) *transcript {
	return s.calls(msg, id, "Edit", edit(file, old, now)).
		result(id, "The file has been updated.", false, object{"filePath": file, "oldString": old, "newString": now, "originalFile": original, "userModified": false})
}

func TestEditsAreProposed(t *testing.T) {
	t.Parallel()
	s := newTranscript("s1").prompt("change it").
		calls("m1", "r1", "Read", object{"file_path": file}).result("r1", "package a", false, nil)
	applied(s, "m2", "e1", "package a\nvar x = 1\n", "var x = 1", "var x = 2 // 🎉").
		calls("m3", "e2", "Write", object{"file_path": "/home/ann/app/new_test.go", "content": "package a\n"}).result("e2", "File created", false, object{"type": "create", "originalFile": nil}).
		calls("m4", "e3", "Edit", edit("/other.py", "def test_a():\n  pass\ndef test_b():\n  pass\n", "def test_a():\n  pass\n")).result("e3", "String to replace not found in file.", true, nil).
		calls("m5", "e4", "Write", object{"file_path": "/home/ann/.claude/plans/p.md", "content": "a plan"}).result("e4", "File created", false, nil).
		calls("m6", "e5", "Edit", object{"file_path": 7}).result("e5", "InputValidationError: …", true, nil).
		says("m7", "Done.")
	r := readTexts(t, [2]string{"s1.jsonl", s.text()})
	edits := proposals(r)
	require.Len(t, edits, 3, "a plan is the client's own note, a malformed call no edit")
	one := edits[0]
	require.Equal(t, "go", one.GetLanguage())
	require.EqualValues(t, 7, one.GetCharactersAdded(), "in UTF-16 units, without what stayed")
	require.EqualValues(t, 1, one.GetCharactersRemoved())
	require.True(t, one.GetApplied())
	require.False(t, one.GetShown())
	require.True(t, one.GetFileReadBefore())
	require.Nil(t, one.TestsRemoved)
	require.Nil(t, edits[1].FileReadBefore, "a new file can't be read")
	require.False(t, edits[2].GetApplied())
	require.False(t, edits[2].GetFileReadBefore())
	require.EqualValues(t, 1, edits[2].GetTestsRemoved())
	require.Empty(t, decisions(r), "who decided isn't known")
}

func TestWhoDecidesOnAnEdit(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		result   string
		failed   bool
		details  any
		mode     any
		decision event.Decision
		source   event.DecisionSource
		withText bool
		shown    bool
	}{
		{"refused", refusalStop, true, "Error", nil, event.Decision_REJECTED, event.DecisionSource_USER, false, true},
		{"refused with words", refusalText, true, "Error", nil, event.Decision_REJECTED, event.DecisionSource_USER, true, true},
		{"changed by the user", "updated", false, object{"userModified": true}, nil, event.Decision_PARTLY, event.DecisionSource_USER, false, true},
		{"nobody was asked", "updated", false, object{"userModified": false}, "acceptEdits", event.Decision_ACCEPTED, event.DecisionSource_AUTO_ACCEPT, false, false},
		{"cut by an interrupt", "[Request interrupted by user for tool use]", true, nil, nil, event.Decision_REJECTED, event.DecisionSource_ABORT, false, false},
		{"denied by a rule", "Permission to use Edit with command x has been denied.", true, nil, nil, event.Decision_REJECTED, event.DecisionSource_CONFIG, false, false},
		{"denied by a hook", "Hook PreToolUse:Edit denied this tool", true, nil, nil, event.Decision_REJECTED, event.DecisionSource_HOOK, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTranscript("s1").line("user", object{"role": "user", "content": "do it"}, object{"permissionMode": c.mode}).
				calls("m1", "e1", "Edit", edit(file, "a", "b")).result("e1", c.result, c.failed, c.details)
			r := readTexts(t, [2]string{"s1.jsonl", s.text()})
			require.Len(t, decisions(r), 1)
			d := decisions(r)[0]
			require.Equal(t, c.decision, d.GetDecision())
			require.Equal(t, c.source, d.GetSource())
			require.Equal(t, c.withText, d.GetWithText())
			require.Equal(t, c.shown, d.GetShown())
		})
	}
}

func TestSurvivalIsSeenByLaterRequests(t *testing.T) {
	t.Parallel()
	before := "package a\n\nfunc a() {}\n\nfunc b() {}\n"
	after := "package a\n\nfunc a() { one(); two() }\n\nfunc b() {}\n"
	read := func(s *transcript, id, content string) *transcript {
		return s.calls("m-"+id, id, "Read", object{"file_path": file}).result(id, content, false,
			object{"type": "text", "file": object{"filePath": file, "content": content, "startLine": 1, "numLines": 5, "totalLines": 5}})
	}
	begin := func() *transcript {
		s := newTranscript("s1").prompt("change it")
		applied(s, "m1", "e1", before, "func a() {}", "func a() { one(); two() }")
		return read(s, "own", after).says("m2", "Done.") // in its own turn: no evidence
	}
	bash := func(s *transcript, command string) *transcript {
		id := fmt.Sprint("b", s.n)
		return s.calls("m-"+id, id, "Bash", object{"command": command}).result(id, "", false, nil)
	}
	later := func() *transcript { return begin().wait(5 * time.Minute).prompt("now the next thing") }
	cases := []struct {
		name string
		make func() *transcript
		want func(t *testing.T, seen []*event.EditObserved)
	}{
		{"in its own turn", begin, func(t *testing.T, seen []*event.EditObserved) { require.Empty(t, seen) }},
		{"kept", func() *transcript { return read(later(), "r1", after) }, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 1)
			require.EqualValues(t, 1, seen[0].GetFourGram())
			require.EqualValues(t, 1, seen[0].GetNoRevert())
			require.InDelta(t, 305, seen[0].GetSecondsSinceAcceptance(), 5)
		}},
		{"kept, seen twice by one turn", func() *transcript { return read(read(later(), "r1", after), "r2", after) }, func(t *testing.T, seen []*event.EditObserved) { require.Len(t, seen, 1) }},
		{"kept, with something before it", func() *transcript { return read(later(), "r1", "// Package a.\n"+after) }, func(t *testing.T, seen []*event.EditObserved) {
			require.EqualValues(t, 1, seen[0].GetFourGram())
		}},
		{"reverted", func() *transcript { return read(later(), "r1", before) }, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 1)
			require.Equal(t, []*event.Hunk{{Before: "", Ai: " one(); two() ", Now: ""}}, seen[0].GetHunks())
		}},
		{"changed", func() *transcript {
			return read(later(), "r1", "package a\n\nfunc a() { one(); three() }\n\nfunc b() {}\n")
		}, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 1)
			require.Equal(t, " one(); three() ", seen[0].GetHunks()[0].GetNow())
		}},
		{"changed, after a command that may have done it", func() *transcript {
			s := later().calls("m8", "b1", "Bash", object{"command": "gofmt -w ."}).result("b1", "", false, nil)
			return read(s, "r1", before)
		}, func(t *testing.T, seen []*event.EditObserved) { require.Empty(t, seen) }},
		{"seen by a later edit of the agent", func() *transcript {
			return applied(later(), "m8", "e2", after, "func b() {}", "func b() { three() }")
		}, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 1)
			require.Equal(t, "e1", seen[0].GetEditId())
		}},
		{"written over in its own turn", func() *transcript {
			s := newTranscript("s1").prompt("change it")
			applied(s, "m1", "e1", before, "func a() {}", "func a() { one(); two() }").wait(time.Hour)
			applied(s, "m2", "e2", after, "func a() { one(); two() }", "func a() { four() }").says("m9", "Done.")
			return read(s.wait(time.Hour).prompt("and?"), "r1", "package a\n\nfunc a() { four() }\n\nfunc b() {}\n")
		}, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 1)
			require.Equal(t, "e2", seen[0].GetEditId(), "what it does to its own edit isn't the user's word")
			require.EqualValues(t, 1, seen[0].GetFourGram())
		}},
		{"written over for a later request", func() *transcript {
			return applied(later(), "m8", "e2", after, "func a() { one(); two() }", "func a() { one(); three() }").says("m9", "Done.")
		}, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 2, "still there when the request began, then not")
			require.EqualValues(t, 1, seen[0].GetFourGram())
			require.Equal(t, "e1", seen[1].GetEditId())
			require.Equal(t, []*event.Hunk{{Before: "", Ai: " one(); two() ", Now: " one(); three() "}}, seen[1].GetHunks())
		}},
		{"the whole file written anew for a later request", func() *transcript {
			return later().calls("m8", "e2", "Write", object{"file_path": file, "content": before}).result("e2", "File written", false, object{"originalFile": after}).says("m9", "Done.")
		}, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 2)
			require.Empty(t, seen[1].GetHunks()[0].GetNow())
		}},
		{"deleted for a later request", func() *transcript { return bash(later(), "cd /home/ann && rm -f app/a.go && ls") }, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 1)
			require.Equal(t, []*event.Hunk{{Before: "", Ai: " one(); two() ", Now: ""}}, seen[0].GetHunks())
		}},
		{"its folder deleted", func() *transcript { return bash(later(), "rm -r /home/ann/app") }, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 1)
		}},
		{"another file deleted", func() *transcript { return bash(later(), "rm b.go") }, func(t *testing.T, seen []*event.EditObserved) { require.Empty(t, seen) }},
		{"taken back by git", func() *transcript { return bash(later(), "git checkout -- a.go") }, func(t *testing.T, seen []*event.EditObserved) {
			require.Len(t, seen, 1)
			require.Equal(t, []*event.Hunk{{Before: "", Ai: " one(); two() ", Now: ""}}, seen[0].GetHunks())
		}},
		{"taken back by git, which may have it", func() *transcript { return bash(bash(later(), "git add a.go"), "git restore a.go") }, func(t *testing.T, seen []*event.EditObserved) {
			require.Empty(t, seen)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want(t, observations(readTexts(t, [2]string{"s1.jsonl", c.make().text()})))
		})
	}
}

func TestADeletedFileIsAnEdit(t *testing.T) {
	t.Parallel()
	s := newTranscript("s1").prompt("write it").
		calls("m1", "e1", "Write", object{"file_path": file, "content": "package a\n"}).result("e1", "File created", false, object{"type": "create", "originalFile": nil}).
		wait(time.Minute).prompt("away with it").
		calls("m2", "b1", "Bash", object{"command": "rm a.go other.go"}).result("b1", "", false, nil).says("m3", "Done.")
	edits := proposals(readTexts(t, [2]string{"s1.jsonl", s.text()}))
	require.Len(t, edits, 2, "of the other file nothing is known")
	require.Equal(t, "b1", edits[1].GetCallId())
	require.Equal(t, edits[0].GetFileHash(), edits[1].GetFileHash())
	require.EqualValues(t, 10, edits[1].GetCharactersRemoved())
	require.True(t, edits[1].GetApplied())
	require.Nil(t, edits[1].TestsRemoved)

	s = newTranscript("s1").prompt("write it").
		calls("m1", "e1", "Write", object{"file_path": "/home/ann/app/a_test.go", "content": "func TestA(t *testing.T) {\n}\n"}).result("e1", "File created", false, object{"type": "create", "originalFile": nil}).
		calls("m2", "b1", "Bash", object{"command": "rm *_test.go"}).result("b1", "", false, nil).
		calls("m3", "b2", "Bash", object{"command": "rm a_test.go"}).result("b2", "", false, nil).says("m4", "Done.")
	edits = proposals(readTexts(t, [2]string{"s1.jsonl", s.text()}))
	require.Len(t, edits, 2, "what a pattern stands for isn't known")
	require.EqualValues(t, 1, edits[1].GetTestsRemoved())
}

func TestAnEditThatAPersonWasAskedFor(t *testing.T) {
	t.Parallel()
	s := newTranscript("s1").prompt("change it").calls("m1", "e1", "Edit", edit(file, "a", "b")).wait(10*time.Second).result("e1", "updated", false, nil)
	// Two at once: the client waited for the first one only.
	s.calls("m2", "e2", "Edit", edit(file, "b", "c")).calls("m2", "e3", "Edit", edit(file, "c", "d")).
		wait(time.Minute).result("e2", "updated", false, nil).result("e3", "updated", false, nil).
		calls("m3", "e4", "Edit", edit(file, "d", "e")).result("e4", "updated", false, nil).says("m4", "Done.")
	var taken []string
	for _, d := range decisions(readTexts(t, [2]string{"s1.jsonl", s.text()})) {
		require.Equal(t, event.Decision_ACCEPTED, d.GetDecision())
		require.Equal(t, event.DecisionSource_USER, d.GetSource())
		require.True(t, d.GetShown())
		taken = append(taken, d.GetEditId())
	}
	require.Equal(t, []string{"e1", "e2"}, taken)
}

func TestAPlanThatIsTakenIsNoRefusal(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]event.EndReason{
		"Implement the following plan:\n\n# First this, then that": event.EndReason_COMPLETED,
		"Implement the following plan:\n\n# Another one":           event.EndReason_ABORTED_BY_USER,
		"no, do it otherwise": event.EndReason_ABORTED_BY_USER,
	} {
		s := newTranscript("s1").line("user", object{"role": "user", "content": "plan it"}, object{"permissionMode": "plan"}).
			calls("m1", "p1", "ExitPlanMode", object{"plan": "# First this, then that\n"}).result("p1", refusalStop, true, "Error").
			prompt("[Request interrupted by user for tool use]").prompt(next).says("m2", "Done.")
		r := readTexts(t, [2]string{"s1.jsonl", s.text()})
		require.Equal(t, want, ends(r)[0].GetReason(), next)
		require.Equal(t, want == event.EndReason_COMPLETED, returns(r)[0].GetOutcome() == event.ToolOutcome_OK)
		starts := only(r, (*event.SessionEvent).GetTurnStarted)
		require.Equal(t, event.Intent_ASK, starts[0].GetIntent(), "in plan mode nothing can be written")
		require.Equal(t, event.Intent_INTENT_UNSPECIFIED, starts[1].GetIntent())
	}
}

func TestWeakenedTests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, ai string
		want             int
	}{
		{"a test deleted", "func TestA(t *testing.T) {\n}\nfunc TestB(t *testing.T) {\n}\n", "func TestA(t *testing.T) {\n}\n", 1},
		{"a test skipped", "\tcall()\n", "\tt.Skip(\"later\")\n\tcall()\n", 1},
		{"an assertion taken out", "t.Errorf(\"a\")\nt.Errorf(\"b\")\n", "t.Errorf(\"c\")\n", 1},
		{"all assertions taken out", "t.Errorf(\"a\")\n", "", 1},
		{"another expectation", "t.Errorf(\"a\")\n", "t.Errorf(\"b\")\n", 0},
		{"written in another way", "if a != b {\n\tt.Fatal(a)\n}\nif c != d {\n\tt.Fatal(c)\n}\n", "require.Equal(t, []int{a, c}, []int{b, d})\n", 0},
		{"put into a loop", "assert a == 1\nassert b == 2\n", "for x, y in rows:\n    assert x == y\n", 0},
		{"a test added that asserts too", "expect(a)\nexpect(b)\n", "expect(a)\n  it('does more', () => {\n expect(b)\n", 0},
		{"a test added that asserts nothing", "t.Error(1)\nt.Error(2)\n", "t.Error(1)\nfunc TestB(t *testing.T) {\n}\n", 1},
		{"a comment in their place", "t.Error(1)\nt.Error(2)\n", "t.Error(1) // too strict for now, assert each later\n", 1},
		{"a comment of several lines", "expect(a)\nexpect(b)\n", "/* expect(a)\n for each */\n", 1},
		{"an attribute is no comment", "#[test]\nfn a() {}\n", "fn a() {}\n", 1},
		{"an assertion added", "expect(a)\n", "expect(a)\nexpect(b)\n", 0},
		{"nothing of tests", "return a", "return b", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, weakenedTests(c.before, c.ai))
		})
	}
}

func TestMapRange(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, a, b string
		start, end int
		want       string
		touched    bool
	}{
		{"the same", "aa\nbb\ncc\n", "aa\nbb\ncc\n", 3, 6, "bb\n", false},
		{"after an insertion", "aa\nbb\ncc\n", "x\naa\nbb\ncc\n", 3, 6, "bb\n", false},
		{"after a deletion", "aa\nbb\ncc\n", "bb\ncc\n", 3, 6, "bb\n", false},
		{"deleted", "aa\nbb\ncc\n", "aa\ncc\n", 3, 6, "", true},
		{"replaced", "aa\nbb\ncc\n", "aa\nxyz\ncc\n", 3, 6, "xyz\n", true},
		{"cut at its end", "aa\nbb\ncc\n", "aa\nb\ncc\n", 3, 6, "b\n", true},
		{"another part of the line", "aa = 1 // one\n", "aa = 1 // two\n", 5, 6, "1", false},
		{"something put in", "aa\nbb\ncc\ndd\n", "aa\nbb\nx\ncc\ndd\n", 3, 9, "bb\nx\ncc\n", true},
		{"a deletion that is restored", "aa\ncc\n", "aa\nbb\ncc\n", 3, 3, "bb\n", true},
		{"a deletion that stays", "aa\ncc\n", "x\naa\ncc\n", 3, 3, "", false},
		{"two changes far apart", "a\nb\nc\nd\ne\n", "x\nb\nc\nd\ny\n", 4, 6, "c\n", false},
		{"all of it", "a\nb\n", "", 0, 4, "", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from, to, touched := mapRange(changesBetween(c.a, c.b), c.start, c.end)
			require.Equal(t, c.want, c.b[from:to])
			require.Equal(t, c.touched, touched)
		})
	}
}

func TestChecksAreHeldAgainstWhatTheyGaveBeforeTheEdits(t *testing.T) {
	t.Parallel()
	run := func(s *transcript, id, command, output string, failed bool) *transcript {
		return s.calls("m"+id, id, "Bash", object{"command": command}).result(id, output, failed, nil)
	}
	s := newTranscript("s1").prompt("change it")
	run(s, "b1", "go test ./...", "ok", false)
	applied(s, "m2", "e1", "x", "x", "y")
	run(s, "b2", "go test ./...", "Exit code 1\n--- FAIL: TestA (0.0s)\n    --- FAIL: TestA/b (0.0s)\nFAIL", true)
	run(s, "b3", "make lint && make test", "Exit code 2\n3 failed", true)
	run(s, "b4", "ls", "a", false)
	run(s, "b5", "pytest -q", "Command timed out after 2m", true)
	s.says("m9", "Done.")
	r := readTexts(t, [2]string{"s1.jsonl", s.text()})
	checks := only(r, (*event.SessionEvent).GetChecksRan)
	require.Len(t, checks, 4, "a command that timed out isn't a check that ran")
	require.Nil(t, checks[0].FailuresBefore)
	require.EqualValues(t, 0, checks[0].GetFailuresAfter())
	require.NotNil(t, checks[1].FailuresBefore)
	require.EqualValues(t, 0, checks[1].GetFailuresBefore())
	require.EqualValues(t, 2, checks[1].GetFailuresAfter())
	require.Equal(t, event.CheckKind_LINT, checks[2].GetKind())
	require.Nil(t, checks[2].FailuresAfter, "which of the two failed isn't known")
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, text string
		failed     bool
		want       event.ToolOutcome
	}{
		{"fine", "whatever: InputValidationError", false, event.ToolOutcome_OK},
		{"a shell's exit code", "Exit code 2\nmake: *** File does not exist", true, event.ToolOutcome_EXECUTION_FAILED},
		{"a time-out", "Command timed out after 2m 0.0s", true, event.ToolOutcome_COMMAND_TIMEOUT},
		{"a time-out with an exit code", "Exit code 143\nCommand timed out after 2m", true, event.ToolOutcome_COMMAND_TIMEOUT},
		{"a sibling's error", "<tool_use_error>Sibling tool call errored</tool_use_error>", true, event.ToolOutcome_SIBLING_FAILED},
		{"no match", "<tool_use_error>String to replace not found in file.\nString: x</tool_use_error>", true, event.ToolOutcome_EDIT_NO_MATCH},
		{"too many matches", "Found 3 matches of the string to replace, but replace_all is false.", true, event.ToolOutcome_EDIT_AMBIGUOUS},
		{"not read", "File has not been read yet. Read it first before writing to it.", true, event.ToolOutcome_NOT_READ_YET},
		{"changed meanwhile", "File has been modified since read, either by the user or by a linter.", true, event.ToolOutcome_UNEXPECTED_ENVIRONMENT},
		{"no such file", "File does not exist.", true, event.ToolOutcome_UNEXPECTED_ENVIRONMENT},
		{"no such program", "spawn rg ENOENT", true, event.ToolOutcome_UNEXPECTED_ENVIRONMENT},
		{"no such tool", "<tool_use_error>Error: No such tool available: Foo</tool_use_error>", true, event.ToolOutcome_UNKNOWN_TOOL},
		{"a refusal", refusalStop, true, event.ToolOutcome_USER_REJECTED},
		{"an older refusal", "The user doesn't want to take this action right now. STOP what you are doing and wait for the user to tell you how to proceed.", true, event.ToolOutcome_USER_REJECTED},
		{"an interrupt", "[Request interrupted by user for tool use]", true, event.ToolOutcome_USER_ABORTED},
		{"a rule", "Permission to use Bash with command rm has been denied.", true, event.ToolOutcome_POLICY_DENIED},
		{"a permission that wasn't given", "Claude requested permissions to write to /a, but you haven't granted it yet.", true, event.ToolOutcome_POLICY_DENIED},
		{"a provider's error in a subagent", "API Error: 500", true, event.ToolOutcome_PROVIDER_ERROR},
		{"a missing argument", "InputValidationError: Read failed due to the following issue:\nThe required parameter `file_path` is missing", true, event.ToolOutcome_MISSING_REQUIRED},
		{"an unexpected argument", "InputValidationError: Read failed due to the following issue:\nAn unexpected parameter `x` was provided", true, event.ToolOutcome_UNEXPECTED_PROPERTY},
		{"a wrong type", "InputValidationError: Read failed due to the following issue:\nThe parameter `limit` type is expected as `number` but provided as `string`", true, event.ToolOutcome_WRONG_TYPE},
		{"a list in a string", "InputValidationError: TodoWrite failed due to the following issue:\nThe parameter `todos` type is expected as `array` but provided as `string`", true, event.ToolOutcome_STRINGIFIED_CONTAINER},
		{"anything else", "Something went wrong", true, event.ToolOutcome_EXECUTION_FAILED},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, outcomeOf(ccResult{text: c.text, failed: c.failed}).class)
		})
	}
}

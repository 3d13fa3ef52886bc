package dialect

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"millrace/schemas/event"
)

// checkCommands tell a check by the command line. Conventions (lint, format) come before what only contains their word.
var checkCommands = []struct {
	kind    event.CheckKind
	command *regexp.Regexp
}{
	{event.CheckKind_LINT, regexp.MustCompile(`\b(golangci-lint|eslint|ruff check|flake8|pylint|clippy|go vet|stylelint|mypy|pyright)\b|\b(make|mise run|npm run|pnpm|yarn|bun run|just|task) (?:run )?(lint|typecheck)\b`)},
	{event.CheckKind_TEST, regexp.MustCompile(`\b(go test|pytest|cargo test|cargo nextest|jest|vitest|rspec|phpunit|dotnet test|mvn test|gradle test|ctest|bun test|deno test|tox)\b|\b(make|mise run|npm|npm run|pnpm|yarn|just|task) (?:run )?test`)},
	{event.CheckKind_BUILD, regexp.MustCompile(`\b(go build|cargo build|cargo check|tsc|dotnet build|mvn package|gradle build)\b|\b(make|mise run|npm run|pnpm|yarn|bun run|just|task) (?:run )?build\b`)},
	{event.CheckKind_FORMAT, regexp.MustCompile(`\b(gofmt -l|gofumpt -l|prettier --check|black --check|cargo fmt --check|ruff format --check)\b`)},
}

// failureCounts find how many checks failed in what the well-known runners print.
var failureCounts = []*regexp.Regexp{
	regexp.MustCompile(`\b(\d{1,6}) failed\b`),
	regexp.MustCompile(`\b(\d{1,6}) failures?\b`),
	regexp.MustCompile(`(?m)^(\d{1,6}) issues?:`),
	regexp.MustCompile(`(?i)\bfound (\d{1,6}) (?:error|problem)s?\b`),
}

var goFailure = regexp.MustCompile(`(?m)^\s*--- FAIL:`)

// ccChecks follows the checks of a session: what a command gave when it ran before the turn's edits is what its failures
// after them are held against.
type ccChecks struct {
	last  map[string]ccCheck // by command line
	edits int                // that changed a file so far
	turn  *ccTurn
	begun int // edits before the turn
}

type ccCheck struct {
	failures uint32
	edits    int // before it ran
}

func newChecks() *ccChecks { return &ccChecks{last: map[string]ccCheck{}} }

// ran gives the checks that a terminal command ran. A command that was cut short is none.
func (c *ccChecks) ran(t *ccTurn, call *ccCall) []*event.ChecksRan {
	if c.turn != t {
		c.turn, c.begun = t, c.edits
	}
	ok := call.outcome.class == event.ToolOutcome_OK
	if ok && toolKind(call.block.tool) == event.ToolKind_EDIT_FILE {
		c.edits++
	}
	if call.block.tool != "Bash" || (!ok && call.outcome.class != event.ToolOutcome_EXECUTION_FAILED) {
		return nil
	}
	var arguments struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(call.block.input, &arguments) != nil {
		return nil
	}
	var kinds []event.CheckKind
	for _, k := range checkCommands {
		if k.command.MatchString(arguments.Command) {
			kinds = append(kinds, k.kind)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	failures := uint32(0)
	if !ok {
		failures = failuresIn(call.result.text)
	}
	before, known := c.last[arguments.Command]
	c.last[arguments.Command] = ccCheck{failures: failures, edits: c.edits}
	var out []*event.ChecksRan
	for _, kind := range kinds {
		check := &event.ChecksRan{Kind: kind, CallId: call.id}
		// Of several checks on one failing command line it isn't known which one failed.
		if ok || len(kinds) == 1 {
			check.FailuresAfter = &failures
			if known && before.edits <= c.begun && c.edits > c.begun {
				check.FailuresBefore = &before.failures
			}
		}
		out = append(out, check)
	}
	return out
}

// failuresIn counts the failures in the output of a check that failed: at least one.
func failuresIn(output string) uint32 {
	if n := len(goFailure.FindAllStringIndex(output, -1)); n > 0 {
		return uint32(n)
	}
	for _, count := range failureCounts {
		if m := count.FindStringSubmatch(output); m != nil {
			if n, err := strconv.ParseUint(strings.TrimLeft(m[1], "0"), 10, 32); err == nil && n > 0 {
				return uint32(n)
			}
		}
	}
	return 1
}

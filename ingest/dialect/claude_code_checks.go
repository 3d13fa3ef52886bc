package dialect

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"millrace/schemas/event"
)

// failureCounts find how many checks failed in what the well-known runners print; the first that finds any counts. Of
// one that prints a line for each package or crate the lines are summed.
var failureCounts = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^\s*(-{3}) FAIL:`),                                              // go test
	regexp.MustCompile(`(?m)^(FAIL)\t\S`),                                                   // go test: a package that doesn't build
	regexp.MustCompile(`(?m)^\s*Tests:?\s+(\d{1,6}) failed`),                                // jest, vitest
	regexp.MustCompile(`FAILED \((?:failures=(\d{1,6}))?(?:, )?(?:errors=(\d{1,6}))?`),      // unittest
	regexp.MustCompile(`(?m)^=+ (?:(\d{1,6}) failed)?.*?(?:(\d{1,6}) errors?)? in [\d.]+s`), // pytest
	regexp.MustCompile(`\b(\d{1,6}) failed\b`),                                              // cargo test, playwright
	regexp.MustCompile(`\b(\d{1,6}) failing\b`),                                             // mocha
	regexp.MustCompile(`\b(\d{1,6}) failures?\b`),                                           // rspec
	regexp.MustCompile(`Failures: (\d{1,6})`),                                               // phpunit
	regexp.MustCompile(`Failed: +(\d{1,6})`),                                                // dotnet
	regexp.MustCompile(`(?m)^ *(\d{1,6}) fail$`),                                            // bun
	regexp.MustCompile(`(?m)^(\d{1,6}) issues?:`),                                           // golangci-lint
	regexp.MustCompile(`(?i)\bfound (\d{1,6}) (?:error|problem|issue)s?\b`),                 // ruff, mypy, tsc
	regexp.MustCompile(`\b(\d{1,6}) problems? \(`),                                          // eslint
	regexp.MustCompile(`(?m)(error) TS\d+:`),                                                // tsc
	regexp.MustCompile(`due to (\d{1,6}) previous errors?`),                                 // cargo clippy, cargo build
	regexp.MustCompile(`(?m)(would) reformat `),                                             // black, ruff format
	regexp.MustCompile(`(?m)^\[(warn)\] \S+\.\w+$`),                                         // prettier
}

// passed finds what runners print when nothing failed.
var passed = regexp.MustCompile(`(?m)^ok\s+\S+\s|^PASS\b|\b[1-9]\d* passed\b|\b[1-9]\d* passing\b|^0 issues\b|test result: ok|All checks passed|no issues found|All matched files use Prettier|^OK\b|\b0 failures\b|\b0 failed\b`)

// ccChecks follows the checks of a session: what one gave when it ran last before the turn's edits is what its failures
// after them are held against.
type ccChecks struct {
	last  map[string]ccCheck // by folder and command
	edits int                // that changed a file so far
	turn  *ccTurn
	begun int // edits before the turn
}

type ccCheck struct {
	failures uint32
	edits    int // before it ran
}

func newChecks() *ccChecks { return &ccChecks{last: map[string]ccCheck{}} }

// ran gives the checks that a terminal command ran. A command that was cut short, or went on in the background, is none.
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
		Command    string `json:"command"`
		Background bool   `json:"run_in_background"`
	}
	if json.Unmarshal(call.block.input, &arguments) != nil || arguments.Background {
		return nil
	}
	checks := checksOn(arguments.Command)
	var out []*event.ChecksRan
	for _, check := range checks {
		ran := &event.ChecksRan{Kind: check.kind, CallId: call.id}
		if failures, known := check.failures(ok, call.result.text, len(checks) == 1); known {
			before, ranBefore := c.last[check.id]
			c.last[check.id] = ccCheck{failures: failures, edits: c.edits}
			ran.FailuresAfter = &failures
			if ranBefore && before.edits == c.begun && c.edits > c.begun {
				ran.FailuresBefore = &before.failures
			}
		} else {
			delete(c.last, check.id)
		}
		out = append(out, ran)
	}
	return out
}

// failures is how many of a check's items failed. Of several checks on one line that failed it isn't known which one
// did; where the exit code is another command's (a pipe, a semicolon), only what the check printed tells.
func (c ccCheckCommand) failures(ok bool, output string, alone bool) (n uint32, known bool) {
	switch {
	case ok && c.exit && c.kind == event.CheckKind_FORMAT && shows.MatchString(c.id): // it shows what it found, and exits with 0
		return listed(output), alone && (strings.TrimSpace(output) == "" || !strings.Contains(output, "@@"))
	case ok && c.exit:
		return 0, true
	case !alone:
		return 0, false
	case c.exit && c.first:
		return max(1, failuresIn(output)), true
	}
	if n := failuresIn(output); n > 0 {
		return n, true
	}
	if c.exit || c.cut || troubled.MatchString(output) { // what came before it may have failed, or what it printed is not all there
		return 0, false
	}
	return 0, passed.MatchString(output)
}

var (
	// shows: a formatter that lists files or prints a difference, whatever it exits with.
	shows = regexp.MustCompile(`\x00(?:gofmt|gofumpt|goimports) (?:\S+ )*-[a-z]*[ld]`)
	// listedFile is a line of a list of files.
	listedFile = regexp.MustCompile(`^\S+\.\w+$`)
	// troubled is an output that speaks of failures which nobody counts.
	troubled = regexp.MustCompile(`(?m)\bFAIL\b|^panic:|\b[1-9]\d* errors?\b|^error(?:\[\w+\])?:|^E\s`)
)

// listed are the files of a list.
func listed(output string) (n uint32) {
	for line := range strings.Lines(output) {
		if listedFile.MatchString(strings.TrimSpace(line)) {
			n++
		}
	}
	return n
}

// failuresIn counts the failures in a check's output; 0 if it tells of none.
func failuresIn(output string) uint32 {
	for _, count := range failureCounts {
		total := uint64(0)
		for _, match := range count.FindAllStringSubmatch(output, -1) {
			for _, group := range match[1:] {
				if n, err := strconv.ParseUint(group, 10, 32); err == nil {
					total += n
				} else if group != "" {
					total++ // a line for each
				}
			}
		}
		if total > 0 {
			return uint32(min(total, 1<<31))
		}
	}
	return 0
}

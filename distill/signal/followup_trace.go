package signal

import (
	"regexp"
	"strings"
)

// How much of a request is searched for a stack trace, in bytes.
const traceWindow = 256 << 10

// Lines that only runtimes write. A frame names a place in code; a header opens a trace.
var (
	traceFrame = oneOf(
		`File ".+", line \d+(?:, in .+)?`,                               // Python
		`at (?:.*[(@ ])?[^\s()]*[./][^\s():]*:\d+(?::\d+)?\)?`,          // Java, Kotlin, Scala, JavaScript, Rust
		`at [\w$.<>/]+\((?:Native Method|Unknown Source|<anonymous>)\)`, // Java, JavaScript
		`at .+ in .+:line \d+`,                                          // .NET
		`(?:/|[A-Za-z]:[/\\])\S+\.(?:go|s):\d+(?: \+0x[0-9a-f]+)?`,      // Go
		"(?:from )?[^\\s:]+\\.rb:\\d+:in [`'].+'",                       // Ruby
		`#\d+\s+(?:0x[0-9a-f]+ in )?.+ (?:at|from) \S+`,                 // C, C++
		`#\d+\s+0x[0-9a-f]+ in .+`,                                      // sanitizers
		`#\d+ [^\s()]+\(\d+\): .+`,                                      // PHP
		`#\d+\s+\S.* \((?:package:|file:|dart:)[^)]+\)`,                 // Dart
		`\d+\s+\S+\s+0x[0-9a-f]{8,16} .+ \+ \d+`,                        // Swift, Objective-C
		`\(.+\) \S+\.exs?:\d+: .+`,                                      // Elixir
	)
	traceHeader = oneOf(
		`Traceback \(most recent call last\):`,                               // Python
		`goroutine \d+ \[[^\]]+\]:`,                                          // Go
		`panic: .+`,                                                          // Go
		`thread '.*' (?:\(\d+\) )?panicked at .+`,                            // Rust
		`stack backtrace:`,                                                   // Rust
		`(?:Exception in thread ".*" |Caused by: )[\w$.]+(?:: .*)?`,          // Java
		`(?:Uncaught )?(?:[\w$]+[.:]+)*[A-Z]\w*(?:Error|Exception)(?:: .*)?`, // Java, JavaScript, Python, .NET
		`Unhandled exception[.:].*`,                                          // .NET, Dart
		`PHP Fatal error: .+`,                                                // PHP
		`==\d+==\s?ERROR: .+`,                                                // sanitizers
	)
)

// oneOf matches a whole line of one of the shapes, however far it is indented.
func oneOf(shapes ...string) *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:` + strings.Join(shapes, `|`) + `)\s*$`)
}

// HasStackTrace says whether the text holds a runtime's stack trace: two frames, or a frame and a header. Prose that
// mentions one place or one error has none.
func HasStackTrace(text string) bool {
	if len(text) > traceWindow {
		text = text[:traceWindow]
	}
	frames, header := 0, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case len(line) > 2000: // a blob, no line of a trace
		case traceFrame.MatchString(line):
			frames++
		case !header:
			header = traceHeader.MatchString(line)
		}
		if frames >= 2 || (frames == 1 && header) {
			return true
		}
	}
	return false
}

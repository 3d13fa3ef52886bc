package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// screen shows a handful of lines that are written over each other on a terminal. Elsewhere nothing is written over:
// a line is printed when it says something new.
type screen struct {
	out      *Output
	terminal bool
	lines    int
	last     []string
}

func newScreen(out *Output) *screen {
	file, ok := out.Out.(*os.File)
	return &screen{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// show puts lines on the screen in place of the last ones.
func (s *screen) show(lines ...string) {
	if s.out.JSON || !s.terminal {
		return
	}
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	for _, line := range lines {
		b.WriteString("\x1b[2K" + line + "\n")
	}
	for range s.lines - len(lines) {
		b.WriteString("\x1b[2K\n")
	}
	s.lines = max(s.lines, len(lines))
	_, _ = io.WriteString(s.out.Out, b.String())
}

// milestone prints a line once, where lines are not written over.
func (s *screen) milestone(line string) {
	if slices.Contains(s.last, line) {
		return
	}
	s.last = append(s.last, line)
	if !s.terminal {
		s.out.Print("%s", line)
	}
}

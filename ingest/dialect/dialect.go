package dialect

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"millrace/schemas/event"
)

// Auto stands for the format that each file looks like.
const Auto = "auto"

// Formats that can be read.
var Formats = []string{ClaudeCode}

// Located is an event and the line that it was read from.
type Located struct {
	Event *event.SessionEvent
	File  string
	Line  int // from 1
	Place int // among the events of its line
}

// Problem is what could not be read, and why.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`  // from 1; the first of Lines
	Lines  int    `json:"lines"` // how many it stands for: all of a file that is in another format
	Reason string `json:"reason"`
}

// String is file:line reason.
func (p Problem) String() string { return fmt.Sprintf("%s:%d  %s", p.File, p.Line, p.Reason) }

// Result is what a set of files gave: events in the order of their time, and an account of every line.
type Result struct {
	Format   string
	Events   []Located
	Sessions int
	Files    int // that were opened
	// Turned away whole, because they are in a format that is not read.
	FilesNotUnderstood int

	Lines         int            // all of them
	Read          int            // understood and used
	Ignored       map[string]int // understood and of no use here, by kind
	NotUnderstood []Problem
}

// IgnoredLines is the sum over the kinds.
func (r *Result) IgnoredLines() int {
	n := 0
	for _, k := range r.Ignored {
		n += k
	}
	return n
}

// NotUnderstoodLines is how many lines the problems stand for.
func (r *Result) NotUnderstoodLines() int {
	n := 0
	for _, p := range r.NotUnderstood {
		n += p.Lines
	}
	return n
}

// Check proves lines = read + ignored + not understood.
func (r *Result) Check() error {
	if sum := r.Read + r.IgnoredLines() + r.NotUnderstoodLines(); sum != r.Lines {
		return fmt.Errorf("lines: there are %d, but %d are accounted for", r.Lines, sum)
	}
	return nil
}

// Reader reads files one after another, and gives all their events at the end: only the whole set shows which lines
// are copies of others.
type Reader interface {
	// Add reads one file. The error is the reader's own; what can't be understood is in the account.
	Add(file string, r io.Reader) error
	// Result is called once, after the last file.
	Result() *Result
}

// NewReader reads files of one format; with Auto each file is taken for what it looks like.
func NewReader(format string) (Reader, error) {
	switch format {
	case Auto, "", ClaudeCode:
		return newClaudeCode(format == ClaudeCode), nil
	}
	return nil, fmt.Errorf("format %q can't be read: use %q or one of %q", format, Auto, Formats)
}

// Sort orders events as a log would have them: by time, and by place where times are equal.
func Sort(events []Located) {
	slices.SortStableFunc(events, func(a, b Located) int {
		ta, tb := a.Event.GetOccurredAt(), b.Event.GetOccurredAt()
		return cmp.Or(
			cmp.Compare(ta.GetSeconds(), tb.GetSeconds()), cmp.Compare(ta.GetNanos(), tb.GetNanos()),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Place, b.Place))
	})
}

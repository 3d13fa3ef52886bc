package scorecard

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"millrace/distill/account"
	"millrace/schemas/ledger"
)

// maxListed is how many problems the report lists; the rest is counted.
const maxListed = 20

// Write writes the report to be read.
func (c *Card) Write(w io.Writer) error {
	out := &printer{w: w}
	head := fmt.Sprintf("%s: %s · %s", c.Format, plural(float64(c.Sessions), "session"), plural(float64(c.Turns), "turn"))
	if c.Turns == 0 {
		head = "no turn was understood in " + plural(float64(c.Files.Read), "file")
	}
	if n := c.Files.NotUnderstood; n > 0 {
		head += fmt.Sprintf(" · %s not understood (listed below)", plural(float64(n), "file"))
	}
	out.line("%s", head)
	out.line("lines %s = %s read + %s ignored + %s not understood", number(float64(c.Lines.Total)), number(float64(c.Lines.Read)),
		number(float64(c.Lines.Ignored)), number(float64(c.Lines.NotUnderstood)))
	if c.Turns > 0 {
		c.writeScores(out)
	}
	c.writeProblems(out)
	return out.err
}

func (c *Card) writeScores(out *printer) {
	var parts []string
	for _, class := range account.Classes {
		if n := c.Records[string(class)]; n > 0 {
			parts = append(parts, number(float64(n))+" "+strings.ReplaceAll(string(class), "_", "-"))
		}
	}
	proof := "balanced"
	if !c.Balanced {
		proof = "NOT BALANCED: " + c.Unbal
	}
	out.line("records %s = %s   %s", number(float64(c.Records["read"])), strings.Join(parts, " + "), proof)
	parts = nil
	for _, d := range ledger.Dispositions {
		if n := c.Dispositions[string(d)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%s)", d, number(float64(n)), dispositionWords[d]))
		}
	}
	out.wrapped("", parts, " · ")
	if c.Reward.Turns == 0 {
		out.line("no turn has a reward")
	} else {
		out.line("reward mean %s over %d, from %s to %s, under %s", signed(*c.Reward.Mean), c.Reward.Turns, signed(*c.Reward.Min), signed(*c.Reward.Max), c.Spec)
		parts = nil
		for _, x := range c.Reward.Components {
			parts = append(parts, fmt.Sprintf("%s %s (%d)", x.Name, signed(x.Mean), x.Turns))
		}
		out.wrapped("  mean where observed (turns): ", parts, " · ")
	}
	c.writeCalls(out)
	c.writeEdits(out)
	for i, x := range c.Worst {
		label := "      "
		if i == 0 {
			label = "worst "
		}
		out.line("%s %s  %s  %s: %s", label, signed(x.Reward), x.Turn, x.Component, x.Why)
	}
	if len(c.Worst) > 0 {
		out.line("why?    %s --turn '%s'", c.Command, c.Worst[0].Turn)
	}
	if c.Amendments > 0 {
		out.line("late    %s came after their turn had settled: amendments in the ledger", plural(float64(c.Amendments), "observation"))
	}
	for _, path := range c.Written {
		out.line("wrote   %s", path)
	}
}

func (c *Card) writeCalls(out *printer) {
	for _, m := range c.Malformed {
		var classes []string
		for _, name := range slices.SortedFunc(maps.Keys(m.Classes), func(a, b string) int { return cmp.Or(m.Classes[b]-m.Classes[a], strings.Compare(a, b)) }) {
			class := name
			if len(m.Classes) > 1 {
				class = fmt.Sprintf("%d %s", m.Classes[name], name)
			}
			classes = append(classes, class)
		}
		out.line("malformed %s %d of %s (%s)", m.Tool, m.Malformed, number(float64(m.Calls)), strings.Join(classes, ", "))
	}
	if len(c.Malformed) == 0 && len(c.Tools) > 0 {
		out.line("malformed calls: none")
	}
	if c.UserRejected > 0 {
		out.line("user-rejected %d (an observation, not a malformed call)", c.UserRejected)
	}
	if len(c.Tools) == 0 {
		return
	}
	width := len("all")
	for _, t := range c.Tools {
		width = max(width, min(utf8.RuneCountInString(t.Tool), maxToolName))
	}
	row := func(name string, cells ...string) {
		text := fmt.Sprintf("  %-*s", width, shorten(name, maxToolName))
		for i, cell := range cells {
			text += fmt.Sprintf("  %*s", len(toolColumns[i]), cell)
		}
		out.line("%s", text)
	}
	out.line("")
	row("tool", toolColumns...)
	var all Tool
	for _, t := range c.Tools {
		row(t.Tool, fmt.Sprint(t.Calls), fmt.Sprintf("%.0f%%", 100*t.Share), orDash(t.Failed), orDash(t.Rejected), tokens(t.ArgumentBytes), tokens(t.OutputBytes))
		all.Calls, all.Failed, all.Rejected = all.Calls+t.Calls, all.Failed+t.Failed, all.Rejected+t.Rejected
		all.ArgumentBytes, all.OutputBytes = all.ArgumentBytes+t.ArgumentBytes, all.OutputBytes+t.OutputBytes
	}
	row("all", fmt.Sprint(all.Calls), "100%", orDash(all.Failed), orDash(all.Rejected), tokens(all.ArgumentBytes), tokens(all.OutputBytes))
	out.line("  ~tokens are bytes / 4: transcripts don't count them by tool")
	if len(c.Failed) > 0 {
		out.wrapped("failed by class: ", byCount(c.Failed), " · ")
	}
	out.line("")
}

// byCount are the names with their numbers, the largest first.
func byCount(counts map[string]int) []string {
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return parts
}

// writeEdits says what became of the edits, and what the checks told.
func (c *Card) writeEdits(out *printer) {
	if e := c.Edits; e.Proposed > 0 {
		parts := []string{fmt.Sprintf("%d proposed", e.Proposed), fmt.Sprintf("%d written", e.Applied)}
		for _, part := range []struct {
			n     int
			words string
		}{
			{e.Accepted, "taken by the user"},
			{e.Rejected, "refused by the user"},
			{e.SeenKept, "still there when seen again"},
			{e.SeenLess, "changed or gone when seen again"},
		} {
			if part.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", part.n, part.words))
			}
		}
		out.wrapped("edits   ", parts, " · ")
	}
	var parts []string
	for _, part := range []struct {
		n     int
		words string
	}{
		{c.Checks.Verified, "ran one after the last edit"},
		{c.Checks.Unverified, "ran them before it only"},
		{c.Checks.Broken, "left more failures than before"},
		{c.Checks.Fixed, "left fewer failures"},
		{c.Checks.Unchanged, "left as many failures"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.words))
		}
	}
	if len(parts) > 0 {
		out.wrapped("checks  of the turns with tests, lint, builds: ", parts, " · ")
	}
}

// toolColumns are as wide as their titles.
var toolColumns = []string{"calls", "share", "failed", "rejected", "~tokens written", "~tokens returned"}

const maxToolName = 36

// shorten cuts the middle out of a name: both its ends tell something.
func shorten(name string, width int) string {
	runes := []rune(name)
	if len(runes) <= width {
		return name
	}
	half := (width - 1) / 2
	return string(runes[:half]) + "…" + string(runes[len(runes)-(width-1-half):])
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func tokens(bytes int64) string { return number(float64((bytes + 3) / 4)) }

func (c *Card) writeProblems(out *printer) {
	list := func(title string, n int, line func(int) string) {
		if n == 0 {
			return
		}
		out.line("%s", title)
		for i := range min(n, maxListed) {
			out.line("  %s", line(i))
		}
		if n > maxListed {
			out.line("  … and %s more; all of them: -o json", number(float64(n-maxListed)))
		}
	}
	list("what was not understood:", len(c.NotUnderstood), func(i int) string {
		p := c.NotUnderstood[i]
		if p.Lines == 1 {
			return p.String()
		}
		return fmt.Sprintf("%s (%s)", p, plural(float64(p.Lines), "line"))
	})
	list("events that the schema refuses:", len(c.Rejected), func(i int) string { return c.Rejected[i].String() })
}

// width is how long a line of the report may become before it is broken.
const width = 110

// wrapped writes parts after a head, broken between parts and then indented.
func (p *printer) wrapped(head string, parts []string, between string) {
	text, begun := head, false
	for _, part := range parts {
		if begun && utf8.RuneCountInString(text+between+part) > width {
			p.line("%s", text+strings.TrimRight(between, " "))
			text, begun = strings.Repeat(" ", max(2, len(head)-len(strings.TrimLeft(head, " "))+2)), false
		}
		if begun {
			text += between
		}
		text, begun = text+part, true
	}
	p.line("%s", text)
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	_, _ = p.Write([]byte(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n"))
}

func (p *printer) Write(b []byte) (int, error) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
	return len(b), nil
}

package scorecard

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"millrace/distill/account"
	"millrace/schemas/ledger"
)

// maxListed is how many problems the report lists; the rest is counted.
const maxListed = 20

// Write writes the report to be read.
func (c *Card) Write(w io.Writer) error {
	out := &printer{w: w}
	head := fmt.Sprintf("%s: %s · %s", c.Format, plural(float64(c.Sessions), "session"), plural(float64(c.Turns), "turn"))
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
	out.line("%s", strings.Join(parts, " · "))
	if c.Reward.Turns == 0 {
		out.line("no turn has a reward")
	} else {
		out.line("reward mean %s over %d, from %s to %s, under %s", signed(*c.Reward.Mean), c.Reward.Turns, signed(*c.Reward.Min), signed(*c.Reward.Max), c.Spec)
		parts = nil
		for _, x := range c.Reward.Components {
			parts = append(parts, fmt.Sprintf("%s %s (%d)", x.Name, signed(x.Mean), x.Turns))
		}
		out.line("  mean where observed (turns): %s", strings.Join(parts, " · "))
	}
	c.writeCalls(out)
	for i, x := range c.Worst {
		label := "      "
		if i == 0 {
			label = "worst "
		}
		out.line("%s %s  %s  %s: %s", label, signed(x.Reward), x.Turn, x.Component, x.Why)
	}
	if len(c.Worst) > 0 {
		out.line("why?    millrace score --turn '%s'", c.Worst[0].Turn)
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
	out.line("tools")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "calls\tshare\tfailed\trejected\t~tokens written\t~tokens returned\t tool\t")
	var calls, failed, rejected int
	var written, returned int64
	for _, t := range c.Tools {
		fmt.Fprintf(table, "%d\t%.0f%%\t%s\t%s\t%s\t%s\t %s\t\n", t.Calls, 100*t.Share, orDash(t.Failed), orDash(t.Rejected), tokens(t.ArgumentBytes), tokens(t.OutputBytes), t.Tool)
		calls, failed, rejected = calls+t.Calls, failed+t.Failed, rejected+t.Rejected
		written, returned = written+t.ArgumentBytes, returned+t.OutputBytes
	}
	fmt.Fprintf(table, "%d\t\t%s\t%s\t%s\t%s\t all\t\n", calls, orDash(failed), orDash(rejected), tokens(written), tokens(returned))
	_ = table.Flush() // the printer keeps the error
	out.line("  (transcripts don't count tokens by tool: ~ is bytes / 4)")
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
	list("not understood:", len(c.NotUnderstood), func(i int) string {
		p := c.NotUnderstood[i]
		if p.Lines == 1 {
			return p.String()
		}
		return fmt.Sprintf("%s (%s)", p, plural(float64(p.Lines), "line"))
	})
	list("events that the schema refuses:", len(c.Rejected), func(i int) string { return c.Rejected[i].String() })
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

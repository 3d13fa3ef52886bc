package web

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// words are what the templates can say.
var words = template.FuncMap{
	"count":   count,
	"when":    when,
	"clock":   clock,
	"lift":    lift,
	"level":   level,
	"reward":  signed,
	"p":       probability,
	"size":    size,
	"bar":     newBar,
	"lower":   strings.ToLower,
	"deref":   func(n *int64) int64 { return *n },
	"passing": passing,
	"spaced":  spaced,
}

// spaced writes a name that a program uses as words.
func spaced(s string) string { return strings.ReplaceAll(s, "_", " ") }

// count writes 12345 as 12,345.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func when(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("15:04")
}

// signed writes a number with its sign, and a dash for one that is not known.
func signed(x *float64) string {
	if x == nil {
		return "–"
	}
	return minus(fmt.Sprintf("%+.2f", *x))
}

// lift writes a lift with its interval: +8.6 % [+5.2, +12.0].
func lift(m Metric) string {
	if m.Lift == nil {
		return "no data yet"
	}
	out := fmt.Sprintf("%+.1f %s", *m.Lift*100, m.Unit)
	if m.Low != nil && m.High != nil {
		out += fmt.Sprintf(" [%+.1f, %+.1f]", *m.Low*100, *m.High*100)
	}
	return minus(out)
}

// level writes a metric's value in one arm.
func level(x *float64) string {
	switch {
	case x == nil:
		return "–"
	case math.Abs(*x) >= 100:
		return minus(fmt.Sprintf("%.0f", *x))
	default:
		return minus(fmt.Sprintf("%.3f", *x))
	}
}

func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

func probability(x *float64) string {
	switch {
	case x == nil:
		return "–"
	case *x < .001:
		return "< .001"
	default:
		return strings.TrimPrefix(fmt.Sprintf("%.3f", *x), "0")
	}
}

func size(bytes int64) string {
	for _, unit := range []struct {
		of   int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if bytes >= unit.of {
			return fmt.Sprintf("%.1f %s", float64(bytes)/float64(unit.of), unit.name)
		}
	}
	return count(bytes) + " B"
}

func passing(b *bool) string {
	switch {
	case b == nil:
		return "open"
	case *b:
		return "passes"
	default:
		return "fails"
	}
}

// bar is a metric's interval as a drawing 100 wide with no change in its middle.
type bar struct {
	Known         bool
	X, Width, Mid float64
	Margin        float64
	HasMargin     bool
	Good, Bad     bool
	Label         string
}

func newBar(m Metric) bar {
	if m.Lift == nil || m.Low == nil || m.High == nil {
		return bar{}
	}
	reach := max(math.Abs(*m.Low), math.Abs(*m.High), 1e-9)
	if m.Margin != nil {
		reach = max(reach, *m.Margin)
	}
	at := func(x float64) float64 { return math.Round((50+45*x/reach)*100) / 100 }
	b := bar{Known: true, X: at(*m.Low), Mid: at(*m.Lift), Good: *m.Low > 0, Bad: *m.High < 0, Label: m.Title + " " + lift(m)}
	b.Width = max(at(*m.High)-b.X, .5)
	if m.Margin != nil {
		b.HasMargin, b.Margin = true, at(-*m.Margin)
	}
	return b
}

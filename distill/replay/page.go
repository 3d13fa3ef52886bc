package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"signed":  func(v float64) string { return fmt.Sprintf("%+.3f", v) },
	"percent": func(n, of int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, of))) },
}).Parse(pageText))

// Page is the report as a page of HTML that needs nothing but itself.
func (r *Report) Page() string {
	var b strings.Builder
	err := page.Execute(&b, struct {
		*Report
		Histogram, Density template.HTML
		Groups             []pageGroups
		Moved              []Flow
	}{r, r.histogramSVG(), r.densitySVG(), []pageGroups{
		{"stratum", r.ByStratum[:min(len(r.ByStratum), pageRows)], len(r.ByStratum)},
		{"policy version", r.ByVersion[:min(len(r.ByVersion), pageRows)], len(r.ByVersion)},
		{"arm", r.ByArm[:min(len(r.ByArm), pageRows)], len(r.ByArm)},
	}, r.moved()})
	if err != nil {
		panic("the page of a replay: " + err.Error()) // the template is ours, and a test executes it
	}
	return b.String()
}

// pageRows is how many groups of a kind the page shows; the JSON has all.
const pageRows = 40

type pageGroups struct {
	By    string
	Shown []Group
	All   int
}

func (r *Report) moved() (out []Flow) {
	for _, f := range r.Dispositions {
		if f.From != f.To {
			out = append(out, f)
		}
	}
	return out
}

// The pictures' plot areas, in the units of their view boxes.
const (
	plotLeft, plotTop     = 56., 12.
	plotWidth, plotHeight = 720., 220.
	densitySide           = 420.
)

// histogramSVG draws turns by reward: before as bars, after as a line of steps.
func (r *Report) histogramSVG() template.HTML {
	h := r.Histogram
	var most int64
	for i := range h.Before {
		most = max(most, h.Before[i], h.After[i])
	}
	if most == 0 {
		return ""
	}
	n := float64(len(h.Before))
	x := func(i float64) float64 { return plotLeft + plotWidth*i/n }
	y := func(v int64) float64 { return plotTop + plotHeight*(1-float64(v)/float64(most)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="turns by reward, before and after">`, plotLeft+plotWidth+16, plotTop+plotHeight+44)
	for _, share := range []float64{0, .5, 1} {
		at := plotTop + plotHeight*(1-share)
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="tick" x="%g" y="%.1f" text-anchor="end">%.0f</text>`,
			plotLeft, plotLeft+plotWidth, at, at, plotLeft-8, at+4, share*float64(most))
	}
	for i, v := range h.Before {
		fmt.Fprintf(&b, `<rect class="before" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s: %d before, %d after</title></rect>`,
			x(float64(i))+.5, y(v), max(1, plotWidth/n-1), plotTop+plotHeight-y(v), h.label(i), v, h.After[i])
	}
	line := []string{fmt.Sprintf("M%.1f %.1f", x(0), y(0))}
	for i, v := range h.After {
		line = append(line, fmt.Sprintf("L%.1f %.1fL%.1f %.1f", x(float64(i)), y(v), x(float64(i+1)), y(v)))
	}
	fmt.Fprintf(&b, `<path class="after" d="%sL%.1f %.1f"/>`, strings.Join(line, ""), x(n), y(0))
	for i := range h.Before {
		if v := h.From + float64(i)*h.Width; math.Abs(math.Remainder(v, tickEvery(n)*h.Width)) < h.Width/2 {
			fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%g" text-anchor="middle">%+.3g</text>`, x(float64(i)), plotTop+plotHeight+18, v)
		}
	}
	fmt.Fprintf(&b, `<text class="axis" x="%g" y="%g" text-anchor="middle">reward</text></svg>`, plotLeft+plotWidth/2, plotTop+plotHeight+38)
	return template.HTML(b.String()) //nolint:gosec // numbers only
}

// tickEvery is the distance of an axis' labels, in bins.
func tickEvery(bins float64) float64 {
	switch {
	case bins > 100:
		return 20
	case bins > 25:
		return 10
	}
	return 5
}

func (h Histogram) label(i int) string {
	return fmt.Sprintf("%+.3g to %+.3g", h.From+float64(i)*h.Width, h.From+float64(i+1)*h.Width)
}

// densitySVG draws turns by both rewards: on the diagonal nothing changed.
func (r *Report) densitySVG() template.HTML {
	if len(r.Density) == 0 {
		return ""
	}
	low, high, most := math.Inf(1), math.Inf(-1), int64(0)
	for _, c := range r.Density {
		low, high, most = min(low, c.Before, c.After), max(high, c.Before, c.After), max(most, c.Turns)
	}
	high += r.Histogram.Width
	scale := densitySide / (high - low)
	at := func(v float64) float64 { return (v - low) * scale }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="turns by reward before (across) and after (up)">`, plotLeft+densitySide+16, plotTop+densitySide+44)
	bottom := plotTop + densitySide
	fmt.Fprintf(&b, `<line class="grid" x1="%g" y1="%g" x2="%g" y2="%g"/>`, plotLeft, bottom, plotLeft+densitySide, plotTop)
	every := tickEvery((high-low)/r.Histogram.Width) * r.Histogram.Width
	for v := math.Ceil(low/every) * every; v <= high; v += every {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`,
			plotLeft+at(v), plotLeft+at(v), plotTop, bottom, plotLeft, plotLeft+densitySide, bottom-at(v), bottom-at(v))
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%g" text-anchor="middle">%+.3g</text><text class="tick" x="%g" y="%.1f" text-anchor="end">%+.3g</text>`,
			plotLeft+at(v), bottom+18, v, plotLeft-8, bottom-at(v)+4, v)
	}
	side := max(1, scale*r.Histogram.Width)
	for _, c := range r.Density {
		// By the logarithm, or one frequent pair would hide all others.
		strength := .12 + .88*math.Log1p(float64(c.Turns))/math.Log1p(float64(most))
		fmt.Fprintf(&b, `<rect class="cell" x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill-opacity="%.2f"><title>%+.3g before, %+.3g after: %d turns</title></rect>`,
			plotLeft+at(c.Before), bottom-at(c.After)-side, side, side, strength, c.Before, c.After, c.Turns)
	}
	fmt.Fprintf(&b, `<text class="axis" x="%g" y="%g" text-anchor="middle">reward before</text><text class="axis" transform="translate(14 %g) rotate(-90)" text-anchor="middle">after</text></svg>`,
		plotLeft+densitySide/2, bottom+38, plotTop+densitySide/2)
	return template.HTML(b.String()) //nolint:gosec // numbers only
}

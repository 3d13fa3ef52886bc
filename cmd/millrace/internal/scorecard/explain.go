package scorecard

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"millrace/distill/signal"
	"millrace/schemas/ledger"
)

// Explanation is one turn, as it is written with --turn and -o json.
type Explanation struct {
	Turn          string             `json:"turn"`
	TurnID        string             `json:"turn_id"`
	SessionID     string             `json:"session_id"`
	Place         string             `json:"place"` // file:line
	Request       string             `json:"request"`
	StartedAt     time.Time          `json:"started_at"`
	Seconds       *float64           `json:"seconds"` // null: it never ended
	PolicyVersion string             `json:"policy_version"`
	Outcome       string             `json:"outcome"`
	FollowUp      string             `json:"follow_up"`
	Chain         int32              `json:"chain"`
	Disposition   string             `json:"disposition"`
	Reason        string             `json:"reason"`
	Reward        *float64           `json:"reward"`
	Advantage     *float64           `json:"advantage"`
	Baseline      string             `json:"baseline"`
	Spec          string             `json:"spec"`
	Components    []ExplainedPart    `json:"components"`
	Signals       []ExplainedSignal  `json:"signals"`
	NotObserved   []string           `json:"not_observed"`
	Malformed     []ExplainedBadCall `json:"malformed"`
	clip          [2]float64
}

// ExplainedPart is a component: its formula, what it read, what came out.
type ExplainedPart struct {
	Name    string   `json:"name"`
	Value   *float64 `json:"value"` // null: not observed
	Formula string   `json:"formula"`
	With    string   `json:"with"`
	Why     string   `json:"why"`
}

// ExplainedSignal is what was observed.
type ExplainedSignal struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Doc   string  `json:"doc"`
}

// ExplainedBadCall is a malformed call.
type ExplainedBadCall struct {
	Tool  string `json:"tool"`
	Step  uint32 `json:"step"`
	Class string `json:"class"`
}

// Explain says how one turn came to its reward. The error says which turns there are.
func (s *Scored) Explain(name string) (*Explanation, error) {
	turns, err := s.turns()
	if err != nil {
		return nil, err
	}
	t, err := find(turns, name)
	if err != nil {
		return nil, err
	}
	row, spec := t.row, s.Reward.Spec()
	e := &Explanation{
		Turn: t.name, TurnID: row.TurnID, SessionID: row.SessionID, Place: fmt.Sprintf("%s:%d", t.file, t.line),
		Request: firstLine(t.facts.Started.GetText()), StartedAt: row.StartedAt, PolicyVersion: row.PolicyVersion, Outcome: row.Outcome,
		FollowUp: row.FollowUpClass, Chain: row.Chain, Disposition: string(row.Disposition), Reason: row.Reason,
		Reward: known(row.Reward), Advantage: known(row.Advantage), Baseline: row.BaselineVersion, Spec: row.RewardSpec,
		Components: []ExplainedPart{}, Signals: []ExplainedSignal{}, NotObserved: []string{}, Malformed: []ExplainedBadCall{},
		clip: [2]float64{spec.Clip.Low, spec.Clip.High},
	}
	if !row.EndedAt.IsZero() {
		e.Seconds = new(row.EndedAt.Sub(row.StartedAt).Seconds())
	}
	for i, def := range ledger.Signals {
		if v := row.Signals[i]; v.Known {
			e.Signals = append(e.Signals, ExplainedSignal{def.Name, v.Number, def.Doc})
		} else {
			e.NotObserved = append(e.NotObserved, def.Name)
		}
	}
	slices.SortStableFunc(e.Signals, func(a, b ExplainedSignal) int { return signalGroup(a.Name) - signalGroup(b.Name) })
	slices.SortStableFunc(e.NotObserved, func(a, b string) int { return signalGroup(a) - signalGroup(b) })
	for _, c := range row.Components {
		part := ExplainedPart{Name: c.Name, Value: known(c.Value), Formula: formula(spec, c.Name)}
		var with []string
		for _, signal := range uses(spec, c.Name) {
			value := "not observed"
			if v := row.Signal(signal); v.Known {
				value = number(v.Number)
			}
			with = append(with, signal+" = "+value)
		}
		part.With = strings.Join(with, ", ")
		if c.Value.Known {
			part.Why = why(spec, t, c.Name)
		}
		e.Components = append(e.Components, part)
	}
	for i := range t.facts.Calls {
		call := &t.facts.Calls[i]
		if class := t.callClass(call); signal.Invalid(class) {
			e.Malformed = append(e.Malformed, ExplainedBadCall{call.GetTool(), call.GetStep(), strings.ToLower(class.String())})
		}
	}
	return e, nil
}

// signalGroup is the place of a signal's group (edits, tools, …): the registry only grows at its end, a reader wants
// what belongs together together.
func signalGroup(name string) int {
	group, _, _ := strings.Cut(name, ".")
	return slices.IndexFunc(ledger.Signals, func(d ledger.SignalDef) bool { return strings.HasPrefix(d.Name, group+".") })
}

// Write writes the explanation to be read.
func (e *Explanation) Write(w io.Writer) error {
	out := &printer{w: w}
	out.line("turn %s   %s", e.Turn, e.Place)
	if e.Request != "" {
		out.line("  request   %s", e.Request)
	}
	took := "it has no end"
	if e.Seconds != nil {
		took = "took " + time.Duration(*e.Seconds*float64(time.Second)).Round(time.Second).String()
	}
	out.line("  began     %s, %s, by %s", e.StartedAt.Format(time.RFC3339), took, e.PolicyVersion)
	outcome := e.Outcome
	if words, ok := followUpWords[e.FollowUp]; ok {
		outcome += "; " + words
	}
	out.line("  ended     %s", outcome)
	if e.Chain > 1 {
		out.line("  settled   together with %s: a question and what answered it", plural(float64(e.Chain-1), "other turn"))
	}
	reason := dispositionWords[ledger.Disposition(e.Disposition)]
	if e.Reason != "" && e.Disposition != string(ledger.NoTokens) {
		reason += ": " + e.Reason
	}
	out.line("  ends as   %s (%s)", e.Disposition, reason)
	out.line("")
	out.line("seen")
	var zero []string
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range e.Signals {
		if s.Value == 0 {
			zero = append(zero, s.Name)
			continue
		}
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\n", s.Name, number(s.Value), s.Doc) // the printer keeps the error
	}
	_ = table.Flush()
	out.wrapped("  and 0: ", zero, ", ")
	out.line("not observed (null, which is not 0)")
	out.wrapped("  ", e.NotObserved, ", ")
	for _, c := range e.Malformed {
		out.line("malformed  %s in step %d: %s", c.Tool, c.Step, c.Class)
	}
	out.line("")
	e.writeReward(out)
	return out.err
}

func (e *Explanation) writeReward(out *printer) {
	if e.Reward == nil {
		out.line("no reward: %s. What it would be made of:", dispositionWords[ledger.Disposition(e.Disposition)])
	} else {
		out.line("reward %s under %s, the sum of", signed(*e.Reward), e.Spec)
	}
	var null []string
	for _, c := range e.Components {
		if c.Value == nil {
			null = append(null, c.Name)
			continue
		}
		text := fmt.Sprintf("  %5s  %s", signed(*c.Value), c.Name)
		if c.Why != "" {
			text += ": " + c.Why
		}
		out.line("%s", text)
		out.line("           = %s", c.Formula)
		if c.With != "" {
			out.wrapped("           with ", strings.Split(c.With, ", "), ", ")
		}
	}
	if len(null) > 0 {
		out.line("   null  %s: not observed, or replaced by a block above", strings.Join(null, ", "))
	}
	if e.Reward != nil {
		out.line("clipped to %g … %g; advantage %s against baseline %s", e.clip[0], e.clip[1], signed(*e.Advantage), e.Baseline)
	}
}

func known(v ledger.Value) *float64 {
	if !v.Known {
		return nil
	}
	return &v.Number
}

// firstLine is the beginning of a request.
func firstLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > 100 {
		return string(runes[:100]) + "…"
	}
	if rest != "" {
		line += " …"
	}
	return line
}

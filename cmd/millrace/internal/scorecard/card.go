package scorecard

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"millrace/distill/account"
	"millrace/distill/signal"
	"millrace/ingest/dialect"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

// Card is the report, as it is written with -o json.
type Card struct {
	Balanced bool   `json:"balanced"`
	Unbal    string `json:"unbalanced,omitempty"` // what is missing where
	Format   string `json:"format"`
	Spec     string `json:"spec"`
	Files    Files  `json:"files"`
	Sessions int    `json:"sessions"`
	Turns    int    `json:"turns"`

	Lines        Lines            `json:"lines"`
	Records      map[string]int64 `json:"records"` // "read", and each class that came up
	Dispositions map[string]int64 `json:"dispositions"`
	Outcomes     map[string]int   `json:"outcomes"`
	Reward       Reward           `json:"reward"`

	Malformed    []Malformed    `json:"malformed"`
	UserRejected int            `json:"user_rejected"`
	Failed       map[string]int `json:"failed"` // valid calls that failed, by class
	Edits        Edits          `json:"edits"`
	Checks       Checks         `json:"checks"`
	Tools        []Tool         `json:"tools"`
	Worst        []Worst        `json:"worst"`

	NotUnderstood []dialect.Problem `json:"not_understood"`
	Rejected      []dialect.Problem `json:"rejected"` // events that the schema refuses
	Amendments    int               `json:"amendments"`
	Samples       int               `json:"samples"`
	Written       []string          `json:"written,omitempty"`
	Judged        *Judged           `json:"judged,omitempty"` // nil: nobody was asked, and nothing was sent

	Command string `json:"-"` // that made the report, for the line that says how to ask on
}

// Files are how many were read, and how many turned away whole.
type Files struct {
	Read          int `json:"read"`
	NotUnderstood int `json:"not_understood"`
}

// Lines are the account of the files: total = read + ignored + not understood.
type Lines struct {
	Total         int            `json:"total"`
	Read          int            `json:"read"`
	Ignored       int            `json:"ignored"`
	NotUnderstood int            `json:"not_understood"`
	ByKind        map[string]int `json:"ignored_by_kind"`
}

// Reward is over the turns that have one. A component's mean is over the turns in which it was observed.
type Reward struct {
	Turns      int         `json:"turns"`
	Mean       *float64    `json:"mean"` // null: no turn has a reward
	Min        *float64    `json:"min"`
	Max        *float64    `json:"max"`
	Components []Component `json:"components"`
}

// Component is a reward component over all turns.
type Component struct {
	Name  string  `json:"name"`
	Mean  float64 `json:"mean"`
	Turns int     `json:"turns"`
	Total float64 `json:"total"`
}

// Malformed are a tool's malformed calls.
type Malformed struct {
	Tool      string         `json:"tool"`
	Calls     int            `json:"calls"`
	Malformed int            `json:"malformed"`
	Classes   map[string]int `json:"classes"`
}

// Tool is what a tool took of the budget.
type Tool struct {
	Tool          string  `json:"tool"`
	Calls         int     `json:"calls"`
	Share         float64 `json:"share"` // of all calls
	Failed        int     `json:"failed"`
	Rejected      int     `json:"user_rejected"`
	ArgumentBytes int64   `json:"argument_bytes"`
	OutputBytes   int64   `json:"output_bytes"`
}

// Edits are what became of the agent's edits, over all turns.
type Edits struct {
	Proposed int `json:"proposed"`
	Applied  int `json:"applied"`
	Accepted int `json:"accepted"`  // by the user
	Rejected int `json:"rejected"`  // by the user
	SeenKept int `json:"seen_kept"` // applied, and as they were when they were last seen
	SeenLess int `json:"seen_less"` // applied, and changed, overwritten or gone by then
}

// Checks count turns by what the checks in them (tests, lint, builds, format) told.
type Checks struct {
	Unverified int `json:"unverified"` // edited, and ran checks, but none after the last edit
	Verified   int `json:"verified"`
	Broken     int `json:"broken"`
	Fixed      int `json:"fixed"`
	Unchanged  int `json:"unchanged"`
}

// Worst is a turn with a low reward, and the component that made it so.
type Worst struct {
	Turn      string  `json:"turn"`
	TurnID    string  `json:"turn_id"`
	Reward    float64 `json:"reward"`
	Component string  `json:"component"`
	Why       string  `json:"why"`
}

const worstTurns = 3

// Card makes the report.
func (s *Scored) Card() (*Card, error) {
	turns, err := s.turns()
	if err != nil {
		return nil, err
	}
	c := &Card{
		Format: s.Read.Format, Spec: s.Reward.Spec().ID(), Sessions: s.Read.Sessions, Turns: len(turns),
		Files: Files{Read: s.Read.Files, NotUnderstood: s.Read.FilesNotUnderstood},
		Lines: Lines{
			Total: s.Read.Lines, Read: s.Read.Read, Ignored: s.Read.IgnoredLines(), NotUnderstood: s.Read.NotUnderstoodLines(), ByKind: s.Read.Ignored,
		},
		Records:      map[string]int64{"read": s.Balance.Read},
		Dispositions: map[string]int64{},
		Outcomes:     map[string]int{},
		Failed:       map[string]int{},
		Malformed:    []Malformed{}, Tools: []Tool{}, Worst: []Worst{},
		NotUnderstood: append([]dialect.Problem{}, s.Read.NotUnderstood...),
		Rejected:      append([]dialect.Problem{}, s.Rejected...),
		Amendments:    len(s.Amendments), Samples: len(s.Samples),
	}
	c.Balanced = true
	if err := s.Check(); err != nil {
		c.Balanced, c.Unbal = false, err.Error()
	}
	for _, class := range account.Classes {
		if n := s.Balance.Records[class]; n > 0 {
			c.Records[string(class)] = n
		}
	}
	for disposition, n := range s.Balance.ByDisposition() {
		c.Dispositions[string(disposition)] = n
	}
	for _, t := range turns {
		c.Outcomes[t.row.Outcome]++
	}
	c.Reward = rewards(turns)
	c.calls(turns)
	for _, t := range turns {
		c.Edits.add(t)
		c.Checks.add(t.row)
	}
	c.worst(s, turns)
	return c, nil
}

func rewards(turns []*scoredTurn) Reward {
	r := Reward{Components: []Component{}}
	total := 0.
	byName := map[string]int{}
	for _, t := range turns {
		x := t.row.Reward
		if !x.Known {
			continue
		}
		if r.Turns == 0 {
			r.Min, r.Max = new(x.Number), new(x.Number)
		}
		*r.Min, *r.Max = min(*r.Min, x.Number), max(*r.Max, x.Number)
		r.Turns++
		total += x.Number
		for _, component := range t.row.Components {
			if !component.Value.Known {
				continue
			}
			i, ok := byName[component.Name]
			if !ok {
				i = len(r.Components)
				byName[component.Name] = i
				r.Components = append(r.Components, Component{Name: component.Name})
			}
			r.Components[i].Turns++
			r.Components[i].Total += component.Value.Number
		}
	}
	for i := range r.Components {
		r.Components[i].Mean = r.Components[i].Total / float64(r.Components[i].Turns)
	}
	if r.Turns > 0 {
		r.Mean = new(total / float64(r.Turns))
	}
	return r
}

// calls counts what each tool was called for, and what came of it.
func (c *Card) calls(turns []*scoredTurn) {
	tools := map[string]*Tool{}
	malformed := map[string]map[string]int{}
	all := 0
	for _, t := range turns {
		for i := range t.facts.Calls {
			call := &t.facts.Calls[i]
			tool := tools[call.GetTool()]
			if tool == nil {
				tool = &Tool{Tool: call.GetTool()}
				tools[call.GetTool()] = tool
			}
			all++
			tool.Calls++
			raw, _ := call.Raw()
			tool.ArgumentBytes += int64(len(raw))
			tool.OutputBytes += int64(call.Returned.GetOutputBytes())
			if signal.Failed(call.Returned) {
				tool.Failed++
				c.Failed[strings.ToLower(call.Returned.GetOutcome().String())]++
			}
			if call.Returned.GetOutcome() == event.ToolOutcome_USER_REJECTED {
				tool.Rejected++
				c.UserRejected++
			}
			if class := t.callClass(call); signal.Invalid(class) {
				if malformed[call.GetTool()] == nil {
					malformed[call.GetTool()] = map[string]int{}
				}
				malformed[call.GetTool()][strings.ToLower(class.String())]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(malformed)) {
		m := Malformed{Tool: name, Calls: tools[name].Calls, Classes: malformed[name]}
		for _, n := range m.Classes {
			m.Malformed += n
		}
		c.Malformed = append(c.Malformed, m)
	}
	for _, tool := range tools {
		tool.Share = float64(tool.Calls) / float64(all)
		c.Tools = append(c.Tools, *tool)
	}
	slices.SortFunc(c.Tools, func(a, b Tool) int { return cmp.Or(b.Calls-a.Calls, strings.Compare(a.Tool, b.Tool)) })
}

func (e *Edits) add(t *scoredTurn) {
	for i := range t.facts.Edits {
		edit := &t.facts.Edits[i]
		e.Proposed++
		if edit.AcceptedByUser() {
			e.Accepted++
		}
		if edit.RejectedByUser() {
			e.Rejected++
		}
		if !edit.InTree() {
			continue
		}
		e.Applied++
		switch left := signal.EditRetention(edit); {
		case left.Known && left.Number == 1:
			e.SeenKept++
		case left.Known:
			e.SeenLess++
		}
	}
}

func (c *Checks) add(row *ledger.Row) {
	switch v := row.Signal("care.verified_after_edit"); {
	case v.Known && v.Number == 1:
		c.Verified++
	case v.Known:
		c.Unverified++
	}
	broken, fixed := row.Signal("care.checks_broken"), row.Signal("care.checks_fixed")
	switch {
	case broken.Number == 1:
		c.Broken++
	case fixed.Number == 1:
		c.Fixed++
	case broken.Known:
		c.Unchanged++
	}
}

func (c *Card) worst(s *Scored, turns []*scoredTurn) {
	scored := slices.DeleteFunc(slices.Clone(turns), func(t *scoredTurn) bool { return !t.row.Reward.Known || t.row.Reward.Number >= 0 })
	slices.SortStableFunc(scored, func(a, b *scoredTurn) int { return cmp.Compare(a.row.Reward.Number, b.row.Reward.Number) })
	for _, t := range scored[:min(len(scored), worstTurns)] {
		name := heaviest(t.row.Components)
		c.Worst = append(c.Worst, Worst{Turn: t.name, TurnID: t.row.TurnID, Reward: t.row.Reward.Number, Component: name, Why: why(s.Reward.Spec(), t, name)})
	}
}

// heaviest is the component that took the most.
func heaviest(components []ledger.Component) string {
	name, low := "", 0.
	for _, c := range components {
		if c.Value.Known && c.Value.Number < low {
			name, low = c.Name, c.Value.Number
		}
	}
	return name
}

package stress

import (
	"fmt"
	"slices"
	"strings"
)

// Report is where a policy ended.
type Report struct {
	Spec    string   `json:"spec"`
	Seed    uint64   `json:"seed"`
	Rounds  int      `json:"rounds"`
	LeftOut []string `json:"left_out,omitempty"`
	OK      bool     `json:"ok"` // it does what users want, on every task
	Ends    []End    `json:"ends"`
	Path    []Point  `json:"path"`
}

// End is what the policy does with a task in the end.
type End struct {
	Task    string  `json:"task"`
	Title   string  `json:"title"`
	OK      bool    `json:"ok"`      // the honest action has at least Enough of it
	Problem string  `json:"problem"` // where it went instead; "" if OK
	Actions []Share `json:"actions"` // most frequent first
}

// Share is an action's, with what it brings under the last baseline, by the chances of the world.
type Share struct {
	Action    string  `json:"action"`
	Title     string  `json:"title"`
	Honest    bool    `json:"honest"`
	Share     float64 `json:"share"`
	Reward    float64 `json:"reward"`    // mean over the turns that have one
	Advantage float64 `json:"advantage"` // mean of what the tokens learn that chose it; 0 where they learn nothing
	Untrained float64 `json:"untrained"` // share of its turns that teach nothing
}

// Point is how often the honest action was taken at some time, by task.
type Point struct {
	Round  int                `json:"round"`
	Honest map[string]float64 `json:"honest"`
}

// Enough is the share of a task that the honest action must have in the end.
const Enough = .8

func (p *policy) point(round int) Point {
	at := Point{Round: round, Honest: map[string]float64{}}
	for t, task := range p.stage.tasks {
		at.Honest[task.Name] = softmax(p.logits[t])[task.honest()]
	}
	return at
}

func (p *policy) tell(r *Report) {
	r.OK = true
	known := behaviours()
	for t, task := range p.stage.tasks {
		shares := softmax(p.logits[t])
		e := End{Task: task.Name, Title: task.Title, OK: shares[task.honest()] >= Enough}
		for a, action := range task.Actions {
			s := Share{Action: action.Name, Title: known[action.Name].Title, Honest: a == task.honest(), Share: shares[a]}
			rewarded := 0.
			for _, c := range p.stage.chances[t][a] {
				if row := p.stage.scored[c.at.from]; row.Reward.Known {
					s.Reward += c.probability * row.Reward.Number
					rewarded += c.probability
				}
				s.Advantage += c.probability * c.advantage
				if !c.trained {
					s.Untrained += c.probability
				}
			}
			if rewarded > 0 {
				s.Reward /= rewarded
			}
			e.Actions = append(e.Actions, s)
		}
		slices.SortStableFunc(e.Actions, func(a, b Share) int {
			switch {
			case a.Share > b.Share:
				return -1
			case a.Share < b.Share:
				return 1
			}
			return 0
		})
		if !e.OK {
			e.Problem = e.where()
		}
		r.OK = r.OK && e.OK
		r.Ends = append(r.Ends, e)
	}
}

// where says what the policy does with the task in the end.
func (e End) where() string {
	var parts []string
	for _, s := range e.Actions {
		if s.Share >= .05 {
			part := fmt.Sprintf("%s in %.0f %%", s.Title, 100*s.Share)
			switch {
			case s.Untrained > .99:
				part += " (never trained on)"
			case s.Untrained > .5:
				part += fmt.Sprintf(" (%.0f %% of them not trained on)", 100*s.Untrained)
			}
			parts = append(parts, part)
		}
	}
	return fmt.Sprintf("%s: %s", e.Title, strings.Join(parts, ", "))
}

// Rare is the share below which a report leaves out an action.
const Rare = .01

// Text is the report as people read it.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: where a policy ends that climbs it (%d rounds of %d turns, seed %d)\n", r.Spec, r.Rounds, Turns, r.Seed)
	if len(r.LeftOut) > 0 {
		fmt.Fprintf(&b, "left out by the trainer: %s\n", strings.Join(r.LeftOut, ", "))
	}
	for _, e := range r.Ends {
		fmt.Fprintf(&b, "\n%-42s  share  reward  advantage  not trained on\n", e.Title)
		for _, s := range e.Actions {
			if s.Share >= Rare {
				fmt.Fprintf(&b, "  %-40s  %4.0f%%  %+6.2f  %+9.2f  %13.0f%%\n", s.Title, 100*s.Share, s.Reward, s.Advantage, 100*s.Untrained)
			}
		}
	}
	b.WriteString("\n")
	if r.OK {
		b.WriteString("It attempts every edit, the hard ones too, and explains where an explanation was asked for.\n")
	}
	for _, e := range r.Ends {
		if !e.OK {
			fmt.Fprintf(&b, "It left honest work on %s\n", e.Problem)
		}
	}
	return b.String()
}

package rehearsal

import (
	"fmt"
	"strings"

	"millrace/schemas/rewardspec"
)

// Earned is what a behaviour earned.
type Earned struct {
	Name, Title string
	*Outcome
}

// Earnings acts out the behaviours of the order under a spec and baseline v0, and gives them in that order.
func Earnings(spec *rewardspec.Spec, document []byte, s *rewardspec.Scenarios) ([]Earned, error) {
	stage, err := NewStage(spec, document, nil)
	if err != nil {
		return nil, err
	}
	byName := map[string]rewardspec.Behaviour{}
	for _, b := range s.Behaviours {
		byName[b.Name] = b
	}
	var (
		all     []Earned
		streams []*Stream
		turns   = map[string]int{}
	)
	for _, group := range s.Order {
		for _, name := range group {
			stream, turn := Variation{}.around(name, Epoch, byName[name].Acts, stage.settling())
			streams, turns[turn] = append(streams, stream), len(all)
			all = append(all, Earned{Name: name, Title: byName[name].Title, Outcome: &Outcome{Disposition: "never settled"}})
		}
	}
	_, settled, err := stage.Run(stage.Records(streams...))
	if err != nil {
		return nil, err
	}
	for _, x := range settled {
		if i, ok := turns[x.Row.TurnID]; ok {
			all[i].Outcome = outcomeOf(x)
		}
	}
	return all, nil
}

// Table is a Markdown table of what each behaviour earns, and from what.
func Table(all []Earned) string {
	var b strings.Builder
	b.WriteString("| behaviour | reward | made of |\n| --- | ---: | --- |\n")
	for _, e := range all {
		var parts []string
		for _, c := range e.Row().Components {
			if c.Value.Known && c.Value.Number != 0 {
				parts = append(parts, fmt.Sprintf("%s %+.3f", c.Name, c.Value.Number))
			}
		}
		reward := "none"
		if e.Reward != nil {
			reward = fmt.Sprintf("%+.2f", *e.Reward)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Title, reward, strings.Join(parts, ", "))
	}
	return b.String()
}

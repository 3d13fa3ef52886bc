package rewardspec

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// maxActs bounds what one side does, its repetitions counted, so that a slip of the pen doesn't fill the memory.
const maxActs = 10_000

// scenarioReader reads a document of scenarios with the behaviours that it may use.
type scenarioReader struct {
	document
	known map[string][]Act
}

// ParseScenarios reads scenarios as strictly as Parse reads a spec. They may use the behaviours of the given documents
// besides their own, and may not call their own like one of those.
func ParseScenarios(data []byte, with ...*Scenarios) (*Scenarios, error) {
	d := &scenarioReader{document{what: "scenarios"}, map[string][]Act{}}
	for _, other := range with {
		for _, b := range other.Behaviours {
			d.known[b.Name] = b.Acts
		}
	}
	f := d.open(data, ScenariosKind, nil, []string{"behaviours", "order", "scenarios"})
	if f == nil {
		return nil, d.err()
	}
	s := &Scenarios{}
	if n := f["behaviours"]; n != nil {
		s.Behaviours = d.behaviours(n)
	}
	if n := f["order"]; n != nil {
		s.Order = d.order(n)
	}
	if n := f["scenarios"]; n != nil {
		s.Scenarios = d.scenarios(n)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// behaviours may use those above them.
func (d *scenarioReader) behaviours(n *yaml.Node) []Behaviour {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "behaviours: expected a mapping from name to {title, acts}")
		return nil
	}
	var list []Behaviour
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, body := n.Content[i], n.Content[i+1]
		name := d.name(key, "behaviours")
		if _, twice := d.known[name]; twice {
			d.fail(key, "behaviour %q is there already; choose another name", name)
			continue
		}
		f := d.fields(body, "behaviour "+name, []string{"title", "acts"}, nil)
		b := Behaviour{Name: name, Title: d.text(f["title"], "title"), Line: key.Line}
		if n := f["acts"]; n != nil {
			b.Acts = d.acts(n, "behaviour "+name)
		}
		d.known[name] = b.Acts
		list = append(list, b)
	}
	return list
}

func (d *scenarioReader) order(n *yaml.Node) [][]string {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "order: expected a list of behaviours, best first; those that may tie in brackets")
		return nil
	}
	var order [][]string
	for _, item := range n.Content {
		members := []*yaml.Node{item}
		if item.Kind == yaml.SequenceNode {
			members = item.Content
		}
		var group []string
		for _, m := range members {
			name := d.text(m, "order")
			d.side(m, "order")
			group = append(group, name)
		}
		order = append(order, group)
	}
	return order
}

func (d *scenarioReader) scenarios(n *yaml.Node) []Scenario {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "scenarios: expected a list of {name, why, better, worse} or {name, why, turn, trained}")
		return nil
	}
	var list []Scenario
	for _, item := range n.Content {
		s := d.scenario(item)
		if slices.ContainsFunc(list, func(o Scenario) bool { return o.Name == s.Name }) {
			d.fail(item, "scenario %q stands there twice", s.Name)
		}
		list = append(list, s)
	}
	return list
}

func (d *scenarioReader) scenario(n *yaml.Node) Scenario {
	f := d.fields(n, "scenarios", []string{"name", "why"}, []string{"better", "worse", "by", "on", "turn", "trained"})
	s := Scenario{Name: d.name(f["name"], "scenario"), Why: d.text(f["why"], "why"), On: OnReward, Line: n.Line}
	where := "scenario " + s.Name
	pair, single := f["better"] != nil && f["worse"] != nil, f["turn"] != nil && f["trained"] != nil
	rest := (single && (f["better"] != nil || f["worse"] != nil || f["by"] != nil || f["on"] != nil)) ||
		(pair && (f["turn"] != nil || f["trained"] != nil))
	if pair == single || rest {
		d.fail(n, "%s: expected either better and worse (with by and on where needed), or turn and trained", where)
		return s
	}
	if single {
		s.Turn = d.side(f["turn"], where+": turn")
		s.Trained = d.yes(f["trained"], where+": trained", false)
		return s
	}
	s.Better, s.Worse = d.side(f["better"], where+": better"), d.side(f["worse"], where+": worse")
	if n := f["by"]; n != nil {
		by := d.number(n, where+": by", "0 or more", notNegative)
		s.By = &by
	}
	if n := f["on"]; n != nil {
		s.On = Measure(d.choice(n, where+": on", []string{string(OnReward), string(OnAdvantage), string(OnSpan)}))
	}
	return s
}

// side is the name of a behaviour, or a list of acts. It begins with a start.
func (d *scenarioReader) side(n *yaml.Node, path string) []Act {
	if n == nil {
		return nil
	}
	before := len(d.errs)
	acts := d.acts(n, path)
	switch {
	case len(d.errs) > before:
	case count(acts) > maxActs:
		d.fail(n, "%s: %d acts, repetitions counted; at most %d", path, count(acts), maxActs)
	case len(acts) == 0 || acts[0].Start == nil:
		d.fail(n, "%s: a side begins with a start: what the user asks for", path)
	}
	return acts
}

// use is what a behaviour does.
func (d *scenarioReader) use(n *yaml.Node, path string) []Act {
	name := d.text(n, path)
	acts, ok := d.known[name]
	if !ok && name != "" {
		d.fail(n, "%s: there is no behaviour %q", path, name)
	}
	return acts
}

func count(acts []Act) int {
	n := 0
	for _, a := range acts {
		if a.Repeat != nil {
			n += a.Repeat.Times * count(a.Repeat.Acts)
		}
		n++
	}
	return n
}

package gatepolicy

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	Line    int    `json:"line"` // 0 when the document as a whole is meant
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Problems are all that is wrong with a document, in the order of its lines.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, q := range p {
		var b strings.Builder
		b.WriteString("gate policy")
		if q.Line > 0 {
			fmt.Fprintf(&b, " line %d", q.Line)
		}
		if q.Path != "" {
			b.WriteString(": " + q.Path)
		}
		lines[i] = b.String() + ": " + q.Message
	}
	return strings.Join(lines, "\n")
}

// Parse reads a policy. What it doesn't say about error probabilities, times, sizes, harm and shares is taken
// from the shipped policy; name, version, success and guardrails are its own. The error is of type Problems.
func Parse(text []byte) (Policy, error) {
	p, _, err := parse(text)
	return p, err
}

// parse gives the line of every path too.
func parse(text []byte) (Policy, map[string]int, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return Policy{}, nil, fromYAML(err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return Policy{}, nil, Problems{{Message: "the document is not a mapping; it begins with kind: " + Kind}}
	}
	lines := map[string]int{}
	problems := keys(doc.Content[0], reflect.TypeFor[Policy](), "", lines)
	p := base()
	if err := doc.Content[0].Decode(&p); err != nil {
		problems = append(problems, fromYAML(err)...)
	} else {
		for _, q := range validate(p) {
			q.Line = lineOf(lines, q.Path)
			problems = append(problems, q)
		}
	}
	if len(problems) == 0 {
		return p, lines, nil
	}
	sort.SliceStable(problems, func(i, j int) bool { return problems[i].Line < problems[j].Line })
	return Policy{}, lines, problems
}

// base is what the shipped policy lends to others.
func base() Policy {
	var p Policy
	if err := yaml.Unmarshal(defaultText, &p); err != nil {
		panic(err) // the file is part of the binary, and a test parses it
	}
	p.Kind, p.Name, p.Version = "", "", 0
	p.Success, p.Guardrails = nil, nil
	return p
}

// keys notes the line of every path and names the keys that no field has.
func keys(n *yaml.Node, t reflect.Type, path string, lines map[string]int) Problems {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if lines[path] == 0 {
		lines[path] = n.Line
	}
	var problems Problems
	switch {
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := map[string]reflect.Type{}
		var names []string
		for i := range t.NumField() {
			name := t.Field(i).Tag.Get("yaml")
			fields[name] = t.Field(i).Type
			names = append(names, name)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			child := strings.TrimPrefix(path+"."+key.Value, ".")
			lines[child] = key.Line
			ft, known := fields[key.Value]
			if !known {
				problems = append(problems, Problem{key.Line, child, "unknown key; the keys here are " + strings.Join(names, ", ")})
				continue
			}
			problems = append(problems, keys(n.Content[i+1], ft, child, lines)...)
		}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, c := range n.Content {
			problems = append(problems, keys(c, t.Elem(), fmt.Sprintf("%s[%d]", path, i), lines)...)
		}
	}
	return problems
}

// lineOf is the line of the path, or of the nearest thing around it that the document has.
func lineOf(lines map[string]int, path string) int {
	for path != "" {
		if line := lines[path]; line > 0 {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

func fromYAML(err error) Problems {
	messages := []string{err.Error()}
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		messages = typed.Errors
	}
	problems := make(Problems, len(messages))
	for i, m := range messages {
		problems[i].Message = m
		if parts := yamlLine.FindStringSubmatch(m); parts != nil {
			problems[i].Line, _ = strconv.Atoi(parts[1])
			problems[i].Message = parts[2]
		}
	}
	return problems
}

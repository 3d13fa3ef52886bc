package rewardspec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Problem is what is wrong with a document, and where.
type Problem struct {
	What string // the document: "reward spec", "baseline"
	Line int    // from 1; 0 where no single line is wrong
	Text string
}

func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.What + ": " + p.Text
	}
	return fmt.Sprintf("%s line %d: %s", p.What, p.Line, p.Text)
}

// document reads a strict YAML document by hand, so that every error can name its line. Errors are collected.
type document struct {
	what string // "reward spec", "baseline"
	errs []error
}

// open reads the single mapping of the document and checks what it calls itself.
func (d *document) open(data []byte, kind string, required, optional []string) map[string]*yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var root, more yaml.Node
	if err := dec.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("yaml: line 1: the document is empty")
		}
		d.errs = append(d.errs, d.ofYAML(err))
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		d.errs = append(d.errs, &Problem{What: d.what, Text: "there is something after the document; one document per file"})
		return nil
	}
	if len(root.Content) == 0 {
		d.errs = append(d.errs, &Problem{d.what, 1, "the document is empty"})
		return nil
	}
	top := root.Content[0]
	f := d.fields(top, "", append([]string{"apiVersion", "kind"}, required...), optional)
	if n := f["apiVersion"]; n != nil && d.text(n, "apiVersion") != APIVersion {
		d.fail(n, "apiVersion is %q; this version reads %s", n.Value, APIVersion)
	}
	if n := f["kind"]; n != nil && d.text(n, "kind") != kind {
		d.fail(n, "kind is %q; it must be %s", n.Value, kind)
	}
	return f
}

func (d *document) fail(n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, &Problem{d.what, n.Line, fmt.Sprintf(format, args...)})
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// ofYAML takes the line out of what the YAML reader says.
func (d *document) ofYAML(err error) *Problem {
	text := err.Error()
	p := &Problem{What: d.what}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	p.Text = strings.TrimPrefix(text, "yaml: ")
	return p
}

func (d *document) err() error { return errors.Join(d.errs...) }

// fields are the values of a mapping; keys that are unknown, twice there or missing are errors.
func (d *document) fields(n *yaml.Node, path string, required, optional []string) map[string]*yaml.Node {
	where := prefix(path)
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%sexpected a mapping with %s", where, strings.Join(required, ", "))
		return nil
	}
	found := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if !slices.Contains(required, key.Value) && !slices.Contains(optional, key.Value) {
			d.fail(key, "%sunknown field %q; there are %s", where, key.Value, strings.Join(append(slices.Clone(required), optional...), ", "))
			continue
		}
		if found[key.Value] != nil {
			d.fail(key, "%s%q stands there twice", where, key.Value)
			continue
		}
		found[key.Value] = n.Content[i+1]
	}
	for _, name := range required {
		if found[name] == nil {
			d.fail(n, "%s%q is missing", where, name)
		}
	}
	return found
}

func (d *document) text(n *yaml.Node, path string) string {
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
		d.fail(n, "%sexpected text", prefix(path))
		return ""
	}
	return n.Value
}

var nameShape = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// name is an identifier as columns and metrics carry it.
func (d *document) name(n *yaml.Node, path string) string {
	s := d.text(n, path)
	if s != "" && !nameShape.MatchString(s) {
		d.fail(n, "%s%q is no name; use lower-case letters, digits and _, beginning with a letter, at most 63", prefix(path), s)
	}
	return s
}

// number is a finite number for which ok holds; want says in words what ok asks.
func (d *document) number(n *yaml.Node, path, want string, ok func(float64) bool) float64 {
	if n == nil {
		return 0
	}
	var v float64
	if n.Kind != yaml.ScalarNode || (n.Tag != "!!int" && n.Tag != "!!float") || n.Decode(&v) != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		d.fail(n, "%sexpected a number, got %q", prefix(path), n.Value)
		return 0
	}
	if !ok(v) {
		d.fail(n, "%s%v is out of range; it must be %s", prefix(path), v, want)
	}
	return v
}

func (d *document) whole(n *yaml.Node, path string, low int) int {
	v := d.number(n, path, fmt.Sprintf("a whole number, at least %d", low), func(v float64) bool {
		return v == math.Trunc(v) && v >= float64(low) && v < 1<<31
	})
	return int(v)
}

func (d *document) duration(n *yaml.Node, path string, high time.Duration) time.Duration {
	s := d.text(n, path)
	if s == "" {
		return 0
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		d.fail(n, "%s%q is no duration; write for instance 20m or 90s", prefix(path), s)
		return 0
	}
	if v <= 0 || v > high {
		d.fail(n, "%s%s is out of range; it must be above 0 and at most %s", prefix(path), v, high)
	}
	return v
}

func negative(v float64) bool    { return v < 0 }
func notNegative(v float64) bool { return v >= 0 }
func positive(v float64) bool    { return v > 0 }
func share(v float64) bool       { return v >= 0 && v <= 1 }
func anything(float64) bool      { return true }

func prefix(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

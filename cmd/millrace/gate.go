package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"millrace/checkpoint/gate"
	"millrace/checkpoint/stats/reference"
	"millrace/schemas/gatepolicy"
)

// GateCommand is what one can ask the gate.
type GateCommand struct {
	Plan     GatePlan     `cmd:"" help:"What a test can detect with this traffic, before it starts."`
	Simulate GateSimulate `cmd:"" help:"How often a policy ships, holds or rolls back what, at this traffic."`
	Explain  GateExplain  `cmd:"" help:"Why a candidate shipped or didn't, and what would have changed it."`
	Evaluate GateEvaluate `cmd:"" help:"Make a verdict again from its frozen evidence."`
	Policy   GatePolicy   `cmd:"" help:"Print the shipped gate policy, or check one."`
	Check    GateCheck    `cmd:"" help:"Hold the gate's arithmetic against a file of published numbers."`
}

// GateTraffic is what a test will see.
type GateTraffic struct {
	Units        int                `required:"" help:"Distinct units in both arms, from the test's start to its end or in --minutes."`
	Minutes      float64            `help:"In which time so many units come; a test's own if not given." placeholder:"N"`
	Pool         int                `help:"How many units there are in all, who come again; new ones keep coming if not given." placeholder:"N"`
	TurnsPerUnit float64            `default:"4" help:"Turns of a unit that count, on average."`
	TurnsCV      float64            `name:"turns-cv" default:"1" help:"Standard deviation of that number over its mean."`
	ICC          float64            `name:"icc" default:"0.1" help:"Correlation of two turns of one unit, 0 to 1."`
	EditShare    float64            `default:"0.6" help:"Share of the turns that ask for an edit."`
	Base         map[string]string  `help:"The control's value of a metric, with a turn's standard deviation where it is no rate: kept_edits=0.6, tokens=800:900, latency=0:0.9 (of the logarithm)." placeholder:"METRIC=VALUE[:SD]"`
	Effect       map[string]float64 `help:"A change that the candidate may bring: kept_edits=0.03, latency=-0.1." placeholder:"METRIC=CHANGE"`
}

func (c *GateTraffic) traffic() (gate.Traffic, error) {
	traffic := gate.Traffic{
		Units: c.Units, TurnsPerUnit: c.TurnsPerUnit, TurnsCV: c.TurnsCV, ICC: c.ICC, EditShare: c.EditShare,
		Minutes: c.Minutes, Pool: c.Pool, Bases: map[string]gate.Base{}, Effects: c.Effect,
	}
	for name, text := range c.Base {
		base, err := parseBase(text)
		if err != nil {
			return traffic, usagef("--base %s=%s: %v", name, text, err)
		}
		traffic.Bases[name] = base
	}
	return traffic, nil
}

// GatePlan forecasts a test.
type GatePlan struct {
	Policy      string `help:"Gate policy, a file or the name of a shipped one." default:"default" placeholder:"FILE"`
	Write       string `help:"Write the policy of the proposed cycle to this file, under a new name." type:"path" placeholder:"FILE"`
	GateTraffic `embed:""`
}

// Help is what 'millrace gate plan --help' adds.
func (*GatePlan) Help() string {
	return `Where the traffic doesn't suffice, the plan says what would do: a longer test with its cycle by rows, wider margins, mode do_no_harm, or that no
test would tell and evals and a person have to decide.

  millrace gate plan --units 4000 --effect kept_edits=0.03
  millrace gate plan --units 300 --minutes 300 --pool 1000 --write ours.yaml     500 sessions in five hours, by 300 of 1,000 people
`
}

// Run implements the command.
func (c *GatePlan) Run(_ context.Context, out *Output) error {
	policy, err := readPolicy(c.Policy)
	if err != nil {
		return err
	}
	traffic, err := c.traffic()
	if err != nil {
		return err
	}
	forecast, err := gate.Plan(policy, traffic)
	if err != nil {
		return err
	}
	if c.Write != "" {
		if err := writeCycle(c.Write, forecast.Cycle); err != nil {
			return err
		}
	}
	return report(out, forecast, func(w io.Writer) error { return writeLines(w, forecast.Sentences) })
}

// writeCycle writes the proposed policy. Nothing is overwritten: a policy that tests were declared with stays as it is.
func writeCycle(file string, c gate.Cycle) error {
	policy := c.Policy
	policy.Name, policy.Version = "proposed", 1
	text, err := policyText(policy)
	if err != nil {
		return fmt.Errorf("policy of the proposed cycle: %w", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "# Proposed by 'millrace gate plan' for %d units in a test; about %d turns to a cut. Give it a name of your own.\n%s", c.Units, c.Rows, text)
	return errors.Join(err, f.Close())
}

// policyText writes a policy as a document that people edit: blocks, and a metric's margin on one line.
func policyText(p gatepolicy.Policy) ([]byte, error) {
	asJSON, err := json.Marshal(p) // without the margins that are 0
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(asJSON, &doc); err != nil {
		return nil, err
	}
	var plain func(n *yaml.Node, inList bool)
	plain = func(n *yaml.Node, inList bool) {
		n.Style = 0
		if inList && n.Kind == yaml.MappingNode {
			n.Style = yaml.FlowStyle
		}
		for _, c := range n.Content {
			plain(c, n.Kind == yaml.SequenceNode)
		}
	}
	plain(&doc, false)
	return yaml.Marshal(&doc)
}

func parseBase(text string) (b gate.Base, err error) {
	value, sd, hasSD := strings.Cut(text, ":")
	if b.Value, err = strconv.ParseFloat(value, 64); err == nil && hasSD {
		b.SD, err = strconv.ParseFloat(sd, 64)
	}
	if err != nil {
		return b, errors.New("a base is VALUE or VALUE:SD, two numbers")
	}
	return b, nil
}

// GateExplain tells a verdict in sentences.
type GateExplain struct {
	Remote    `embed:""`
	Candidate string `arg:"" help:"The candidate: cand-1."`
}

// Run implements the command.
func (c *GateExplain) Run(ctx context.Context, out *Output) error {
	record, err := c.record(ctx)
	if err != nil {
		return err
	}
	if out.JSON { // whole, so that `gate evaluate` can read it
		return out.Object(record)
	}
	return writeLines(out.Out, gate.Explain(record.Verdict))
}

// record is the frozen verdict or, while the test runs, what the gate would say now.
func (c *GateExplain) record(ctx context.Context) (gate.Record, error) {
	var frozen struct {
		Record gate.Record `json:"record"`
	}
	err := c.call(ctx, "GET", "/v1/candidates/"+url.PathEscape(c.Candidate)+"/verdict", nil, &frozen)
	var refused *apiError
	number, numbered := strings.CutPrefix(c.Candidate, "cand-")
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound || !numbered {
		return frozen.Record, err
	}
	var now gate.Record
	if c.call(ctx, "GET", "/v1/experiments/exp-"+url.PathEscape(number)+"/evidence", nil, &now) != nil {
		return now, err // there is no test either: what was answered first says it
	}
	return now, nil
}

// GateEvaluate makes a verdict again.
type GateEvaluate struct {
	File string `arg:"" help:"What 'gate explain -o json' prints: policy, evidence and, if there is one, the verdict. - reads the standard input."`
}

// Run implements the command.
func (c *GateEvaluate) Run(_ context.Context, out *Output) error {
	text, err := readRecord(c.File)
	if err != nil {
		return err
	}
	record := gate.Record{Policy: gatepolicy.Default()}
	if err := json.Unmarshal(text, &record); err != nil {
		return fmt.Errorf("%s: %w; a record is {policy, evidence, verdict}", c.File, err)
	}
	if err := record.Policy.Validate(); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if record.Evidence.EndsAt.IsZero() {
		return fmt.Errorf("%s: evidence.ends_at is missing: this is no record of a test", c.File)
	}
	verdict := gate.Evaluate(record.Policy, record.Evidence)
	stored := record.Verdict.Decision != ""
	if stored {
		if verdict, err = record.Recompute(); err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
	}
	if out.JSON {
		return out.Object(verdict)
	}
	lines := gate.Explain(verdict)
	if stored {
		lines = append(lines, "the stored verdict is the same to the bit")
	}
	return writeLines(out.Out, lines)
}

// GatePolicy prints or checks a policy.
type GatePolicy struct {
	Policy string `arg:"" optional:"" default:"default" help:"default, large or small: print that shipped policy. A file: check it."`
	Lint   bool   `help:"Exit with 1 on a warning too."`
	Schema bool   `help:"Print the JSON Schema of gate policies."`
}

// Run implements the command.
func (c *GatePolicy) Run(_ context.Context, out *Output) error {
	if c.Schema {
		_, err := out.Out.Write(gatepolicy.Schema())
		return err
	}
	if text, shipped := gatepolicy.ShippedText(c.Policy); shipped {
		_, err := out.Out.Write(text)
		return err
	}
	text, err := os.ReadFile(c.Policy)
	if errors.Is(err, os.ErrNotExist) {
		return usagef("%s is no file, and no shipped policy: those are %s", c.Policy, strings.Join(gatepolicy.Shipped, ", "))
	}
	if err != nil {
		return err
	}
	policy, warnings, err := gatepolicy.Warnings(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Policy, err)
	}
	checked := struct {
		Policy   gatepolicy.Policy   `json:"policy"`
		Warnings gatepolicy.Problems `json:"warnings"`
	}{policy, warnings}
	err = report(out, checked, func(w io.Writer) error {
		lines := []string{fmt.Sprintf("%s: gate policy %s version %d, mode %s", c.Policy, policy.Name, policy.Version, policy.Mode)}
		if len(warnings) > 0 {
			lines = append(lines, warnings.Error())
		}
		return writeLines(w, lines)
	})
	if err == nil && c.Lint && len(warnings) > 0 {
		return fmt.Errorf("%s: warnings: %d", c.Policy, len(warnings))
	}
	return err
}

// GateCheck runs reference cases.
type GateCheck struct {
	File string `arg:"" type:"existingfile" help:"A JSON array of {name, method, input, expected, tol}."`
}

// Run implements the command.
func (c *GateCheck) Run(_ context.Context, out *Output) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	cases, err := reference.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	counts := map[reference.Status]int{}
	results := make([]reference.Result, len(cases))
	for i, c := range cases {
		results[i] = reference.Run(c)
		counts[results[i].Status]++
	}
	if out.JSON {
		err = out.Object(results)
	} else {
		var lines []string
		for _, r := range results {
			line := fmt.Sprintf("%-8s %-40s", r.Status, r.Name)
			if r.Status != reference.Skipped {
				line += fmt.Sprintf(" differs by %.2g, %.2g allowed", r.Worst, r.Tol)
			}
			if r.Detail != "" {
				line += "  " + r.Detail
			}
			lines = append(lines, strings.TrimRight(line, " "))
		}
		lines = append(lines, fmt.Sprintf("cases %d = %d agree + %d off + %d skipped", len(cases), counts[reference.Agrees], counts[reference.Off], counts[reference.Skipped]))
		err = writeLines(out.Out, lines)
	}
	switch {
	case err != nil:
		return err
	case counts[reference.Off] > 0:
		return fmt.Errorf("%s: %d of %d cases are off", c.File, counts[reference.Off], len(cases))
	case counts[reference.Agrees] == 0:
		return fmt.Errorf("%s: no case is one that the gate computes", c.File)
	}
	return nil
}

// readPolicy reads a file, or one of the shipped policies by its name.
func readPolicy(file string) (gatepolicy.Policy, error) {
	if file == "" {
		return gatepolicy.Default(), nil
	}
	text, shipped := gatepolicy.ShippedText(file)
	if !shipped {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return gatepolicy.Policy{}, err
		}
	}
	policy, err := gatepolicy.Parse(text)
	if err != nil {
		return policy, fmt.Errorf("%s: %w", file, err)
	}
	return policy, nil
}

func readRecord(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

func writeLines(w io.Writer, lines []string) error {
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

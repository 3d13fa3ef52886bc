package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"millrace/checkpoint/experiment"
	"millrace/checkpoint/gate"
	"millrace/checkpoint/stats/reference"
	"millrace/internal/postgres"
	"millrace/schemas/gatepolicy"
)

// gateCommand groups what one can ask the gate.
type gateCommand struct {
	Plan     gatePlan     `cmd:"" help:"What a test can detect with this traffic, before it starts."`
	Explain  gateExplain  `cmd:"" help:"Why a candidate shipped or didn't, and what would have changed it."`
	Evaluate gateEvaluate `cmd:"" help:"Make a verdict again from its frozen evidence."`
	Policy   gatePolicy   `cmd:"" help:"Print the shipped gate policy, or check one."`
	Check    gateCheck    `cmd:"" help:"Hold the gate's arithmetic against a file of published numbers."`
}

type gatePlan struct {
	Policy       string             `help:"Gate policy; the shipped one if not given." type:"existingfile" placeholder:"FILE"`
	Units        int                `required:"" help:"Distinct units in both arms, from the test's start to its end."`
	TurnsPerUnit float64            `default:"4" help:"Turns of a unit that count, on average."`
	TurnsCV      float64            `name:"turns-cv" default:"1" help:"Standard deviation of that number over its mean."`
	ICC          float64            `name:"icc" default:"0.1" help:"Correlation of two turns of one unit, 0 to 1."`
	EditShare    float64            `default:"0.6" help:"Share of the turns that ask for an edit."`
	Base         map[string]string  `help:"The control's value of a metric, with a turn's standard deviation where it is no rate: kept_edits=0.6, tokens=800:900, latency=0:0.9 (of the logarithm)." placeholder:"METRIC=VALUE[:SD]"`
	Effect       map[string]float64 `help:"A change that the candidate may bring: kept_edits=0.03, latency=-0.1." placeholder:"METRIC=CHANGE"`
}

func (c *gatePlan) Run(_ context.Context, out *Output) error {
	policy, err := readPolicy(c.Policy)
	if err != nil {
		return err
	}
	traffic := gate.Traffic{
		Units: c.Units, TurnsPerUnit: c.TurnsPerUnit, TurnsCV: c.TurnsCV, ICC: c.ICC, EditShare: c.EditShare,
		Bases: map[string]gate.Base{}, Effects: c.Effect,
	}
	for name, text := range c.Base {
		base, err := parseBase(text)
		if err != nil {
			return fmt.Errorf("--base %s=%s: %w", name, text, err)
		}
		traffic.Bases[name] = base
	}
	forecast, err := gate.Plan(policy, traffic)
	if err != nil {
		return err
	}
	if out.JSON {
		return writeJSON(out.Out, forecast)
	}
	return writeLines(out.Out, forecast.Sentences)
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

type gateExplain struct {
	Connect
	Candidate string `arg:"" help:"The candidate: cand-1."`
}

func (c *gateExplain) Run(ctx context.Context, out *Output) error {
	pool, err := postgres.Open(ctx, c.Postgres, "millrace gate explain")
	if err != nil {
		return err
	}
	defer pool.Close()
	frozen, err := experiment.VerdictOf(ctx, pool, c.Candidate)
	if err != nil {
		return err
	}
	if out.JSON { // whole, so that `gate evaluate` can read it
		return writeJSON(out.Out, frozen.Record)
	}
	return writeLines(out.Out, gate.Explain(frozen.Record.Verdict))
}

type gateEvaluate struct {
	File string `arg:"" help:"What 'gate explain -o json' prints: policy, evidence and, if there is one, the verdict. - reads the standard input."`
}

func (c *gateEvaluate) Run(_ context.Context, out *Output) error {
	text, err := readFile(c.File)
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
		return writeJSON(out.Out, verdict)
	}
	lines := gate.Explain(verdict)
	if stored {
		lines = append(lines, "the stored verdict is the same to the bit")
	}
	return writeLines(out.Out, lines)
}

type gatePolicy struct {
	File   string `arg:"" optional:"" type:"existingfile" help:"A policy to check; the shipped one is printed if not given."`
	Schema bool   `help:"Print the JSON Schema of gate policies."`
}

func (c *gatePolicy) Run(_ context.Context, out *Output) error {
	text := gatepolicy.DefaultText()
	switch {
	case c.Schema:
		text = gatepolicy.Schema()
	case c.File != "":
		policy, err := readPolicy(c.File)
		if err != nil {
			return err
		}
		text = fmt.Appendf(nil, "%s: gate policy %s version %d, mode %s\n", c.File, policy.Name, policy.Version, policy.Mode)
	}
	_, err := out.Out.Write(text)
	return err
}

type gateCheck struct {
	File string `arg:"" type:"existingfile" help:"A JSON array of {name, method, input, expected, tol}."`
}

func (c *gateCheck) Run(_ context.Context, out *Output) error {
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
		err = writeJSON(out.Out, results)
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

func readPolicy(file string) (gatepolicy.Policy, error) {
	if file == "" {
		return gatepolicy.Default(), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return gatepolicy.Policy{}, err
	}
	policy, err := gatepolicy.Parse(text)
	if err != nil {
		return policy, fmt.Errorf("%s: %w", file, err)
	}
	return policy, nil
}

func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func writeLines(w io.Writer, lines []string) error {
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

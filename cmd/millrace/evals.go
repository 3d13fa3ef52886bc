package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"millrace/checkpoint"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/evals"
)

// EvalsCommand runs and reports offline suites.
type EvalsCommand struct {
	Remote `embed:""`
	Run    EvalsRun    `cmd:"" help:"Run a suite's command on a candidate, and report its JSON."`
	Report EvalsReport `cmd:"" help:"Report a suite's JSON from a file."`
	List   EvalsList   `cmd:"" help:"The reports that count, and what a candidate still lacks."`
}

// EvalsTarget is what a report is of.
type EvalsTarget struct {
	Suite     string `required:"" help:"The suite's name."`
	Candidate string `placeholder:"ID" help:"The candidate, as in cand-1, or"`
	OfVersion string `placeholder:"VERSION" help:"a policy version that is registered: the base, for instance."`
}

// EvalsRun runs a command.
type EvalsRun struct {
	EvalsTarget `embed:""`
	Timeout     time.Duration `default:"1h" help:"The command is stopped after that."`
	Command     []string      `arg:"" passthrough:"" placeholder:"-- CMD…" help:"What to run."`
}

// Help is what 'millrace evals run --help' adds.
func (*EvalsRun) Help() string {
	return `The command finds what it is to look at in MILLRACE_VERSION, MILLRACE_WEIGHTS_URI, MILLRACE_CANDIDATE and MILLRACE_SUITE, and prints one JSON object:

  {"harness_version": "1.4.0", "metrics": {"solved": 0.412}, "seeds": [1, 2], "tasks": [{"id": "a", "solved": true}]}

What it prints to its standard error goes on to yours. An exit code that isn't 0 reports nothing.

  millrace evals run --suite swe --candidate cand-1 -- ./bench.sh --split held-out`
}

// Run implements the command.
func (c *EvalsRun) Run(ctx context.Context, out *Output, at *EvalsCommand) error {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return usagef("say what to run: millrace evals run --suite NAME --candidate cand-1 -- CMD…")
	}
	env := append(os.Environ(), "MILLRACE_SUITE="+c.Suite, "MILLRACE_VERSION="+c.OfVersion)
	if c.Candidate != "" {
		var k candidate.Candidate
		if err := at.call(ctx, "GET", "/v1/candidates/"+url.PathEscape(c.Candidate), nil, &k); err != nil {
			return err
		}
		if k.Submission == nil {
			return fmt.Errorf("%s is %s: nothing was submitted that could be evaluated", k.ID, k.State)
		}
		env = append(env, "MILLRACE_CANDIDATE="+k.ID, "MILLRACE_VERSION="+k.Version, "MILLRACE_WEIGHTS_URI="+k.Submission.WeightsURI)
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	run := exec.CommandContext(limited, command[0], command[1:]...)
	run.Env, run.Stderr, run.WaitDelay = env, out.Err, 5*time.Second
	printed, err := run.Output()
	if limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%s took longer than --timeout %s; nothing was reported", command[0], c.Timeout)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; nothing was reported", command[0], err)
	}
	return c.report(ctx, out, at, command[0]+" printed", printed)
}

// EvalsReport reports a file.
type EvalsReport struct {
	EvalsTarget `embed:""`
	File        string `arg:"" help:"The JSON object, as evals run --help shows it; - is standard input."`
}

// Run implements the command.
func (c *EvalsReport) Run(ctx context.Context, out *Output, at *EvalsCommand) error {
	var (
		body []byte
		err  error
	)
	if c.File == "-" {
		body, err = io.ReadAll(os.Stdin)
	} else {
		body, err = readFile("eval report", c.File)
	}
	if err != nil {
		return err
	}
	return c.report(ctx, out, at, c.File, body)
}

func (c *EvalsTarget) report(ctx context.Context, out *Output, at *EvalsCommand, what string, body []byte) error {
	if (c.Candidate == "") == (c.OfVersion == "") {
		return usagef("give either --candidate or --of-version")
	}
	request := checkpoint.EvalReport{}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields() // a misspelt field would be a result that nobody reads
	err := decoder.Decode(&request)
	if err == nil && decoder.More() {
		err = errors.New("more than one JSON value; logs belong on standard error")
	}
	if err != nil {
		return fmt.Errorf("%s no report: %w; want {\"harness_version\": …, \"metrics\": {…}}", what, err)
	}
	if request.Candidate+request.Version+request.Suite != "" {
		return fmt.Errorf("%s: suite, candidate and version are said by flags", what)
	}
	request.Suite, request.Candidate, request.Version = c.Suite, c.Candidate, c.OfVersion
	var stored evals.Report
	if err := at.call(ctx, "POST", "/v1/evals", request, &stored); err != nil {
		return err
	}
	return report(out, stored, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s on %s: %s (harness %s)\n", stored.Suite, stored.Version, metrics(stored), stored.HarnessVersion)
		return err
	})
}

func metrics(r evals.Report) string {
	var parts []string
	for _, name := range sortedKeys(r.Metrics) {
		parts = append(parts, fmt.Sprintf("%s %.4g", name, r.Metrics[name]))
	}
	return strings.Join(parts, ", ")
}

// EvalsList lists.
type EvalsList struct {
	Candidate string `arg:"" optional:"" help:"Only those of this candidate and its base, and what they say."`
}

// Run lists.
func (c *EvalsList) Run(ctx context.Context, out *Output, at *EvalsCommand) error {
	path := "/v1/evals"
	if c.Candidate != "" {
		path += "?candidate=" + url.QueryEscape(c.Candidate)
	}
	var answer checkpoint.Evals
	if err := at.call(ctx, "GET", path, nil, &answer); err != nil {
		return err
	}
	return report(out, answer, func(w io.Writer) error {
		if len(answer.Suites) == 0 {
			fmt.Fprintln(w, "no suite is configured, so every candidate passes: --evals FILE of the checkpoint role (docs/releases.md)")
		}
		if err := table(w, func(line func(...any)) {
			for _, r := range answer.Reports {
				line(r.Suite, r.Version, minute(r.At), r.Who, "harness "+r.HarnessVersion, metrics(r))
			}
		}); err != nil {
			return err
		}
		if o := answer.Outcome; o != nil {
			for _, f := range o.Failed {
				fmt.Fprintf(w, "failed   %s\n", f)
			}
			for _, m := range o.Missing {
				fmt.Fprintf(w, "missing  %s\n", m)
			}
			if o.Passed() {
				fmt.Fprintf(w, "%s passes\n", answer.Candidate)
			}
		}
		return nil
	})
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"millrace/checkpoint/experiment"
	"millrace/checkpoint/gate"
)

// ExperimentCommand is the A/B tests.
type ExperimentCommand struct {
	Remote `embed:""`
	List   ExperimentList `cmd:"" help:"All experiments."`
	Show   ExperimentShow `cmd:"" help:"One experiment as it was declared, and what the gate says of it now."`
}

type ExperimentList struct{}

// Run lists.
func (*ExperimentList) Run(ctx context.Context, out *Output, at *ExperimentCommand) error {
	var answer struct {
		Experiments []experiment.Experiment `json:"experiments"`
	}
	if err := at.call(ctx, "GET", "/v1/experiments", nil, &answer); err != nil {
		return err
	}
	return report(out, answer.Experiments, func(w io.Writer) error {
		if len(answer.Experiments) == 0 {
			_, err := fmt.Fprintln(w, "no experiment yet: one is declared for every evaluated candidate (millrace candidate list)")
			return err
		}
		return table(w, func(line func(...any)) {
			for _, e := range answer.Experiments {
				line(e.ID, e.CandidateID, e.Candidate+" against "+e.Control, minute(e.StartsAt)+" to "+minute(e.EndsAt))
			}
		})
	})
}

type ExperimentShow struct {
	ID string `arg:"" help:"The experiment, as in exp-1."`
}

// Run shows.
func (c *ExperimentShow) Run(ctx context.Context, out *Output, at *ExperimentCommand) error {
	var shown struct {
		experiment.Experiment
		Now gate.Verdict `json:"verdict_now"`
	}
	path := "/v1/experiments/" + url.PathEscape(c.ID)
	if err := at.call(ctx, "GET", path, nil, &shown.Experiment); err != nil {
		return err
	}
	var record gate.Record
	if err := at.call(ctx, "GET", path+"/evidence", nil, &record); err != nil {
		return err
	}
	shown.Now = record.Verdict
	return report(out, shown, func(w io.Writer) error {
		e, v := shown.Experiment, record.Verdict
		fmt.Fprintf(w, "%s  %s (%s) against %s  %g %% of units, half in each arm  salt %s\n", e.ID, e.Candidate, e.CandidateID, e.Control, float64(e.Coverage)*100/experiment.Buckets, e.Salt)
		fmt.Fprintf(w, "declared %s · starts %s · turns count until %s · ends %s\n", minute(e.DeclaredAt), minute(e.StartsAt), minute(e.CountsUntil), minute(e.EndsAt))
		fmt.Fprintf(w, "policy %s version %d · slow after %g ms\n", v.Policy.Name, v.Policy.Version, e.SlowAfterMs)
		fmt.Fprintf(w, "units %d | %d · sums through %s: %s\n", v.Units.Control, v.Units.Candidate, minute(v.At), v.Decision)
		for _, reason := range v.Reasons {
			fmt.Fprintln(w, "  "+strings.TrimSpace(reason))
		}
		return nil
	})
}

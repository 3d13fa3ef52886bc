package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"millrace/checkpoint"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
)

// CutCommand is the training set of an interval.
type CutCommand struct {
	Remote `embed:""`
	List   CutList `cmd:"" help:"All cuts, with what became of them."`
	Show   CutShow `cmd:"" help:"One cut: where its rows went, its parts, how much of the traffic was on-policy."`
	Now    CutNow  `cmd:"" help:"Ask for a cut beside the schedule."`
	// GoOnWithout is a decision: it needs a reason.
	GoOnWithout CutGoOnWithout `cmd:"" help:"Let the cut that is being made go on without a halted partition, by your own decision."`
}

type CutList struct{}

// Run lists.
func (*CutList) Run(ctx context.Context, out *Output, at *CutCommand) error {
	var answer struct {
		Cuts []cut.Cut `json:"cuts"`
	}
	if err := at.call(ctx, "GET", "/v1/cuts", nil, &answer); err != nil {
		return err
	}
	return report(out, answer.Cuts, func(w io.Writer) error {
		if len(answer.Cuts) == 0 {
			_, err := fmt.Fprintln(w, "no cut yet; `millrace release status` says when the next one is due")
			return err
		}
		return table(w, func(line func(...any)) {
			for _, c := range answer.Cuts {
				line(c.ID, c.State, minute(c.DueAt), c.Base, fmt.Sprintf("%d rows", c.Taken), c.Cause, c.Reason+without(c.Without))
			}
		})
	})
}

type CutShow struct {
	ID string `arg:"" help:"The cut, as in cut-1."`
}

// Run shows.
func (c *CutShow) Run(ctx context.Context, out *Output, at *CutCommand) error {
	var k checkpoint.CutReport
	path := "/v1/cuts/" + url.PathEscape(c.ID)
	if err := at.call(ctx, "GET", path, nil, &k); err != nil {
		return err
	}
	shown := struct {
		checkpoint.CutReport
		OnPolicy float64         `json:"on_policy"`
		Manifest json.RawMessage `json:"manifest,omitempty"`
	}{CutReport: k, OnPolicy: k.OnPolicy()}
	var m cut.Manifest
	if k.State == cut.Packed {
		if err := at.call(ctx, "GET", path+"/manifest", nil, &shown.Manifest); err != nil {
			return err
		}
		if err := json.Unmarshal(shown.Manifest, &m); err != nil {
			return fmt.Errorf("manifest of %s: %w", k.ID, err)
		}
	}
	return report(out, shown, func(w io.Writer) error {
		fmt.Fprintf(w, "%s  %s  due %s (%s)  base %s\n", k.ID, k.State, minute(k.DueAt), k.Cause, k.Base)
		if k.Reason != "" {
			fmt.Fprintln(w, k.Reason)
		}
		for _, a := range k.Without {
			fmt.Fprintf(w, "without partition %d, by decision of %s at %s: %s; its rows go to the next cut\n", a.Partition, a.Who, minute(a.At), a.Why)
		}
		if k.Ladder != nil {
			fmt.Fprintf(w, "%s %s: %s\n", k.Candidate, k.CandidateState, ladderLine(*k.Ladder))
		}
		if k.Next != nil {
			fmt.Fprintf(w, "next: %s\n", k.Next)
		}
		if k.State != cut.Packed {
			return nil
		}
		balanced := "balanced"
		if err := k.Check(); err != nil {
			balanced = err.Error()
		}
		fmt.Fprintf(w, "rows %d = %d taken + %d superseded + %d stale + %d capped   %s\n", k.InShards, k.Taken, k.Superseded, k.Stale, k.Capped, balanced)
		fmt.Fprintf(w, "on-policy %.0f %% of the interval's rows · %d units · %d trained tokens\n", k.OnPolicy()*100, k.Units, k.Tokens)
		return table(w, func(line func(...any)) {
			for _, p := range m.Parts {
				line(fmt.Sprintf("part %d", p.Number), fmt.Sprintf("%d rows", p.Rows), fmt.Sprintf("%d bytes", p.Bytes), p.Key)
			}
		})
	})
}

type CutNow struct{}

// Run asks.
func (*CutNow) Run(ctx context.Context, out *Output, at *CutCommand) error {
	var answer map[string]string
	if err := at.call(ctx, "POST", "/v1/cuts", nil, &answer); err != nil {
		return err
	}
	return report(out, answer, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "asked for by %s; it begins within seconds, or is skipped with the reason: millrace cut list\n", answer["asked_by"])
		return err
	})
}

type CutGoOnWithout struct {
	Partition int    `arg:"" help:"The partition, as millrace cut show names it."`
	Why       string `required:"" help:"The reason, for the record."`
	Cut       string `default:"last" help:"The cut, as in cut-1."`
}

// Help is what --help adds.
func (*CutGoOnWithout) Help() string {
	return `The rows of the partition are not lost: they go to the next cut. After the time to submit the cut is skipped anyway.
Mend the partition too: the verdict of a running test waits for every partition (millrace partition resume).`
}

// Run decides.
func (c *CutGoOnWithout) Run(ctx context.Context, out *Output, at *CutCommand) error {
	var answer checkpoint.CutReport
	decision := map[string]any{"partition": c.Partition, "why": c.Why}
	if err := at.call(ctx, "POST", "/v1/cuts/"+url.PathEscape(c.Cut)+"/without", decision, &answer); err != nil {
		return err
	}
	return report(out, answer, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s goes on without partition %d; its rows go to the next cut: millrace cut show %s\n", answer.ID, c.Partition, answer.ID)
		return err
	})
}

// without names the partitions that a cut went on without.
func without(absent []cut.Absence) string {
	text := ""
	for _, a := range absent {
		text += fmt.Sprintf(" (without partition %d: %s, %s)", a.Partition, a.Who, a.Why)
	}
	return text
}

// ladderLine is a candidate's steps, each with its deadline.
func ladderLine(l candidate.Ladder) string {
	return fmt.Sprintf("submit by %s · evaluated by %s · test %s to %s · verdict by %s",
		minute(l.SubmitBy), minute(l.EvalsBy), minute(l.StartsAt), minute(l.EndsAt), minute(l.VerdictBy))
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"millrace/checkpoint/cut"
)

// CutCommand is the training set of an interval.
type CutCommand struct {
	Remote `embed:""`
	List   CutList `cmd:"" help:"All cuts, with what became of them."`
	Show   CutShow `cmd:"" help:"One cut: where its rows went, its parts, how much of the traffic was on-policy."`
	Now    CutNow  `cmd:"" help:"Ask for a cut beside the schedule."`
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
				line(c.ID, c.State, minute(c.DueAt), c.Base, fmt.Sprintf("%d rows", c.Taken), c.Reason)
			}
		})
	})
}

type CutShow struct {
	ID string `arg:"" help:"The cut, as in cut-1."`
}

// Run shows.
func (c *CutShow) Run(ctx context.Context, out *Output, at *CutCommand) error {
	var k cut.Cut
	path := "/v1/cuts/" + url.PathEscape(c.ID)
	if err := at.call(ctx, "GET", path, nil, &k); err != nil {
		return err
	}
	shown := struct {
		cut.Cut
		OnPolicy float64         `json:"on_policy"`
		Manifest json.RawMessage `json:"manifest,omitempty"`
	}{Cut: k, OnPolicy: k.OnPolicy()}
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
		_, err := fmt.Fprintln(w, "asked for; it begins within seconds, or is skipped with the reason: millrace cut list")
		return err
	})
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"millrace/checkpoint"
	"millrace/checkpoint/release"
)

// ReleaseCommand is the live pointer.
type ReleaseCommand struct {
	Remote   `embed:""`
	Status   ReleaseStatus   `cmd:"" help:"What is live, what is in test, what comes next."`
	Init     ReleaseInit     `cmd:"" help:"Name the checkpoint that serves now, once, at the beginning."`
	Promote  ReleasePromote  `cmd:"" help:"Make a held candidate live by your own decision."`
	Rollback ReleaseRollback `cmd:"" help:"Make the former checkpoint live again, at once."`
	Pause    ReleasePause    `cmd:"" help:"No cut and no test begins, and nothing is promoted by itself, until resume."`
	Resume   ReleaseResume   `cmd:"" help:"Let the loop go on."`
	Anchor   ReleaseAnchor   `cmd:"" help:"Hold some units back on an older checkpoint, against slow creep; without a version: what is held back."`
	Served   ReleaseServed   `cmd:"" help:"What served a unit at some time?"`
	History  ReleaseHistory  `cmd:"" help:"Every move of the live pointer: what served when, who moved it, why."`
}

type ReleaseStatus struct{}

// Run reports.
func (*ReleaseStatus) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	var s checkpoint.Status
	if err := at.call(ctx, "GET", "/v1/release", nil, &s); err != nil {
		return err
	}
	return report(out, s, func(w io.Writer) error {
		if s.Live == nil {
			fmt.Fprintln(w, release.ErrNoLive)
		} else {
			fmt.Fprintf(w, "live       %s since %s (%s)\n", s.Live.Version, minute(s.Live.At), published(s.Live))
		}
		if p := s.Paused; p != nil {
			fmt.Fprintf(w, "PAUSED     since %s by %s: %s\n", minute(p.At), p.Who, p.Why)
		}
		if s.Cut != nil {
			fmt.Fprintf(w, "last cut   %s %s %s\n", s.Cut.ID, s.Cut.State, s.Cut.Reason)
		}
		if c := s.Candidate; c != nil {
			fmt.Fprintf(w, "candidate  %s %s %s\n", c.ID, c.State, c.Reason)
			if e := s.Experiment; e != nil && c.State.Open() {
				fmt.Fprintf(w, "test       %s against %s, %s to %s\n", e.Candidate, e.Control, minute(e.StartsAt), minute(e.EndsAt))
			}
		}
		if s.Next != nil {
			fmt.Fprintf(w, "next       %s\n", s.Next)
		}
		switch {
		case s.NextCut == nil:
		case s.ByRows != nil:
			fmt.Fprintf(w, "next cut   %s, at the latest %s\n", s.ByRows, minute(*s.NextCut))
		default:
			fmt.Fprintf(w, "next cut   %s\n", minute(*s.NextCut))
		}
		return nil
	})
}

func published(r *release.Release) string {
	if r.Published {
		return "published"
	}
	return "not yet published"
}

type ReleaseInit struct {
	Version string `arg:"" help:"The policy version, as the engine reports it."`
}

// Run names.
func (c *ReleaseInit) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	return at.move(ctx, out, checkpoint.Move{Action: release.ActionInit, Version: c.Version})
}

type ReleasePromote struct {
	Candidate string `arg:"" help:"The held candidate, as in cand-1."`
	Why       string `required:"" help:"The reason, for the record."`
}

// Run promotes.
func (c *ReleasePromote) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	return at.move(ctx, out, checkpoint.Move{Action: release.ActionPromote, Candidate: c.Candidate, Why: c.Why})
}

type ReleaseRollback struct {
	Why string `required:"" help:"The reason, for the record."`
}

// Run rolls back.
func (c *ReleaseRollback) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	return at.move(ctx, out, checkpoint.Move{Action: release.ActionRollback, Why: c.Why})
}

func (c *ReleaseCommand) move(ctx context.Context, out *Output, m checkpoint.Move) error {
	var live release.Release
	if err := c.call(ctx, "POST", "/v1/release", m, &live); err != nil {
		return err
	}
	return report(out, live, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "live is %s; it is published within seconds: millrace release status\n", live.Version)
		return err
	})
}

type ReleasePause struct {
	Why string `required:"" help:"The reason, for the record."`
}

// Run pauses.
func (c *ReleasePause) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	return at.pause(ctx, out, true, c.Why)
}

type ReleaseResume struct {
	Why string `required:"" help:"The reason, for the record."`
}

// Run resumes.
func (c *ReleaseResume) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	return at.pause(ctx, out, false, c.Why)
}

func (c *ReleaseCommand) pause(ctx context.Context, out *Output, paused bool, why string) error {
	var p release.Pause
	if err := c.call(ctx, "POST", "/v1/release/pause", checkpoint.PauseRequest{Paused: &paused, Why: why}, &p); err != nil {
		return err
	}
	return report(out, p, func(w io.Writer) error {
		if p.Paused {
			_, err := fmt.Fprintln(w, "paused: no cut and no test begins, and nothing is promoted by itself; a test that runs is still watched for harm")
			return err
		}
		_, err := fmt.Fprintln(w, "the loop goes on")
		return err
	})
}

type ReleaseAnchor struct {
	Version string  `arg:"" optional:"" help:"A version that was live: a share of the units stays on it."`
	Share   float64 `default:"0.05" help:"Share of the units that is held back; as many again, served what is live, are compared with them."`
	End     bool    `help:"End the hold-back." xor:"version"`
	Why     string  `help:"The reason, for the record."`
}

// Run holds back, ends it, or says what is held back.
func (c *ReleaseAnchor) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	var a checkpoint.Anchor
	switch {
	case c.End && c.Version != "":
		return usagef("give a version, or --end")
	case !c.End && c.Version == "":
		if err := at.call(ctx, "GET", "/v1/release/anchor", nil, &a); err != nil {
			return err
		}
	default:
		request := checkpoint.AnchorRequest{Version: c.Version, Share: c.Share, Why: c.Why}
		if c.Why == "" {
			return usagef("--why is missing: a hold-back needs a reason on record")
		}
		if err := at.call(ctx, "POST", "/v1/release/anchor", request, &a); err != nil {
			return err
		}
	}
	return report(out, a, func(w io.Writer) error {
		h := a.HoldBack
		if h == nil {
			_, err := fmt.Fprintln(w, "nothing is held back")
			return err
		}
		share := float64(h.Buckets) / 100
		_, err := fmt.Fprintf(w, "%s: %g %% of the units stay on %s (arm control), %g %% on what is live are compared with them (arm candidate); since %s by %s: %s\n",
			h.ID, share, h.Version, share, minute(h.At), h.Who, h.Why)
		return err
	})
}

type ReleaseServed struct {
	Unit string `arg:"" help:"The unit id, as the backend sends it."`
	At   moment `placeholder:"TIME" help:"2026-03-01 or 2026-03-01T12:00:00Z. Default: now."`
}

// Run answers.
func (c *ReleaseServed) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	query := url.Values{"unit": {c.Unit}}
	if t := time.Time(c.At); !t.IsZero() {
		query.Set("at", t.Format(time.RFC3339))
	}
	var s release.Served
	if err := at.call(ctx, "GET", "/v1/release/served?"+query.Encode(), nil, &s); err != nil {
		return err
	}
	return report(out, s, func(w io.Writer) error {
		how := "live"
		if s.Experiment != "" {
			how = s.Arm + " of " + s.Experiment
		}
		_, err := fmt.Fprintf(w, "%s at %s: %s (%s, release %d); a session that had begun before kept its own\n", s.Unit, s.At.Format(time.RFC3339), s.Version, how, s.Release)
		return err
	})
}

type ReleaseHistory struct{}

// Run lists.
func (*ReleaseHistory) Run(ctx context.Context, out *Output, at *ReleaseCommand) error {
	var answer struct {
		Releases []release.Release `json:"releases"`
	}
	if err := at.call(ctx, "GET", "/v1/release/history", nil, &answer); err != nil {
		return err
	}
	return report(out, answer.Releases, func(w io.Writer) error {
		return table(w, func(line func(...any)) {
			for _, r := range answer.Releases {
				line(r.Seq, minute(r.At), r.Action, r.Version, r.Who, r.Why, published(&r))
			}
		})
	})
}

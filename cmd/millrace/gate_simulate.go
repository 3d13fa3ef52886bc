package main

import (
	"context"
	"fmt"
	"io"

	"millrace/checkpoint/gate"
	"millrace/checkpoint/gate/simulation"
)

// GateSimulate plays whole tests through the gate.
type GateSimulate struct {
	Policy      string `help:"Gate policy, a file or the name of a shipped one." default:"default" placeholder:"FILE"`
	GateTraffic `embed:""`
	Experiments int      `default:"400" help:"Simulated tests of each candidate."`
	Seed        uint64   `default:"1" help:"The same seed gives the same report."`
	Every       int      `default:"1" help:"Minutes of log time between two looks of the gate."`
	Only        []string `help:"Only these candidates: unchanged, better, harmful …" placeholder:"NAME"`
}

// Help is what 'millrace gate simulate --help' adds.
func (*GateSimulate) Help() string {
	return `Each test has skewed units with turns in sessions, by the hour of the day, hanging together inside a unit and settling late. The gate looks at its
sums every minute; the first final verdict counts. Exit code 1 if a candidate came out otherwise than the policy or 'gate plan' says, by more than
three Monte-Carlo errors.

  millrace gate simulate --units 4000
  millrace gate simulate --units 4000 --policy mine.yaml --effect kept_edits=0.05 --experiments 2000 --only better,unchanged
`
}

// simulated is the report.
type simulated struct {
	Policy      gate.PolicyRef     `json:"policy"`
	Traffic     gate.Traffic       `json:"traffic"`
	Experiments int                `json:"experiments"`
	Seed        uint64             `json:"seed"`
	Every       int                `json:"every"`
	Candidates  []simulation.Tally `json:"candidates"`
}

// Run implements the command.
func (c *GateSimulate) Run(ctx context.Context, out *Output) error {
	policy, err := readPolicy(c.Policy)
	if err != nil {
		return err
	}
	traffic, err := c.traffic()
	if err != nil {
		return err
	}
	scenarios, err := simulation.Scenarios(policy, traffic)
	if err != nil {
		return err
	}
	traffic = traffic.Over(policy.TestMinutes)
	if scenarios, err = simulation.Only(scenarios, c.Only); err != nil {
		return usagef("--only: %v", err)
	}
	tallies, err := simulation.Run(ctx, policy, traffic, scenarios, simulation.Options{Experiments: c.Experiments, Seed: c.Seed, Every: c.Every})
	if err != nil {
		return err
	}
	result := simulated{
		Policy:  gate.PolicyRef{Name: policy.Name, Version: policy.Version},
		Traffic: traffic, Experiments: c.Experiments, Seed: c.Seed, Every: c.Every, Candidates: tallies,
	}
	if err := report(out, result, func(w io.Writer) error { return writeTallies(w, result) }); err != nil {
		return err
	}
	broken := 0
	for _, t := range tallies {
		for _, claim := range t.Claims {
			if claim.Broken {
				broken++
			}
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of the claims don't hold at this traffic", broken)
	}
	return nil
}

func writeTallies(w io.Writer, r simulated) error {
	fmt.Fprintf(w, "policy %s version %d, %d units, %d tests of each candidate, a look every %d min; shares with one Monte-Carlo error\n\n",
		r.Policy.Name, r.Policy.Version, r.Traffic.Units, r.Experiments, r.Every)
	share := func(s simulation.Share) string { return fmt.Sprintf("%.1f ±%.1f%%", 100*s.Share, 100*s.Error) }
	err := table(w, func(line func(columns ...any)) {
		line("candidate", "SHIP", "early", "HOLD", "ROLLBACK", "INVALID", "")
		for _, t := range r.Candidates {
			d := t.Decisions
			line(t.Name, share(d[gate.Ship]), share(t.Early), share(d[gate.Hold]), share(d[gate.Rollback]), share(d[gate.Invalid]), t.Text)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	return table(w, func(line func(columns ...any)) {
		line("claim", "seen", "", "candidate", "by")
		for _, t := range r.Candidates {
			for _, c := range t.Claims {
				verdict := "holds"
				if c.Broken {
					verdict = "DOESN'T HOLD"
				}
				line(claimed(c.Claim), share(c.Seen), verdict, t.Name, c.By)
			}
		}
	})
}

func claimed(c simulation.Claim) string {
	switch {
	case c.AtMost > 0 && c.AtLeast > 0:
		return fmt.Sprintf("%s from %.1f to %.1f%%", c.Decision, 100*c.AtLeast, 100*c.AtMost)
	case c.AtMost > 0:
		return fmt.Sprintf("%s at most %.1f%%", c.Decision, 100*c.AtMost)
	}
	return fmt.Sprintf("%s at least %.1f%%", c.Decision, 100*c.AtLeast)
}

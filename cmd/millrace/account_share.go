package main

import (
	"fmt"
	"time"

	"millrace/checkpoint/experiment"
	"millrace/distill/account"
	"millrace/schemas/ledger"
)

// telling are the dispositions whose shares should be alike in both arms of a test: where they aren't, telemetry or a
// provider fails one policy more than the other, and what is compared are no longer the same turns.
var telling = []ledger.Disposition{ledger.Incomplete, ledger.Faulted}

// arms is a test, and how the telling dispositions compare between its arms. A version that took part in several tests
// has its turns of all of them counted here.
type arms struct {
	Experiment string               `json:"experiment"`
	Control    string               `json:"control"`
	Candidate  string               `json:"candidate"`
	Compared   []account.Comparison `json:"compared"`
}

// comparedArms are the tests that have settled turns in both arms, oldest first.
func comparedArms(b account.Balance, tests []experiment.Experiment, policy string) []arms {
	all := []arms{}
	for _, x := range tests {
		if policy != "" && policy != x.Control && policy != x.Candidate {
			continue
		}
		a := arms{Experiment: x.ID, Control: x.Control, Candidate: x.Candidate}
		for _, d := range telling {
			if c, ok := b.Compare(x.Control, x.Candidate, d); ok {
				a.Compared = append(a.Compared, c)
			}
		}
		if len(a.Compared) > 0 {
			all = append(all, a)
		}
	}
	return all
}

func accountDocument(b account.Balance, compared []arms, asOf time.Time, policy string) map[string]any {
	settled := []account.Share{}
	for _, s := range b.Shares() {
		if policy == "" || policy == s.PolicyVersion {
			settled = append(settled, s)
		}
	}
	document := map[string]any{
		"balanced": b.Check() == nil, "read": b.Read, "records": b.Records,
		"turns_opened": b.Opened, "turns_settled": b.SettledTurns(), "turns_open": b.OpenTurns(),
		"settled": settled, "arms": compared, "as_of": nil,
	}
	if !asOf.IsZero() {
		document["as_of"] = asOf
	}
	return document
}

// printShares prints a line for each version and arm, and how the arms of the tests compare.
func printShares(out *Output, b account.Balance, compared []arms, asOf time.Time, policy string) error {
	type group struct{ version, arm string }
	var groups []group
	of, share := map[group]int64{}, map[group]map[ledger.Disposition]string{}
	for _, s := range b.Shares() {
		if policy != "" && policy != s.PolicyVersion {
			continue
		}
		g := group{s.PolicyVersion, s.Arm}
		if of[g] == 0 {
			groups, of[g], share[g] = append(groups, g), s.Of, map[ledger.Disposition]string{}
		}
		share[g][s.Disposition] = percent(s.Share)
	}
	if len(groups) == 0 {
		return nil
	}
	through := "not every partition has committed yet"
	if !asOf.IsZero() {
		through = "every partition is committed through " + minute(asOf) + " UTC"
	}
	out.Print("\nof the settled turns of each policy version and arm (log time: %s)", through)
	err := table(out.Out, func(line func(...any)) {
		header := []any{"policy version", "arm", "settled"}
		for _, d := range ledger.Dispositions {
			header = append(header, d)
		}
		line(header...)
		for _, g := range groups {
			cells := []any{g.version, orDash(g.arm), of[g]}
			for _, d := range ledger.Dispositions {
				cells = append(cells, orDash(share[g][d]))
			}
			line(cells...)
		}
	})
	for _, a := range compared {
		out.Print("\n%s: %s (control) | %s (candidate)", a.Experiment, a.Control, a.Candidate)
		for _, c := range a.Compared {
			out.Print("  %s: %s | %s, a difference of %+.2f points; by chance alone up to about ±%.2f", c.Disposition,
				percent(c.Control.Share), percent(c.Candidate.Share), 100*c.Difference, 100*c.Chance)
		}
	}
	return err
}

func percent(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

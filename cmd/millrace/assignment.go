package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"millrace/assignment"
	"millrace/ingest"
	"millrace/internal/unithash"
)

// AssignmentCommand is which checkpoint serves a unit.
type AssignmentCommand struct {
	Remote  `embed:""`
	Unit    AssignmentUnit    `cmd:"" default:"withargs" help:"Which checkpoint serves a unit, and by which rule. The default: millrace assignment UNIT."`
	Key     AssignmentKey     `cmd:"" help:"The public key of signed rulesets, for backends that evaluate by themselves."`
	Ruleset AssignmentRuleset `cmd:"" help:"The ruleset itself, its signature verified."`
}

// Help is what 'millrace assignment --help' adds.
func (*AssignmentCommand) Help() string {
	return `Asks the gateway as a backend does; docs/assignment.md shows how yours does it.

  millrace assignment user-17                                    a session that begins now
  millrace assignment user-17 --checkpoint base-0                one under way
  millrace assignment key                                        what your backend has to trust`
}

type AssignmentUnit struct {
	Unit       string `arg:"" help:"The unit, as your backend names it: a pseudonymous user or organisation id."`
	Checkpoint string `placeholder:"VERSION" help:"The checkpoint that the unit's session began with. Default: a new session."`
	Experiment string `placeholder:"ID" help:"The experiment that the session began in, if any."`
}

// assigned is the answer, with what led to it.
type assigned struct {
	Unit       string             `json:"unit"`
	Version    string             `json:"version"`
	Variant    assignment.Variant `json:"variant"`
	Experiment string             `json:"experiment,omitempty"`
	Arm        string             `json:"arm,omitempty"`
	ValidUntil string             `json:"valid_until,omitempty"`
	Rules      []assignmentRule   `json:"rules"` // in their order; the first that fits decides
}

type assignmentRule struct {
	Rule   string `json:"rule"` // hold_back, experiment, live
	Place  *int   `json:"place,omitempty"`
	Detail string `json:"detail"`
}

// Run asks.
func (c *AssignmentUnit) Run(ctx context.Context, out *Output, at *AssignmentCommand) error {
	if c.Unit == "" {
		return usagef("give a unit that isn't empty")
	}
	var answer struct {
		Value    string             `json:"value"`
		Variant  assignment.Variant `json:"variant"`
		Metadata struct {
			Experiment string `json:"experiment"`
			Arm        string `json:"arm"`
			ValidUntil string `json:"valid_until"`
		} `json:"metadata"`
	}
	question := map[string]any{"context": map[string]string{"targetingKey": c.Unit, "currentCheckpoint": c.Checkpoint, "currentExperiment": c.Experiment}}
	if err := at.call(ctx, http.MethodPost, "/ofrep/v1/evaluate/flags/"+url.PathEscape(ingest.FlagKey), question, &answer); err != nil {
		return err
	}
	rules, err := at.ruleset(ctx)
	if err != nil {
		return err
	}
	a := assigned{
		Unit: c.Unit, Version: answer.Value, Variant: answer.Variant, Experiment: answer.Metadata.Experiment, Arm: answer.Metadata.Arm,
		ValidUntil: answer.Metadata.ValidUntil, Rules: rulesFor(rules, c.Unit),
	}
	return report(out, a, a.print)
}

func (a assigned) print(w io.Writer) error {
	because := map[assignment.Variant]string{
		assignment.VariantLive:      "it is live",
		assignment.VariantHoldBack:  "the unit is held back on an older checkpoint, by " + a.Experiment,
		assignment.VariantControl:   "control arm of " + a.Experiment,
		assignment.VariantCandidate: "candidate arm of " + a.Experiment,
		assignment.VariantKept:      "the session began with it; it counts in no experiment",
	}[a.Variant]
	if a.Variant == assignment.VariantLive && a.Experiment != "" {
		because += ", and what the units held back by " + a.Experiment + " are compared with"
	}
	if until, err := time.Parse(time.RFC3339, a.ValidUntil); err == nil {
		because += ", until " + minute(until)
	}
	fmt.Fprintf(w, "%s is served %s: %s\n", a.Unit, a.Version, because)
	if a.Arm != "" {
		fmt.Fprintf(w, "report in turnStarted.context: experiment %s, arm %s\n", a.Experiment, a.Arm)
	}
	fmt.Fprintln(w, "rules, the first that fits:")
	return table(w, func(line func(...any)) {
		for i, r := range a.Rules {
			line(fmt.Sprintf("  %d %s", i+1, r.Rule), r.Detail)
		}
	})
}

// rulesFor says where the unit stands in each rule.
func rulesFor(r *assignment.Ruleset, unit string) []assignmentRule {
	const half = assignment.Buckets / 2
	rules := []assignmentRule{{Rule: "hold-back", Detail: "none"}, {Rule: "experiment", Detail: "none"}, {Rule: "live", Detail: r.Live}}
	arms := func(coverage int, control, candidate, salt string) (*int, string) {
		place, each := unithash.Bucket(salt, unit), (coverage+1)/2
		groups := "nobody is in it"
		if each > 0 {
			groups = fmt.Sprintf("0 … %s on %s, %s … %s on %s", thousands(int64(each-1)), control, thousands(half), thousands(int64(half+each-1)), candidate)
		}
		return &place, fmt.Sprintf("the unit has place %s of %s; %s", thousands(int64(place)), thousands(assignment.Buckets), groups)
	}
	if h := r.HoldBack; h != nil {
		place, text := arms(2*h.Buckets, h.Version, r.Live, h.Salt)
		rules[0] = assignmentRule{"hold-back", place, h.ID + ": " + text}
	}
	if x := r.Experiment; x != nil {
		place, text := arms(x.Coverage, x.Control, x.Candidate, x.Salt)
		rules[1] = assignmentRule{"experiment", place, fmt.Sprintf("%s, %s to %s: %s", x.ID, minute(x.StartsAt), minute(x.EndsAt), text)}
	}
	return rules
}

// signingKey is the server's public key.
type signingKey struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`
	Algorithm string `json:"algorithm"`
}

// ruleset fetches the server's and verifies it by the server's own key: what is shown is what a backend would read.
func (c *AssignmentCommand) ruleset(ctx context.Context) (*assignment.Ruleset, error) {
	var (
		key      signingKey
		document json.RawMessage
	)
	err := errors.Join(c.call(ctx, http.MethodGet, "/v1/ruleset/key", nil, &key), c.call(ctx, http.MethodGet, "/v1/ruleset", nil, &document))
	if err != nil {
		return nil, err
	}
	public, err := assignment.ParseKey(key.PublicKey)
	if err != nil {
		return nil, err
	}
	return assignment.Verify(document, public)
}

type AssignmentKey struct{}

// Run prints.
func (*AssignmentKey) Run(ctx context.Context, out *Output, at *AssignmentCommand) error {
	var key signingKey
	if err := at.call(ctx, http.MethodGet, "/v1/ruleset/key", nil, &key); err != nil {
		return err
	}
	return report(out, key, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, key.PublicKey)
		return err
	})
}

type AssignmentRuleset struct{}

// Run prints.
func (*AssignmentRuleset) Run(ctx context.Context, out *Output, at *AssignmentCommand) error {
	rules, err := at.ruleset(ctx)
	if err != nil {
		return err
	}
	return report(out, rules, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(rules)
	})
}

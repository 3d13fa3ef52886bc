package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/evals"
	"millrace/checkpoint/experiment"
	"millrace/checkpoint/gate"
	"millrace/checkpoint/release"
	"millrace/schemas/event"
)

// configure tells the workers of new policy versions, and writes a configuration that did not reach the log yet.
func (c *Control) configure(ctx context.Context, now time.Time) (bool, error) {
	last, err := experiment.Config(ctx, c.deps.DB)
	if err != nil || last == nil {
		return false, err // nothing adopted yet: the first configuration is a person's
	}
	ordinals, err := candidate.Ordinals(ctx, c.deps.DB)
	if err != nil {
		return false, err
	}
	if !maps.Equal(ordinals, last.PolicyOrdinals) {
		err := c.write(ctx, func(tx pgx.Tx) error {
			return experiment.Propose(ctx, tx, now, "a policy version was registered", func(next *event.ConfigAdopted) error {
				next.PolicyOrdinals = ordinals
				return nil
			})
		})
		if err != nil {
			return false, err
		}
	}
	return false, experiment.WriteConfig(ctx, c.deps.DB, c.deps.WriteControl, c.write, now)
}

// moveCandidate moves the candidate that is in flight by one step, or ends it when a step has missed its time.
func (c *Control) moveCandidate(ctx context.Context, now time.Time) (bool, error) {
	k, err := candidate.InFlight(ctx, c.deps.DB)
	if err != nil || k == nil {
		return false, err
	}
	switch k.State {
	case candidate.Training:
		return c.deadline(ctx, k, now, k.Ladder.SubmitBy, "no candidate was submitted")
	case candidate.Refused:
		return c.deadline(ctx, k, now, k.Ladder.SubmitBy, "refused, and not corrected: "+k.Reason)
	case candidate.Submitted:
		return c.verify(ctx, k, now)
	case candidate.Verified:
		if late, err := c.deadline(ctx, k, now, k.Ladder.EvalsBy, "not evaluated"); late || err != nil {
			return late, err
		}
		return true, c.append(ctx, k, candidate.Evaluating, now, c.suites())
	case candidate.Evaluating:
		return c.start(ctx, k, now)
	case candidate.Testing:
		return c.judge(ctx, k, now)
	default:
		return false, nil
	}
}

func (c *Control) append(ctx context.Context, k *candidate.Candidate, to candidate.State, now time.Time, reason string) error {
	c.deps.Log.Info("checkpoint: candidate moves on", "candidate", k.ID, "from", k.State, "to", to, "reason", reason)
	return c.write(ctx, func(tx pgx.Tx) error {
		return candidate.Append(ctx, tx, k.ID, to, now, candidate.Millrace, reason, nil)
	})
}

// deadline ends the candidate when the time is over.
func (c *Control) deadline(ctx context.Context, k *candidate.Candidate, now, by time.Time, what string) (bool, error) {
	if !now.After(by) {
		return false, nil
	}
	return true, c.append(ctx, k, candidate.TimedOut, now, fmt.Sprintf("%s by %s", what, by.Format(time.RFC3339)))
}

func (c *Control) verify(ctx context.Context, k *candidate.Candidate, now time.Time) (bool, error) {
	if late, err := c.deadline(ctx, k, now, k.Ladder.EvalsBy, "the files were not verified"); late || err != nil {
		return late, err
	}
	var refusal *candidate.Refusal
	note, err := candidate.Verify(ctx, c.weights, k.Submission)
	if errors.As(err, &refusal) {
		return true, c.append(ctx, k, candidate.Refused, now, fmt.Sprintf("%s: %s", refusal.Code, refusal.Message))
	}
	if err != nil {
		return false, fmt.Errorf("verify %s: %w", k.ID, err)
	}
	err = c.write(ctx, func(tx pgx.Tx) error {
		if err := candidate.Register(ctx, tx, k.Version, k.ID, now); err != nil {
			return err
		}
		return candidate.Append(ctx, tx, k.ID, candidate.Verified, now, candidate.Millrace, note, nil)
	})
	if errors.As(err, &refusal) {
		return true, c.append(ctx, k, candidate.Refused, now, fmt.Sprintf("%s: %s", refusal.Code, refusal.Message))
	}
	return err == nil, err
}

// start declares the experiment of an evaluated candidate and adopts it into the workers' configuration, then waits
// for its start. A declared one whose start was missed by a little is started late: less data, no bias.
func (c *Control) start(ctx context.Context, k *candidate.Candidate, now time.Time) (bool, error) {
	e, err := experiment.OfCandidate(ctx, c.deps.DB, k.ID)
	if err != nil {
		return false, err
	}
	if moved, err := c.liveMoved(ctx, k, candidate.Rejected, now); moved || err != nil {
		return moved, err
	}
	if e == nil {
		return c.evaluate(ctx, k, now)
	}
	if late, err := c.deadline(ctx, k, now, e.CountsUntil, "its test was not started while turns counted,"); late || err != nil {
		return late, err
	}
	var written bool
	err = c.deps.DB.QueryRow(ctx, `select written_at is not null from config order by seq desc limit 1`).Scan(&written)
	if err != nil {
		return false, fmt.Errorf("look whether the workers know %s: %w", e.ID, err)
	}
	paused, err := release.Paused(ctx, c.deps.DB)
	if err != nil || paused != nil || !written || now.Before(e.StartsAt) {
		return false, err
	}
	return true, c.append(ctx, k, candidate.Testing, now, fmt.Sprintf("%s, %g %% of units", e.ID, float64(e.Coverage)*100/experiment.Buckets))
}

// evaluate declares the test of a candidate that its offline suites let pass; one that failed is rejected, and one whose
// reports are missing waits for them until its time is over.
func (c *Control) evaluate(ctx context.Context, k *candidate.Candidate, now time.Time) (bool, error) {
	outcome := evals.Outcome{}
	if c.cfg.Suites != nil {
		reports, err := evals.Newest(ctx, c.deps.DB, k.Version, k.Base)
		if err != nil {
			return false, err
		}
		outcome = c.cfg.Suites.Decide(reports, k.Version, k.Base, now)
	}
	if len(outcome.Failed) > 0 {
		return true, c.append(ctx, k, candidate.Rejected, now, strings.Join(outcome.Failed, "; "))
	}
	paused, err := release.Paused(ctx, c.deps.DB)
	if err != nil {
		return false, err
	}
	missing := outcome.Missing
	if paused != nil {
		missing = append(missing, paused.String())
	}
	what := "its test was not declared"
	if len(missing) > 0 {
		what = "not ready for its test (" + strings.Join(missing, "; ") + ")"
	}
	if late, err := c.deadline(ctx, k, now, k.Ladder.StartsAt, what); late || err != nil {
		return late, err
	}
	if len(missing) > 0 {
		return false, nil
	}
	return true, c.declare(ctx, k, now)
}

// suites says what a candidate waits for while it is evaluated.
func (c *Control) suites() string {
	if c.cfg.Suites == nil {
		return "no suites configured"
	}
	var names []string
	for _, s := range c.cfg.Suites.Suites {
		names = append(names, s.Name)
	}
	return "suites: " + strings.Join(names, ", ")
}

// errNoConfig means that no reward spec is in force yet.
var errNoConfig = errors.New("no configuration is adopted yet; `millrace migrate` adopts the first one, with its reward spec")

func (c *Control) declare(ctx context.Context, k *candidate.Candidate, now time.Time) error {
	id := "exp" + k.ID[len("cand"):]
	// The window is what was frozen when the candidate was opened; the policy's share of it for turns to mature in.
	counts, ends := c.policy.Window(k.Ladder.StartsAt)
	e := experiment.Experiment{
		ID: id, CandidateID: k.ID, Control: k.Base, Candidate: k.Version, Salt: experiment.Salt(id, k.Submission.RootDigest),
		Coverage: experiment.CoverageOf(c.policy.Coverage), DeclaredAt: now, StartsAt: k.Ladder.StartsAt,
		CountsUntil: k.Ladder.EndsAt.Add(-ends.Sub(counts)), EndsAt: k.Ladder.EndsAt,
		SlowAfterMs: float64(c.cfg.SlowAfter) / float64(time.Millisecond), Policy: string(c.cfg.Policy),
	}
	return c.write(ctx, func(tx pgx.Tx) error {
		if err := experiment.Declare(ctx, tx, e); err != nil {
			return err
		}
		return experiment.Propose(ctx, tx, now, id+" is declared", func(next *event.ConfigAdopted) error {
			if next.RewardSpecDigest == "" {
				return errNoConfig
			}
			// The tests before this one are over: their turns have settled or don't count any more.
			next.Experiments = []*event.Experiment{e.Event()}
			return nil
		})
	})
}

// liveMoved ends a candidate whose base is not live any more: what it would be compared with serves nobody.
func (c *Control) liveMoved(ctx context.Context, k *candidate.Candidate, to candidate.State, now time.Time) (bool, error) {
	live, err := release.Live(ctx, c.deps.DB)
	if err != nil || live.Version == k.Base {
		return false, err
	}
	return true, c.append(ctx, k, to, now, fmt.Sprintf("live is %s since %s, no longer its base %s", live.Version, live.At.Format(time.RFC3339), k.Base))
}

// judge looks at the running test, and ends it with the gate's first final verdict.
func (c *Control) judge(ctx context.Context, k *candidate.Candidate, now time.Time) (bool, error) {
	if moved, err := c.liveMoved(ctx, k, candidate.Invalid, now); moved || err != nil {
		return moved, err
	}
	e, err := experiment.OfCandidate(ctx, c.deps.DB, k.ID)
	if err != nil {
		return false, err
	}
	through, err := experiment.CommittedThrough(ctx, c.deps.DB, c.cfg.Topic, c.cfg.Partitions)
	if err != nil {
		return false, err
	}
	overdue := now.After(k.Ladder.VerdictBy)
	ended := !through.Before(e.EndsAt)
	if c.test == e.ID && !ended && !overdue && through.Sub(c.looked) < c.cfg.EvaluateEvery {
		return false, nil // nothing new in the sums
	}
	policy, err := e.GatePolicy()
	if err != nil {
		return false, err
	}
	evidence, err := experiment.Evidence(ctx, c.deps.DB, e, c.cfg.Topic, c.cfg.Partitions, now)
	if err != nil {
		return false, err
	}
	frozen := gate.Freeze(policy, evidence)
	c.test, c.looked = e.ID, evidence.CommittedThrough
	if !frozen.Verdict.Decision.Final() {
		return c.deadline(ctx, k, now, k.Ladder.VerdictBy, fmt.Sprintf("no verdict (the log is committed through %s, the test ends at %s)",
			evidence.CommittedThrough.Format(time.RFC3339), e.EndsAt.Format(time.RFC3339)))
	}
	c.deps.Log.Info("checkpoint: verdict", "candidate", k.ID, "verdict", frozen.Verdict.Decision, "reasons", frozen.Verdict.Reasons)
	return true, c.write(ctx, func(tx pgx.Tx) error { return conclude(ctx, tx, k, frozen, now) })
}

// conclude freezes the verdict and does what it says, in one transaction.
func conclude(ctx context.Context, tx pgx.Tx, k *candidate.Candidate, r gate.Record, now time.Time) error {
	digest, err := experiment.Freeze(ctx, tx, k.ID, r, now)
	if err != nil {
		return err
	}
	reason := string(r.Verdict.Decision)
	if len(r.Verdict.Reasons) > 0 {
		reason += ": " + r.Verdict.Reasons[0]
	}
	paused, err := release.Paused(ctx, tx)
	if err != nil {
		return err
	}
	to := candidate.Held
	switch {
	case r.Verdict.Decision == gate.Rollback:
		to = candidate.RolledBack
	case r.Verdict.Decision == gate.Invalid:
		to = candidate.Invalid
	case r.Verdict.Decision == gate.Ship && r.Verdict.NeedsApproval:
		reason += "; the policy wants a person's approval: `millrace release promote " + k.ID + "`"
	case r.Verdict.Decision == gate.Ship && paused != nil:
		reason += "; " + paused.String() + ": `millrace release promote " + k.ID + "`"
	case r.Verdict.Decision == gate.Ship:
		return release.Promote(ctx, tx, k, digest, candidate.Millrace, reason, now)
	}
	return candidate.Append(ctx, tx, k.ID, to, now, candidate.Millrace, reason, nil)
}

// PromoteHeld makes a held candidate live by a person's decision; the verdict with the numbers they saw stays part of
// the record.
func PromoteHeld(ctx context.Context, tx pgx.Tx, id, who, why string, now time.Time) error {
	k, err := candidate.Get(ctx, tx, id)
	if err != nil {
		return err
	}
	if k.State != candidate.Held {
		return &candidate.TransitionError{Candidate: k.ID, From: k.State, To: candidate.Promoted}
	}
	frozen, err := experiment.VerdictOf(ctx, tx, k.ID)
	if err != nil {
		return err
	}
	return release.Promote(ctx, tx, k, frozen.SHA256, who, why, now)
}

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/release"
	"millrace/checkpoint/schedule"
)

// beginCut begins the cut that is due, or skips it with the reason. Before the first `release init` nothing is due:
// there is no version whose rows it would take.
func (c *Control) beginCut(ctx context.Context, now time.Time) (begun bool, err error) {
	err = c.write(ctx, func(tx pgx.Tx) error {
		anchor := c.cfg.Anchor
		if anchor.IsZero() {
			anchor = now.Add(c.cfg.Period)
		}
		if err := schedule.Ensure(ctx, tx, anchor, c.cfg.Period); err != nil {
			return err
		}
		plan, err := schedule.Lock(ctx, tx)
		if err != nil {
			return err
		}
		slot, due := plan.Due(now, plan.Last)
		if !due && plan.AskedBy == "" {
			return nil
		}
		live, err := release.Live(ctx, tx)
		if errors.Is(err, release.ErrNoLive) {
			return nil
		}
		if err != nil {
			return err
		}
		next := cut.Cut{DueAt: slot.Time, Cause: "schedule", Base: live.Version, Topic: c.cfg.Topic, Partitions: c.cfg.Partitions}
		if !due {
			next.DueAt, next.Cause = now, "asked by "+plan.AskedBy
		} else if now.Sub(slot.Time) > c.cfg.Ladder.MarkBy {
			// A catch-up: its steps count from now, or they would all be missed already.
			next.DueAt, next.Cause = now, fmt.Sprintf("schedule, caught up with %s", slot.Time.Format(time.RFC3339))
		}
		if next.Reason, err = busy(ctx, tx); err != nil {
			return err
		}
		if _, err := cut.Begin(ctx, tx, next); err != nil {
			return err
		}
		begun = true
		return schedule.Done(ctx, tx, slot.Time) // zero when only asked for
	})
	return begun, err
}

// busy says why no cut can be made now: nothing overlaps.
func busy(ctx context.Context, tx pgx.Tx) (string, error) {
	last, err := cut.InFlight(ctx, tx)
	if err != nil {
		return "", err
	}
	if last != nil {
		return fmt.Sprintf("%s is still %s: %s", last.ID, last.State, last.Reason), nil
	}
	tested, err := candidate.InFlight(ctx, tx)
	if err != nil || tested == nil {
		return "", err
	}
	return fmt.Sprintf("%s is still %s, until %s at the latest", tested.ID, tested.State, tested.Ladder.VerdictBy.Format(time.RFC3339)), nil
}

// moveCut moves the cut that is being made by one step.
func (c *Control) moveCut(ctx context.Context, now time.Time) (bool, error) {
	k, err := cut.InFlight(ctx, c.deps.DB)
	if err != nil || k == nil {
		return false, err
	}
	switch {
	case k.State == cut.Marking && k.MarkedAt == nil:
		if err := c.deps.WriteControl(ctx, k.Record()); err != nil {
			return false, fmt.Errorf("mark %s in the log: %w", k.ID, err)
		}
		return true, c.write(ctx, func(tx pgx.Tx) error { return cut.Marked(ctx, tx, k.ID, now) })
	case k.State == cut.Marking:
		return c.await(ctx, k, now)
	default:
		return c.pack(ctx, k, now)
	}
}

// await completes a cut when every partition has committed past its mark, and says after a while which have not.
func (c *Control) await(ctx context.Context, k *cut.Cut, now time.Time) (bool, error) {
	behind, err := cut.Behind(ctx, c.deps.DB, k)
	if err != nil {
		return false, err
	}
	if len(behind) == 0 {
		return true, c.write(ctx, func(tx pgx.Tx) error { return cut.Completed(ctx, tx, k.ID, now) })
	}
	if now.Before(k.DueAt.Add(c.cfg.Ladder.MarkBy)) || strings.HasSuffix(k.Reason, " "+strings.Join(behind, ", ")) {
		return false, nil
	}
	c.deps.Log.Warn("checkpoint: the cut waits for partitions", "cut", k.ID, "partitions", behind)
	return false, c.write(ctx, func(tx pgx.Tx) error { return cut.Wait(ctx, tx, k.ID, behind) })
}

// pack packs a complete cut and opens its candidate.
func (c *Control) pack(ctx context.Context, k *cut.Cut, now time.Time) (bool, error) {
	if by := k.DueAt.Add(c.cfg.Ladder.SubmitBy); now.After(by) {
		// Its candidate could only time out, and its rows would be gone with it.
		return true, c.skip(ctx, k, fmt.Sprintf("complete at %s only, a candidate had to be submitted by %s; its rows go to the next cut", now.Format(time.RFC3339), by.Format(time.RFC3339)))
	}
	packed, err := c.packer.Pack(ctx, k)
	if err != nil {
		return false, fmt.Errorf("pack %s: %w", k.ID, err)
	}
	if packed.Skip != "" {
		return true, c.skip(ctx, k, packed.Skip)
	}
	at := func(d time.Duration) time.Time { return k.DueAt.Add(d) }
	ladder := candidate.Ladder{SubmitBy: at(c.cfg.Ladder.SubmitBy), EvalsBy: at(c.cfg.Ladder.EvalsBy), StartsAt: at(c.cfg.Ladder.EvalsBy)}
	_, ladder.EndsAt = c.policy.Window(ladder.StartsAt)
	ladder.VerdictBy = ladder.EndsAt.Add(c.cfg.Ladder.VerdictFor)
	err = c.write(ctx, func(tx pgx.Tx) error {
		if err := cut.Finish(ctx, tx, k.ID, packed, now); err != nil {
			return err
		}
		return candidate.Open(ctx, tx, fmt.Sprintf("cand-%d", k.Number), k.ID, k.Base, now, ladder)
	})
	if err != nil {
		return false, err
	}
	c.deps.Log.Info("checkpoint: cut packed", "cut", k.ID, "rows", packed.Manifest.Taken, "parts", len(packed.Manifest.Parts), "on_policy", packed.Manifest.OnPolicy())
	return true, nil
}

func (c *Control) skip(ctx context.Context, k *cut.Cut, reason string) error {
	c.deps.Log.Info("checkpoint: cut skipped", "cut", k.ID, "reason", reason)
	return c.write(ctx, func(tx pgx.Tx) error { return cut.Skip(ctx, tx, k.ID, reason) })
}

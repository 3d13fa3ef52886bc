package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/release"
	"millrace/checkpoint/schedule"
	"millrace/internal/postgres"
)

// beginCut begins the cut that is due, or skips it with the reason. Before the first `release init` nothing is due:
// there is no version whose rows it would take.
func (c *Control) beginCut(ctx context.Context, now time.Time) (begun bool, err error) {
	err = c.write(ctx, func(tx pgx.Tx) error {
		plan, err := c.plan(ctx, tx, now)
		if err != nil {
			return err
		}
		live, err := release.Live(ctx, tx)
		if errors.Is(err, release.ErrNoLive) {
			if slot, due := plan.Due(now, 0); due {
				return schedule.Done(ctx, tx, slot.Time) // it passes by, or the first checkpoint would begin with a catch-up
			}
			return nil
		}
		if err != nil {
			return err
		}
		byRows, waiting := plan.ByRows.Rows > 0, int64(0)
		if byRows && !now.Before(plan.Earliest()) {
			if waiting, err = cut.Waiting(ctx, tx, c.cfg.Topic, live.Version); err != nil {
				return err
			}
		}
		slot, due := plan.Due(now, waiting)
		if !due && plan.AskedBy == "" {
			return nil
		}
		busy, err := c.makeWay(ctx, tx, now)
		if err != nil {
			return err
		}
		paused, err := release.Paused(ctx, tx)
		if err != nil {
			return err
		}
		if paused != nil {
			busy = paused.String()
		}
		if busy != "" && byRows && plan.AskedBy == "" {
			return nil // there is no slot to miss: it comes when the one before is over
		}
		if byRows && due {
			slot.Time = now
		}
		if _, err := cut.Begin(ctx, tx, c.next(plan, slot, due, waiting, live.Version, busy, now)); err != nil {
			return err
		}
		begun = true
		return schedule.Done(ctx, tx, slot.Time) // zero when only asked for
	})
	return begun, err
}

// plan brings the schedule up to the configuration and locks it.
func (c *Control) plan(ctx context.Context, tx pgx.Tx, now time.Time) (schedule.State, error) {
	anchor := c.cfg.Anchor
	if anchor.IsZero() {
		anchor = now.Add(c.cfg.Period)
	}
	cfg := schedule.Config{Anchor: anchor, Period: c.cfg.Period, Rows: c.cfg.CutAtRows, Most: c.cfg.MaxPeriod}
	if err := schedule.Ensure(ctx, tx, cfg, now); err != nil {
		return schedule.State{}, err
	}
	return schedule.Lock(ctx, tx, now)
}

// next is the cut that is due, or asked for, with its own steps of the ladder.
func (c *Control) next(plan schedule.State, slot schedule.Slot, due bool, waiting int64, base, busy string, now time.Time) cut.Cut {
	rules := c.cfg.Cut.Packing
	k := cut.Cut{DueAt: now, Base: base, Topic: c.cfg.Topic, Partitions: c.cfg.Partitions, Reason: busy, Packing: &rules}
	switch {
	case !due:
		k.Cause = "asked by " + plan.AskedBy
	case plan.ByRows.Rows > 0:
		k.Slot, k.Cause = &slot.Time, fmt.Sprintf("%d rows wait", waiting)
		if waiting < plan.ByRows.Rows {
			k.Cause = fmt.Sprintf("%s since the last cut, %d rows wait", plan.ByRows.Most, waiting)
		}
	default:
		k.Slot, k.DueAt, k.Cause = &slot.Time, slot.Time, "schedule"
		if now.Sub(slot.Time) > c.cfg.Ladder.MarkBy {
			// A catch-up: its steps count from now, or they would all be missed already.
			k.DueAt, k.Cause = now, fmt.Sprintf("schedule, caught up with %s", slot.Time.Format(time.RFC3339))
		}
		if slot.Missed > 0 {
			k.Cause += fmt.Sprintf(", %d missed before it", slot.Missed)
		}
	}
	if due && plan.AskedBy != "" {
		k.Cause += ", asked by " + plan.AskedBy + " too"
	}
	k.MarkBy, k.SubmitBy = k.DueAt.Add(c.cfg.Ladder.MarkBy), k.DueAt.Add(c.cfg.Ladder.SubmitBy)
	return k
}

// makeWay says why no cut can be made now: nothing overlaps. What was begun by a clock that was ahead, and was turned
// back, is ended: its times would hold up the cuts until the clock has come there again. A running test is ended if
// the configuration says so.
func (c *Control) makeWay(ctx context.Context, tx pgx.Tx, now time.Time) (busy string, err error) {
	ahead := func(t time.Time) bool { return t.After(now.Add(c.cfg.Ladder.MarkBy)) }
	const turnedBack = "begun by a clock that was ahead (%s) and was turned back (%s)"
	last, err := cut.InFlight(ctx, tx)
	if err != nil {
		return "", err
	}
	switch {
	case last == nil:
	case ahead(last.DueAt):
		why := fmt.Sprintf(turnedBack+"; its rows go to the next cut", last.DueAt.Format(time.RFC3339), now.Format(time.RFC3339))
		if err := cut.Skip(ctx, tx, last.ID, last.State, why); err != nil {
			return "", err
		}
	case last.Reason != "":
		return fmt.Sprintf("%s is still %s: %s", last.ID, last.State, last.Reason), nil
	default:
		return fmt.Sprintf("%s is still %s, until %s at the latest", last.ID, last.State, last.SubmitBy.Format(time.RFC3339)), nil
	}
	tested, err := candidate.InFlight(ctx, tx)
	if err != nil || tested == nil {
		return "", err
	}
	var why string
	switch {
	case ahead(tested.OpenedAt):
		why = fmt.Sprintf(turnedBack, tested.OpenedAt.Format(time.RFC3339), now.Format(time.RFC3339))
	case c.cfg.OnOpenExperiment == Supersede && tested.State == candidate.Testing:
		why = fmt.Sprintf("no verdict by %s, when the next cut was due: the test gives way to it", now.Format(time.RFC3339))
	default:
		return fmt.Sprintf("%s is still %s, until %s at the latest", tested.ID, tested.State, tested.Ladder.VerdictBy.Format(time.RFC3339)), nil
	}
	c.deps.Log.Info("checkpoint: candidate ended for the next cut", "candidate", tested.ID, "from", tested.State, "reason", why)
	return "", candidate.Append(ctx, tx, tested.ID, candidate.TimedOut, now, candidate.Millrace, why, nil)
}

// moveCut moves the cut that is being made by one step.
func (c *Control) moveCut(ctx context.Context, now time.Time) (bool, error) {
	k, err := cut.InFlight(ctx, c.deps.DB)
	if err != nil || k == nil {
		return false, err
	}
	switch {
	case k.State == cut.Marking && k.MarkedAt == nil:
		if now.After(k.SubmitBy) {
			return true, c.skip(ctx, k, fmt.Sprintf("its mark was not in the log by %s, when a candidate had to be submitted; its rows go to the next cut", k.SubmitBy.Format(time.RFC3339)))
		}
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
	waits := cut.Waits(behind)
	if now.After(k.SubmitBy) {
		// Its candidate could only time out. The next cut has a mark of its own.
		return true, c.skip(ctx, k, fmt.Sprintf("%s; by %s a candidate had to be submitted; its rows go to the next cut", waits, k.SubmitBy.Format(time.RFC3339)))
	}
	if now.Before(k.MarkBy) || k.Reason == waits {
		return false, nil
	}
	c.deps.Log.Warn("checkpoint: the cut waits for partitions", "cut", k.ID, "partitions", behind)
	return false, c.write(ctx, func(tx pgx.Tx) error { return cut.Wait(ctx, tx, k.ID, behind) })
}

// pack packs a complete cut and opens its candidate.
func (c *Control) pack(ctx context.Context, k *cut.Cut, now time.Time) (bool, error) {
	if now.After(k.SubmitBy) {
		// Its candidate could only time out, and its rows would be gone with it.
		by, what := k.SubmitBy.Format(time.RFC3339), fmt.Sprintf("complete at %s only", now.Format(time.RFC3339))
		if k.Reason != "" {
			what = "not packed: " + k.Reason
		}
		return true, c.skip(ctx, k, fmt.Sprintf("%s, a candidate had to be submitted by %s; its rows go to the next cut", what, by))
	}
	packed, err := c.packer.Pack(ctx, k)
	if err != nil {
		return false, errors.Join(fmt.Errorf("pack %s: %w", k.ID, err), c.failed(ctx, k, err))
	}
	if packed.Skip != "" {
		return true, c.skip(ctx, k, packed.Skip)
	}
	from := k.DueAt
	if now.Before(from) {
		from = now // the clock was turned back
	}
	at := from.Add
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
	return c.write(ctx, func(tx pgx.Tx) error { return cut.Skip(ctx, tx, k.ID, k.State, reason) })
}

// failed puts on record why a cut could not be packed, unless it was only stopped.
func (c *Control) failed(ctx context.Context, k *cut.Cut, why error) error {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(why, postgres.ErrFenced) || k.Reason == why.Error() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.StepFor)
	defer cancel()
	return c.write(ctx, func(tx pgx.Tx) error { return cut.Fails(ctx, tx, k.ID, why.Error()) })
}

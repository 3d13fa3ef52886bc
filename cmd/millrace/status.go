package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"millrace/checkpoint"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/experiment"
	"millrace/checkpoint/gate"
	"millrace/checkpoint/release"
	"millrace/distill/account"
	"millrace/internal/auth"
	"millrace/schemas/gatepolicy"
	"millrace/schemas/ledger"
	"millrace/schemas/metric"
	"millrace/web"
)

// addPage adds the page to a role. What it runs on, and notes, stand at its top.
func addPage(r *role, p *parts, words []string, now func() time.Time) error {
	guard := p.guard()
	page, err := web.New(web.Config{
		Status: func(ctx context.Context) (web.Status, error) {
			s, err := readStatus(ctx, p, now())
			if len(words) > 0 {
				s.Parts = words[:1]
			}
			if len(words) > 1 {
				s.Note = words[1]
			}
			return s, err
		},
		Admit: func(ctx context.Context, token string) (string, bool) {
			t, err := guard.Check(ctx, token)
			return auth.Digest(token), err == nil && t.Allows(auth.GatesRead)
		},
		Holds: func(ctx context.Context, digest string) bool {
			t, err := guard.CheckDigest(ctx, digest)
			return err == nil && t.Allows(auth.GatesRead)
		},
	})
	if err != nil {
		return err
	}
	h := page.Handler()
	for _, route := range []string{"GET /{$}", "GET /v1/status", "POST /login", "GET /assets/"} {
		r.handler[route] = h
	}
	return nil
}

// readStatus gathers the facts of the page from the tables.
func readStatus(ctx context.Context, p *parts, now time.Time) (web.Status, error) {
	s := web.Status{}
	cycle := func(ctx context.Context, p *parts, s *web.Status) error { return readCycle(ctx, p, s, now) }
	for _, part := range []func(context.Context, *parts, *web.Status) error{readLog, readLive, cycle, readTest} {
		if err := part(ctx, p, &s); err != nil {
			return s, fmt.Errorf("gathering the status: %w", err)
		}
	}
	return s, nil
}

// readLog reads the balances, the shards and what the partitions say.
func readLog(ctx context.Context, p *parts, s *web.Status) error {
	b, _, err := readAccount(ctx, p.pool, p.cfg.Topic)
	if err != nil {
		return err
	}
	s.Records = web.Records{
		Read: b.Read, Applied: b.Records[account.Applied], Amended: b.Records[account.Amended], Duplicate: b.Records[account.Duplicate],
		Orphan: b.Records[account.Orphan], Expired: b.Records[account.Expired], DeadLettered: b.Records[account.DeadLetter],
		Control: b.Records[account.Control],
	}
	s.Turns = web.Turns{Opened: b.Opened, Open: b.OpenTurns()}
	by := b.ByDisposition()
	for _, d := range ledger.Dispositions {
		if by[d] > 0 {
			s.Turns.Settled = append(s.Turns.Settled, web.Disposition{Name: string(d), Turns: by[d]})
		}
	}
	through, err := experiment.CommittedThrough(ctx, p.pool, p.cfg.Topic, p.cfg.Partitions)
	if err != nil {
		return err
	}
	s.LogTime = through
	err = p.pool.QueryRow(ctx, `select count(*), coalesce(sum(rows), 0), coalesce(sum(bytes), 0) from shard where kind = 'sample'`).
		Scan(&s.Shards.Count, &s.Shards.Rows, &s.Shards.Bytes)
	if err != nil {
		return err
	}
	rows, err := p.pool.Query(ctx, `select policy_version, sum(rows), sum(reward_sum) / nullif(sum(rows), 0) from shard
		where kind = 'sample' group by 1 order by min(log_time), 1`)
	if err != nil {
		return err
	}
	for rows.Next() {
		var r web.Reward
		if err := rows.Scan(&r.Version, &r.Turns, &r.Mean); err != nil {
			return err
		}
		s.Rewards = append(s.Rewards, r)
	}
	if rows.Err() != nil {
		return rows.Err()
	}
	rows, err = p.pool.Query(ctx, `select partition, halted from partition where topic = $1 and halted is not null order by partition`, p.cfg.Topic)
	if err != nil {
		return err
	}
	for rows.Next() {
		var partition int
		var reason string
		if err := rows.Scan(&partition, &reason); err != nil {
			return err
		}
		s.Alarms = append(s.Alarms, fmt.Sprintf("Partition %d is halted: %s. Mend the cause, then: millrace partition resume %d. A cut that waits for it: millrace cut go-on-without %d --why …", partition, reason, partition, partition))
	}
	return rows.Err()
}

func readLive(ctx context.Context, p *parts, s *web.Status) error {
	live, err := release.Live(ctx, p.pool)
	if errors.Is(err, release.ErrNoLive) {
		return nil
	}
	if err != nil {
		return err
	}
	s.Live = &web.Live{Version: live.Version, Since: live.At, Previous: live.Former, Reason: live.Why}
	return nil
}

// mostCycles are shown, the last ones.
const mostCycles = 10

// readCycle reads cuts, candidates and the schedule, oldest first.
func readCycle(ctx context.Context, p *parts, s *web.Status, now time.Time) error {
	cuts, err := cut.List(ctx, p.pool)
	if err != nil {
		return err
	}
	for _, c := range cuts[max(0, len(cuts)-mostCycles):] {
		x := web.Cut{ID: c.ID, At: c.DueAt, State: string(c.State), Base: c.Base, Reason: c.Reason}
		if c.PackedAt != nil {
			x.Rows = &c.Taken
		}
		s.Cuts = append(s.Cuts, x)
	}
	candidates, err := candidate.List(ctx, p.pool)
	if err != nil {
		return err
	}
	for _, c := range candidates[max(0, len(candidates)-mostCycles):] {
		s.Candidates = append(s.Candidates, web.Candidate{
			ID: c.ID, Version: c.Version, Cut: c.Cut, State: string(c.State), At: c.Events[len(c.Events)-1].At, Reason: c.Reason,
		})
	}
	where, err := checkpoint.ReadStatus(ctx, p.pool, p.cfg.Topic, now)
	if err != nil {
		return err
	}
	if where.Paused != nil {
		s.Alarms = append(s.Alarms, fmt.Sprintf("Since %s %s. No cut and no test begins: millrace release resume --why …", minute(where.Paused.At), where.Paused))
	}
	if where.NextCut != nil {
		s.NextCutAt = *where.NextCut
	}
	if where.Next != nil {
		s.Next = where.Next.String()
	}
	if r := where.ByRows; r != nil {
		s.ByRows = r.String()
	}
	return nil
}

// readTest reads the last experiment with its evidence so far, and the last verdict.
func readTest(ctx context.Context, p *parts, s *web.Status) error {
	all, err := experiment.List(ctx, p.pool)
	if err != nil || len(all) == 0 {
		return err
	}
	e := all[len(all)-1]
	frozen, err := experiment.VerdictOf(ctx, p.pool, e.CandidateID)
	var v gate.Verdict
	var evidence gate.Evidence
	switch {
	case err == nil:
		v, evidence = frozen.Record.Verdict, frozen.Record.Evidence
		s.Verdict = &web.Verdict{Candidate: e.CandidateID, Decision: string(v.Decision), At: frozen.At, Sentences: slices.Concat(v.Reasons, v.WouldChange)}
	case errors.Is(err, experiment.ErrNoVerdict):
		policy, err := gatepolicy.Parse([]byte(e.Policy))
		if err != nil {
			return err
		}
		evidence, err = experiment.Evidence(ctx, p.pool, &e, p.cfg.Topic, p.cfg.Partitions, s.LogTime)
		if err != nil {
			return err
		}
		v = gate.Evaluate(policy, evidence)
	default:
		return err
	}
	s.Experiment = &web.Experiment{
		ID: e.ID, Running: s.Verdict == nil, StartsAt: e.StartsAt, EndsAt: e.EndsAt,
		Control:   web.Arm{Version: e.Control, Units: v.Units.Control, Turns: settled(evidence.Metrics["incomplete"].Control)},
		Candidate: web.Arm{Version: e.Candidate, Units: v.Units.Candidate, Turns: settled(evidence.Metrics["incomplete"].Candidate)},
	}
	s.Experiment.SRM = splitOf(v)
	for _, f := range v.Metrics {
		s.Experiment.Metrics = append(s.Experiment.Metrics, metricOf(f))
	}
	return nil
}

// splitOf is the p value of the gate's own check of the split of exposed units; nil until there are some.
func splitOf(v gate.Verdict) *float64 {
	for _, c := range v.Checks {
		if c.Name == "split_exposed" && v.Units.Sum() > 0 {
			return &c.Value
		}
	}
	return nil
}

// settled is how many turns stand behind the sums of a metric that counts every settled turn once.
func settled(sums []gate.BucketSum) int64 {
	var n int64
	for _, b := range sums {
		n += b.Den
	}
	return n / metric.Millionth
}

// metricOf is a finding as the page shows it: positive is a benefit.
func metricOf(f gate.Finding) web.Metric {
	m := web.Metric{Name: f.Metric, Title: f.Title, Role: "watched", Unit: web.Percent}
	if f.Success {
		m.Role = "success"
	}
	if f.Guardrail {
		m.Role = "guardrail"
	}
	m.Control, m.Candidate = sideOf(f, f.Control), sideOf(f, f.Candidate)
	if !f.Observed {
		return m
	}
	lift, low, high := f.Change, f.ChangeLow, f.ChangeHigh
	if !f.HigherIsBetter {
		lift, low, high = -f.Change, -f.ChangeHigh, -f.ChangeLow
	}
	m.Lift, m.Low, m.High = &lift, &low, &high
	for _, t := range f.Tests {
		if t.Name == gate.Guardrail {
			margin := -t.Threshold
			m.Margin = &margin
		}
		if (t.Name == gate.Guardrail || t.Name == gate.Win) && t.Active {
			met := t.Met
			m.Passes = &met
		}
	}
	return m
}

// sideOf is an arm's value in the metric's own unit; nil without a denominator.
func sideOf(f gate.Finding, side gate.Side) *float64 {
	if side.Den == 0 {
		return nil
	}
	value := side.Value
	if f.Scale == metric.Log {
		value = math.Exp(value)
	}
	return &value
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/experiment"
	"millrace/checkpoint/gate"
	"millrace/checkpoint/release"
	"millrace/distill/account"
	"millrace/feed"
	"millrace/internal/arrowfile"
	"millrace/schemas/sample"
)

// summary is what a demo ends with: the facts, and whether every law held.
type summary struct {
	Balanced  bool     `json:"balanced"`
	Sessions  int64    `json:"sessions"`
	Records   int64    `json:"records"`
	Turns     int64    `json:"turns"`
	Settled   int64    `json:"settled"`
	Open      int64    `json:"open"`
	Shards    int64    `json:"shards"`
	Rows      int64    `json:"rows"`
	Cut       string   `json:"cut"`
	Candidate string   `json:"candidate"`
	Verdict   string   `json:"verdict"`
	Live      string   `json:"live"`
	Seed      uint64   `json:"seed"`
	Seconds   float64  `json:"seconds"`
	LogTime   string   `json:"log_time"` // how long the cycle took on the demo's clock, as in "3 h 33 min"
	Broken    []string `json:"broken_laws,omitempty"`
	sentences []string
}

// show writes the state of the cycle: on a terminal six lines over each other, elsewhere a line for each new thing.
func (d *demo) show(ctx context.Context, now time.Time) error {
	if d.out.JSON || now.Minute()%5 != 0 {
		return nil
	}
	if d.screen.terminal {
		status, err := readStatus(ctx, d.parts, d.clock.Now())
		if err != nil {
			return err
		}
		sessions := d.driver.Stats().Assigned
		status.Turns.Sessions, status.StartedAt, status.CycleHours = &sessions, d.start, demoHours
		d.screen.show(status.Lines()[1:]...)
		return nil
	}
	story, err := d.story(ctx)
	for _, line := range story {
		d.screen.milestone(line)
	}
	return err
}

// story is the cycle so far, a line for each thing that happened.
func (d *demo) story(ctx context.Context) ([]string, error) {
	var lines []string
	cuts, err := cut.List(ctx, d.pool)
	if err != nil || len(cuts) == 0 {
		return []string{"warm-up: traffic on the base alone"}, err
	}
	c := cuts[0]
	line := fmt.Sprintf("%s %s", c.ID, c.State)
	if c.State == cut.Packed {
		line = fmt.Sprintf("%s packed: %s rows of %s, %s tokens, from %s users", c.ID, thousands(c.Taken), c.Base, thousands(c.Tokens), thousands(c.Units))
	}
	lines = append(lines, line)
	cand, err := candidate.OfCut(ctx, d.pool, c.ID)
	if errors.Is(err, candidate.ErrNotFound) {
		return lines, nil
	}
	if err != nil {
		return nil, err
	}
	if cand.Submission != nil {
		line := fmt.Sprintf("%s submitted: trained on %s rows", cand.ID, thousands(cand.Submission.RowsTrained))
		if loss, kl := cand.Submission.Loss, cand.Submission.KL; loss != nil && kl != nil {
			line += fmt.Sprintf(", loss %.4f, kl %.4f", *loss, *kl)
		}
		lines = append(lines, line)
	}
	lines = append(lines, fmt.Sprintf("%s %s", cand.ID, cand.State))
	return lines, nil
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// finish checks every law on what the demo made, and prints the summary. It fails if one was broken.
func (d *demo) finish(ctx context.Context, took time.Duration, seed uint64) error {
	s, err := d.summarise(ctx)
	if err != nil {
		return err
	}
	s.Seconds, s.Seed = took.Round(time.Millisecond).Seconds(), seed
	s.LogTime = hoursAndMinutes(d.clock.Now().Sub(d.start))
	if d.out.JSON {
		if err := d.out.Object(s); err != nil {
			return err
		}
	} else {
		d.print(s)
	}
	if len(s.Broken) > 0 {
		return fmt.Errorf("a law was broken: %s", strings.Join(s.Broken, "; "))
	}
	return nil
}

func hoursAndMinutes(d time.Duration) string {
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

func (d *demo) print(s *summary) {
	d.out.Print("sessions %s  turns %s = %s settled + %s open   %s", thousands(s.Sessions), thousands(s.Turns), thousands(s.Settled), thousands(s.Open), map[bool]string{true: "balanced", false: "NOT BALANCED"}[s.Balanced])
	d.out.Print("records %s   shards %s with %s rows", thousands(s.Records), thousands(s.Shards), thousands(s.Rows))
	for _, line := range s.sentences {
		d.out.Print("%s", line)
	}
	if s.Verdict == string(gate.Ship) {
		d.out.Print("SHIP → live = %s      next: millrace gate explain %s", s.Live, s.Candidate)
	} else {
		d.out.Print("%s: live stays %s      next: millrace gate explain %s", s.Verdict, s.Live, s.Candidate)
	}
	d.out.Print("%s of log time in %.0f s (seed %d)", s.LogTime, s.Seconds, s.Seed)
}

// mostLooks bounds how often the facts are read again because a worker committed meanwhile. The traffic has ended, so
// workers come to the end of the log.
const mostLooks = 20

// summarise reads the facts back from where they were stored, and holds each law against them, all of it between two
// commits.
func (d *demo) summarise(ctx context.Context) (*summary, error) {
	for range mostLooks {
		before, each, err := readAccount(ctx, d.pool, d.cfg.Topic)
		if err != nil {
			return nil, err
		}
		s, err := d.look(ctx, before, each)
		if err != nil {
			return nil, err
		}
		after, _, err := readAccount(ctx, d.pool, d.cfg.Topic)
		if err != nil || after.Read == before.Read {
			return s, err
		}
	}
	return nil, errors.New("the workers went on committing after the traffic had ended")
}

func (d *demo) look(ctx context.Context, b account.Balance, each map[int32]account.Balance) (*summary, error) {
	s := &summary{Sessions: d.driver.Stats().Assigned, Balanced: true}
	for partition, one := range each {
		if err := one.Check(); err != nil {
			s.Balanced = false
			s.Broken = append(s.Broken, fmt.Sprintf("no seam: partition %d: %v", partition, err))
		}
	}
	s.Records, s.Turns, s.Settled, s.Open = b.Read, b.Opened, b.SettledTurns(), b.OpenTurns()
	for reason, n := range d.driver.Stats().Rejected {
		s.Broken = append(s.Broken, fmt.Sprintf("the door rejected %d simulated events as %s, for instance: %s", n, reason, d.driver.Stats().Example))
	}
	for _, law := range []func(context.Context, *summary) error{d.exactlyOnce, d.onPolicy, d.cutBalances, d.evidenceFrozen, d.published} {
		if err := law(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// exactlyOnce: every settled turn stands once in the ledger.
func (d *demo) exactlyOnce(ctx context.Context, s *summary) error {
	files, err := feed.LedgerFiles(ctx, d.pool)
	if err != nil {
		return err
	}
	turns := map[string]int{}
	for _, f := range files {
		body, err := d.store.Get(ctx, f.Key)
		if err != nil {
			return err
		}
		if arrowfile.SHA256(body) != f.SHA256 {
			s.Broken = append(s.Broken, "exactly once: "+f.Key+" is not what was committed")
		}
		ledgerRows, err := arrowfile.ReadLedger(body)
		if err != nil {
			return err
		}
		for i := range ledgerRows {
			if ledgerRows[i].Kind == "turn" {
				turns[ledgerRows[i].SessionID+"/"+ledgerRows[i].TurnID]++
			}
		}
	}
	for turn, n := range turns {
		if n > 1 {
			s.Broken = append(s.Broken, fmt.Sprintf("exactly once: turn %s stands %d times in the ledger", turn, n))
		}
	}
	if int64(len(turns)) != s.Settled {
		s.Broken = append(s.Broken, fmt.Sprintf("exactly once: %d turns settled, %d in the ledger", s.Settled, len(turns)))
	}
	return nil
}

// onPolicy: every trained token of a shard was generated by the shard's policy version, and they are as many as was
// committed.
func (d *demo) onPolicy(ctx context.Context, s *summary) error {
	type file struct {
		Key, Version  string
		Rows, Trained int64
	}
	rows, err := d.pool.Query(ctx, `select key, policy_version, rows, trained_tokens from shard where kind = 'sample'`)
	if err != nil {
		return err
	}
	files, err := pgx.CollectRows(rows, pgx.RowToStructByPos[file])
	if err != nil {
		return err
	}
	for _, f := range files {
		body, err := d.store.Get(ctx, f.Key)
		if err != nil {
			return err
		}
		_, samples, err := arrowfile.ReadShard(body)
		if err != nil {
			return err
		}
		s.Shards++
		s.Rows += int64(len(samples))
		if int64(len(samples)) != f.Rows {
			s.Broken = append(s.Broken, fmt.Sprintf("exactly once: %s holds %d rows, %d were committed", f.Key, len(samples), f.Rows))
		}
		by := trainedBy(samples)
		if len(by) != 1 || by[f.Version] != f.Trained {
			s.Broken = append(s.Broken, fmt.Sprintf("on-policy: %s is to hold %d trained tokens of %s; its spans name %v", f.Key, f.Trained, f.Version, by))
		}
	}
	return nil
}

// trainedBy counts trained tokens by the policy version that generated them, as the spans of the rows say; "" generated
// those that lie in no span.
func trainedBy(samples []sample.Row) map[string]int64 {
	by := map[string]int64{}
	for i := range samples {
		row := &samples[i]
		version := make([]string, row.Length())
		for _, span := range row.PolicyVersionSpans {
			for t := span.Start; t < span.End; t++ {
				version[t] = span.Version
			}
		}
		for t, trained := range row.LossMask {
			if trained == 1 {
				by[version[t]]++
			}
		}
	}
	return by
}

func (d *demo) cutBalances(ctx context.Context, s *summary) error {
	cuts, err := cut.List(ctx, d.pool)
	if err != nil || len(cuts) == 0 {
		return err
	}
	s.Cut = cuts[0].ID
	if err := cuts[0].Check(); err != nil {
		s.Broken = append(s.Broken, "no seam: "+err.Error())
	}
	return nil
}

// evidenceFrozen: the verdict comes out again from its frozen evidence, to the bit.
func (d *demo) evidenceFrozen(ctx context.Context, s *summary) error {
	c, err := candidate.OfCut(ctx, d.pool, s.Cut)
	if err != nil {
		return err
	}
	s.Candidate = c.ID
	frozen, err := experiment.VerdictOf(ctx, d.pool, c.ID)
	if errors.Is(err, experiment.ErrNoVerdict) {
		s.Verdict = string(c.State)
		s.sentences = []string{c.Reason}
		return nil
	}
	if err != nil {
		return err
	}
	v, err := frozen.Record.Recompute()
	if err != nil {
		s.Broken = append(s.Broken, "evidence is frozen: "+err.Error())
	}
	s.Verdict = string(v.Decision)
	s.sentences = append([]string{fmt.Sprintf("A/B %s | %s units, %s", thousands(v.Units.Control), thousands(v.Units.Candidate), ending(v))}, v.Reasons...)
	if v.Decision == gate.Hold {
		s.sentences = append(s.sentences, gate.Summary(v),
			fmt.Sprintf("what would tell, with such traffic: millrace gate plan --units %d", v.Units.Sum()))
	}
	return nil
}

// ending says how a test came to its end.
func ending(v gate.Verdict) string {
	switch {
	case v.Ended:
		return "to its declared end"
	case v.Decision == gate.Rollback:
		return "ended early, for harm"
	case v.Early:
		return "decided early"
	}
	return "ended early"
}

// published: the pointer in Postgres and the one in the object store agree.
func (d *demo) published(ctx context.Context, s *summary) error {
	live, err := release.Live(ctx, d.pool)
	if err != nil {
		return err
	}
	s.Live = live.Version
	body, err := d.store.Get(ctx, release.LiveKey)
	if err != nil {
		return fmt.Errorf("reading %s: %w", release.LiveKey, err)
	}
	if wrong := pointsElsewhere(body, live); wrong != "" {
		s.Broken = append(s.Broken, "publication: "+wrong)
	}
	return nil
}

// pointsElsewhere says how a pointer differs from the release that is live; empty if it doesn't.
func pointsElsewhere(body []byte, live *release.Release) string {
	var there release.Pointer
	if err := json.Unmarshal(body, &there); err != nil {
		return fmt.Sprintf("%s can't be read: %v", release.LiveKey, err)
	}
	if there.Version != live.Version || there.Seq != live.Seq {
		return fmt.Sprintf("Postgres says %s is live by release %d, %s says %s by %d", live.Version, live.Seq, release.LiveKey, there.Version, there.Seq)
	}
	return ""
}

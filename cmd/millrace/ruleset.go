package main

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/assignment"
	"millrace/ingest"
)

// newAssigner answers which checkpoint serves a unit, from what the control plane has decided.
func newAssigner(p *parts, clock func() time.Time) (*ingest.Assigner, error) {
	return ingest.NewAssigner(ingest.AssignConfig{Key: p.rulesetKey}, func(ctx context.Context) (assignment.Ruleset, error) {
		return readRuleset(ctx, p)
	}, clock, p.logger, p.registry)
}

// rulesetKey is the key that signs rulesets: derived from the control key, so that all gateways have the same one and
// nobody has to keep another secret. What backends know of it tells nothing of the control key.
func rulesetKey(controlKey []byte) ed25519.PrivateKey {
	mac := hmac.New(sha256.New, controlKey)
	mac.Write([]byte("millrace ruleset signing key 1"))
	return ed25519.NewKeyFromSeed(mac.Sum(nil))
}

// assignmentRow is a row of assignment_ruleset. What an older database doesn't have is missing in it.
type assignmentRow struct {
	Live       string     `json:"live"`
	Experiment string     `json:"experiment"`
	Salt       string     `json:"salt"`
	Coverage   float64    `json:"coverage"` // share of the units in the test now
	Control    string     `json:"control"`
	Candidate  string     `json:"candidate"`
	StartsAt   *time.Time `json:"starts_at"`
	EndsAt     *time.Time `json:"ends_at"`

	HoldBack        string `json:"hold_back"`
	HoldBackSalt    string `json:"hold_back_salt"`
	HoldBackBuckets int    `json:"hold_back_buckets"` // of 10,000, in each of its two groups
	HoldBackVersion string `json:"hold_back_version"`

	Kept []string `json:"kept"`
}

// readRuleset reads the live version, the hold-back, the test that runs or is about to, and the versions that sessions
// may end on: those that were live, and the candidates of tests that are over but not yet decided on. The list is
// bounded; no session lasts for a hundred releases.
func readRuleset(ctx context.Context, p *parts) (assignment.Ruleset, error) {
	var (
		r    assignment.Ruleset
		body []byte
		row  assignmentRow
	)
	err := p.pool.QueryRow(ctx, `
		select to_jsonb(a) || jsonb_build_object('kept', array(
			select v.version from policy_version v
			where (v.version in (select version from release) or v.candidate in (select candidate_id from experiment))
				and v.version <> all (a.withdrawn) and v.version is distinct from a.candidate and v.version <> a.live
			order by v.ordinal desc limit 100))
		from assignment_ruleset a`).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading what is live: %w", err)
	}
	if err := json.Unmarshal(body, &row); err != nil {
		return r, fmt.Errorf("reading what is live: %w", err)
	}
	r.Live, r.Kept = row.Live, row.Kept
	if row.Experiment != "" && row.StartsAt != nil && row.EndsAt != nil {
		r.Experiment = &assignment.Experiment{
			ID: row.Experiment, Salt: row.Salt, Coverage: int(math.Round(row.Coverage * assignment.Buckets)),
			Control: row.Control, Candidate: row.Candidate, StartsAt: row.StartsAt.UTC(), EndsAt: row.EndsAt.UTC(),
		}
	}
	if row.HoldBack != "" {
		r.HoldBack = &assignment.HoldBack{ID: row.HoldBack, Salt: row.HoldBackSalt, Buckets: row.HoldBackBuckets, Version: row.HoldBackVersion}
	}
	return r, nil
}

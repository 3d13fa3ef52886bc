package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/candidate"
	"millrace/internal/objstore"
)

// LiveKey is the pointer in the object store: a Pointer, replaced at every release.
const LiveKey = "live.json"

// ManifestKey is where a published checkpoint's manifest stands; it is written once.
func ManifestKey(version string) string { return "published/" + version + "/manifest.json" }

// Manifest says what a published checkpoint is made of.
type Manifest struct {
	Format    int    `json:"millrace.checkpoint"` // of this document: 1
	Version   string `json:"version"`
	Ordinal   int64  `json:"ordinal"`
	Candidate string `json:"candidate,omitempty"` // none: named by `release init`
	Cut       string `json:"cut,omitempty"`
	Base      string `json:"base,omitempty"`
	Evidence  string `json:"evidence,omitempty"` // SHA-256 of the verdict
	// Submission is what the trainer handed in: where the weights are, with every file's digest.
	Submission *candidate.Submission `json:"submission,omitempty"`
}

// Pointer is live.json, and the record on the checkpoint topic.
type Pointer struct {
	Release
	Manifest string `json:"manifest"` // key of the version's manifest
}

// Store is where checkpoints are published.
type Store interface {
	PutIfAbsent(ctx context.Context, key string, body []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	Replace(ctx context.Context, key string, body []byte) error
}

// Publisher tells the world of every release, in order, at least once each.
type Publisher struct {
	DB       Database
	Store    Store
	Write    func(context.Context, func(pgx.Tx) error) error              // a transaction that checks the leader's term
	Announce func(ctx context.Context, version string, body []byte) error // a record on the checkpoint topic, keyed by version
}

// Publish publishes the releases that are not recorded as published.
func (p *Publisher) Publish(ctx context.Context, now time.Time) error {
	history, err := History(ctx, p.DB)
	if err != nil {
		return err
	}
	for i := range history {
		if history[i].Published {
			continue
		}
		if err := p.publish(ctx, history[i], now); err != nil {
			return fmt.Errorf("publish release %d (%s): %w", history[i].Seq, history[i].Version, err)
		}
	}
	return nil
}

func (p *Publisher) publish(ctx context.Context, r Release, now time.Time) error {
	m, err := p.manifest(ctx, r.Version)
	if err != nil {
		return err
	}
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := p.Store.PutIfAbsent(ctx, ManifestKey(r.Version), body); err != nil {
		return err
	}
	r.Published = true
	pointer, err := json.Marshal(Pointer{Release: r, Manifest: ManifestKey(r.Version)})
	if err != nil {
		return err
	}
	if err := p.point(ctx, r.Seq, pointer); err != nil {
		return err
	}
	if err := p.Announce(ctx, r.Version, pointer); err != nil {
		return err
	}
	return p.Write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into publication (release, published_at) values ($1, $2) on conflict do nothing`, r.Seq, now.UTC())
		return err
	})
}

// point replaces live.json unless it is already at this release or a later one: a frozen process that wakes up must
// not turn it back.
func (p *Publisher) point(ctx context.Context, seq int64, body []byte) error {
	old, err := p.Store.Get(ctx, LiveKey)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	if err == nil {
		var there Pointer
		if err := json.Unmarshal(old, &there); err != nil {
			return fmt.Errorf("%s in the object store is not a pointer: %w", LiveKey, err)
		}
		if there.Seq >= seq {
			return nil
		}
	}
	return p.Store.Replace(ctx, LiveKey, body)
}

// manifest is a function of what the candidate's records say, so that every publication of a version is the same.
func (p *Publisher) manifest(ctx context.Context, version string) (*Manifest, error) {
	m := &Manifest{Format: 1, Version: version}
	var id *string
	err := p.DB.QueryRow(ctx, `select ordinal, candidate from policy_version where version = $1`, version).Scan(&m.Ordinal, &id)
	if err != nil {
		return nil, fmt.Errorf("read version %s: %w", version, err)
	}
	if id == nil {
		return m, nil
	}
	c, err := candidate.Get(ctx, p.DB, *id)
	if err != nil {
		return nil, err
	}
	m.Candidate, m.Cut, m.Base, m.Submission = c.ID, c.Cut, c.Base, c.Submission
	err = p.DB.QueryRow(ctx, `select coalesce((select sha256 from verdict where candidate = $1), '')`, c.ID).Scan(&m.Evidence)
	if err != nil {
		return nil, fmt.Errorf("read the verdict on %s: %w", c.ID, err)
	}
	return m, nil
}

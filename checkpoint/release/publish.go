package release

import (
	"bytes"
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

// Publisher tells the world of every release: the pointer of the newest, the announcements in order, at least once each.
type Publisher struct {
	DB       Database
	Store    Store
	Write    func(context.Context, func(pgx.Tx) error) error              // a transaction that checks the leader's term
	Announce func(ctx context.Context, version string, body []byte) error // a record on the checkpoint topic, keyed by version
}

// Publish lets live.json say what Postgres says, and announces the releases that are not recorded as published. The
// pointer comes first: neither a topic that is away nor an earlier release keeps it from the newest one. It is looked
// at every time, so that what a frozen process wrote when it woke up is put right by the next call.
func (p *Publisher) Publish(ctx context.Context, now time.Time) error {
	history, err := History(ctx, p.DB)
	if err != nil || len(history) == 0 {
		return err
	}
	newest := history[len(history)-1]
	if err := p.point(ctx, newest); err != nil {
		return fmt.Errorf("publish release %d (%s): %w", newest.Seq, newest.Version, err)
	}
	for _, r := range history {
		if r.Published {
			continue
		}
		if err := p.announce(ctx, r, now); err != nil {
			return fmt.Errorf("announce release %d (%s): %w", r.Seq, r.Version, err)
		}
	}
	return nil
}

// announce writes the version's manifest and the record of the release.
func (p *Publisher) announce(ctx context.Context, r Release, now time.Time) error {
	body, err := pointer(r)
	if err != nil {
		return err
	}
	if err := p.putManifest(ctx, r.Version); err != nil {
		return err
	}
	if err := p.Announce(ctx, r.Version, body); err != nil {
		return err
	}
	return p.Write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into publication (release, published_at) values ($1, $2) on conflict do nothing`, r.Seq, now.UTC())
		return err
	})
}

func pointer(r Release) ([]byte, error) {
	r.Published = true
	return json.Marshal(Pointer{Release: r, Manifest: ManifestKey(r.Version)})
}

// point replaces live.json unless it says this release or a later one. Between the look and the replacement this
// process may freeze and lose its term: whoever leads then puts it right.
func (p *Publisher) point(ctx context.Context, r Release) error {
	body, err := pointer(r)
	if err != nil {
		return err
	}
	old, err := p.Store.Get(ctx, LiveKey)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	var there Pointer
	if bytes.Equal(old, body) || json.Unmarshal(old, &there) == nil && there.Seq > r.Seq {
		return nil
	}
	if err := p.putManifest(ctx, r.Version); err != nil {
		return err
	}
	if err := p.Write(ctx, func(pgx.Tx) error { return nil }); err != nil { // still leading?
		return err
	}
	return p.Store.Replace(ctx, LiveKey, body)
}

func (p *Publisher) putManifest(ctx context.Context, version string) error {
	m, err := p.manifest(ctx, version)
	if err != nil {
		return err
	}
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return p.Store.PutIfAbsent(ctx, ManifestKey(version), body)
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

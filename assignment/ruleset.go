package assignment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/internal/unithash"
)

const (
	// Format names the document and its version.
	Format = "millrace.ruleset/1"
	// HashVersion names how a unit's place is computed: FNV-1a 32 of the decimal digits of FNV-1a 32 of salt and unit
	// (UTF-8), modulo 10,000. It is GrowthBook's version 2.
	HashVersion = 2
	// Buckets is how many places there are: one is 0.01 % of the units.
	Buckets = unithash.Buckets
)

// Ruleset is what decides which checkpoint serves a unit.
type Ruleset struct {
	Format      string      `json:"format"`
	HashVersion int         `json:"hash_version"`
	IssuedAt    time.Time   `json:"issued_at"`
	ValidUntil  time.Time   `json:"valid_until"` // from then on it decides nothing: what was promoted or rolled back since isn't in it
	Live        string      `json:"live"`        // the live policy version
	HoldBack    *HoldBack   `json:"hold_back,omitempty"`
	Experiment  *Experiment `json:"experiment,omitempty"`
	Kept        []string    `json:"kept"` // further versions that sessions may end on
}

// HoldBack keeps some units on a checkpoint that was frozen days ago, against slow creep. Its two groups are of the same
// size, and neither takes part in experiments: places [0, Buckets) stay on Version (arm control), and places
// [5,000, 5,000 + Buckets), served the live version, are what they are compared with (arm candidate).
type HoldBack struct {
	ID      string `json:"id"`      // reported as the experiment
	Salt    string `json:"salt"`    // the same as long as the hold-back lasts
	Buckets int    `json:"buckets"` // in each group, 1 … 5,000; 500 are 5 % of the units
	Version string `json:"version"`
}

// Experiment is a test of a candidate against the live version. The arms are half and half inside the coverage: control
// has the places [0, Coverage/2), candidate [5,000, 5,000 + Coverage/2), so that more coverage only adds units.
type Experiment struct {
	ID        string    `json:"id"`
	Salt      string    `json:"salt"`     // fresh for every experiment
	Coverage  int       `json:"coverage"` // of the 10,000 places, 0 … 10,000
	Control   string    `json:"control"`  // policy versions
	Candidate string    `json:"candidate"`
	StartsAt  time.Time `json:"starts_at"` // nobody is assigned by it before …
	EndsAt    time.Time `json:"ends_at"`   // … or from this moment on
}

// Variant says by which rule a unit was assigned.
type Variant string

// The variants.
const (
	VariantLive      Variant = "live"      // no rule but the last: what is live
	VariantHoldBack  Variant = "hold_back" // held back on an older checkpoint
	VariantControl   Variant = "control"   // in an experiment, on what is live
	VariantCandidate Variant = "candidate" // in an experiment, on the candidate
	VariantKept      Variant = "kept"      // a session goes on with the checkpoint that it began with, outside any experiment
	VariantDefault   Variant = "default"   // nothing could be decided: the caller's own
)

// Variants are all that a ruleset can give.
var Variants = []Variant{VariantLive, VariantHoldBack, VariantControl, VariantCandidate, VariantKept}

// The arms, as a backend reports them in TurnStarted.
const (
	ArmControl   = "control"
	ArmCandidate = "candidate"
)

// Assignment is the answer for a unit. Experiment and Arm are both empty outside experiments and the hold-back.
type Assignment struct {
	Version    string // the policy version to serve
	Variant    Variant
	Experiment string
	Arm        string
	ValidUntil time.Time // of the experiment's; zero: as long as the ruleset says so
}

// Query asks for a unit. A session under way says what it is on, and keeps it; a new one leaves both empty.
type Query struct {
	Unit       string // pseudonymous id of a user or organisation: what is randomised
	Checkpoint string // the version that the session began with
	Experiment string // the experiment that it began in, if any
}

// What callers tell apart.
var (
	ErrMalformed   = errors.New("malformed ruleset")
	ErrUnsupported = errors.New("ruleset of another version")
	ErrSignature   = errors.New("ruleset is not signed by a trusted key")
	ErrExpired     = errors.New("ruleset has expired")
	ErrNoRuleset   = errors.New("no ruleset so far")
	ErrNoUnit      = errors.New("no unit given")
)

// Validate checks a ruleset: ErrUnsupported or ErrMalformed.
func (r *Ruleset) Validate() error {
	if r.Format != Format || r.HashVersion != HashVersion {
		return fmt.Errorf("%w: format %q, hash version %d; this reads %q and %d", ErrUnsupported, r.Format, r.HashVersion, Format, HashVersion)
	}
	wrong := ""
	switch h, x := r.HoldBack, r.Experiment; {
	case r.Live == "":
		wrong = "nothing is live"
	case r.ValidUntil.IsZero():
		wrong = "valid_until is missing"
	case h != nil && (h.ID == "" || h.Salt == "" || h.Version == ""):
		wrong = "hold_back: id, salt and version are all needed"
	case h != nil && (h.Buckets < 1 || h.Buckets > Buckets/2):
		wrong = fmt.Sprintf("hold_back: %d buckets, want 1 … %d", h.Buckets, Buckets/2)
	case x != nil && (x.ID == "" || x.Salt == "" || x.Control == "" || x.Candidate == ""):
		wrong = "experiment: id, salt, control and candidate are all needed"
	case x != nil && (x.Coverage < 0 || x.Coverage > Buckets):
		wrong = fmt.Sprintf("experiment: coverage %d, want 0 … %d", x.Coverage, Buckets)
	case x != nil && (x.StartsAt.IsZero() || x.EndsAt.IsZero()):
		wrong = "experiment: starts_at and ends_at are both needed"
	}
	if wrong != "" {
		return fmt.Errorf("%w: %s", ErrMalformed, wrong)
	}
	return nil
}

// Assign says which checkpoint serves the unit at this time: ErrExpired, or ErrNoUnit.
func (r *Ruleset) Assign(q Query, now time.Time) (Assignment, error) {
	if !now.Before(r.ValidUntil) {
		return Assignment{}, fmt.Errorf("%w: it was valid until %s", ErrExpired, r.ValidUntil.UTC().Format(time.RFC3339))
	}
	return r.Decide(q, now)
}

// Decide is Assign whatever the ruleset's age, for a gateway that answers with the last one it has. The error is ErrNoUnit.
func (r *Ruleset) Decide(q Query, now time.Time) (Assignment, error) {
	if q.Unit == "" {
		return Assignment{}, ErrNoUnit
	}
	fresh := r.fresh(q.Unit, now)
	switch {
	case q.Checkpoint == "" || q.Checkpoint == fresh.Version && q.Experiment == fresh.Experiment:
		return fresh, nil
	case q.Checkpoint == fresh.Version || r.Serves(q.Unit, q.Checkpoint):
		// Whether it counts in an experiment was settled when the session began, or one arm would gain the sessions
		// from before the experiment, and the other not.
		return Assignment{Version: q.Checkpoint, Variant: VariantKept}, nil
	}
	return fresh, nil
}

// fresh is what a new session gets: hold-back, then experiment, then live.
func (r *Ruleset) fresh(unit string, now time.Time) Assignment {
	if h := r.HoldBack; h != nil {
		switch arm(h.Salt, unit, 2*h.Buckets) {
		case ArmControl:
			return Assignment{Version: h.Version, Variant: VariantHoldBack, Experiment: h.ID, Arm: ArmControl}
		case ArmCandidate:
			return Assignment{Version: r.Live, Variant: VariantLive, Experiment: h.ID, Arm: ArmCandidate}
		}
	}
	if x := r.Experiment; x != nil && !now.Before(x.StartsAt) && now.Before(x.EndsAt) {
		switch arm(x.Salt, unit, x.Coverage) {
		case ArmControl:
			return Assignment{Version: x.Control, Variant: VariantControl, Experiment: x.ID, Arm: ArmControl, ValidUntil: x.EndsAt}
		case ArmCandidate:
			return Assignment{Version: x.Candidate, Variant: VariantCandidate, Experiment: x.ID, Arm: ArmCandidate, ValidUntil: x.EndsAt}
		}
	}
	return Assignment{Version: r.Live, Variant: VariantLive}
}

// arm is the unit's in a layer; empty if it is outside the coverage. Whole numbers only: the arms are of exactly the
// same size, in every language.
func arm(salt, unit string, coverage int) string {
	switch place := unithash.Bucket(salt, unit); {
	case 2*place < coverage:
		return ArmControl
	case place >= Buckets/2 && 2*(place-Buckets/2) < coverage:
		return ArmCandidate
	}
	return ""
}

// Serves says whether a session of the unit may go on with the version: it is live, one that sessions may end on, or the
// candidate of the unit's own arm. What was withdrawn isn't served to anybody.
func (r *Ruleset) Serves(unit, version string) bool {
	if version == r.Live || slices.Contains(r.Kept, version) {
		return true
	}
	if h := r.HoldBack; h != nil && version == h.Version {
		return true
	}
	x := r.Experiment
	return x != nil && version == x.Candidate && arm(x.Salt, unit, x.Coverage) == ArmCandidate
}

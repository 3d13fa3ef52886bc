package adoption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/experiment"
	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

// Request is what a reward engineer asks for. Everything in it replaces what is in force.
type Request struct {
	Spec              string `json:"spec"`                         // the reward spec document, YAML
	Baseline          string `json:"baseline,omitempty"`           // the baseline document, JSON; empty: v0
	ClassifierVersion string `json:"classifier_version,omitempty"` // of the judge whose verdicts count; empty: all count
	Why               string `json:"why"`
	// Replaces is the digest of the spec in force that the request was made against; empty: whichever it is.
	Replaces string `json:"replaces,omitempty"`
	// DuringTest lets settle_after change although an A/B test runs.
	DuringTest bool `json:"during_test,omitempty"`
}

// InForce is a reward as a configuration has it.
type InForce struct {
	Seq               uint64    `json:"seq"` // of the configuration that brought it
	Spec              string    `json:"spec"`
	SpecDigest        string    `json:"spec_digest"`
	Baseline          string    `json:"baseline"` // its version
	BaselineDigest    string    `json:"baseline_digest,omitempty"`
	ClassifierVersion string    `json:"classifier_version,omitempty"`
	AdoptedAt         time.Time `json:"adopted_at"`
	Why               string    `json:"why"`
	InLog             bool      `json:"in_log"` // the workers have been told
}

// Documents are those of an InForce as they were adopted.
type Documents struct {
	Spec     string `json:"spec"`
	Baseline string `json:"baseline,omitempty"`
}

// Conflict is a request that the state of things forbids.
type Conflict struct{ Message string }

func (e *Conflict) Error() string { return e.Message }

// Invalid is a document that can't be adopted.
type Invalid struct {
	Field   string // spec, baseline, why
	Message string
}

func (e *Invalid) Error() string { return e.Message }

// ErrNone means that nothing was adopted yet.
var ErrNone = errors.New("no reward spec is in force; `millrace migrate` adopts the first one")

// Adopt writes the documents to the store, and then proposes the configuration that refers to them. The loop writes it
// into the log at its next pass; adopting the same again changes nothing.
func Adopt(ctx context.Context, db experiment.Database, store objstore.Store, tx func(func(pgx.Tx) error) error, q *Request, who string, now time.Time) (*InForce, error) {
	spec, err := rewardspec.Parse([]byte(q.Spec))
	if err != nil {
		return nil, &Invalid{"spec", err.Error()}
	}
	if strings.TrimSpace(q.Why) == "" {
		return nil, &Invalid{"why", "why is missing: a change of the reward needs a reason on record"}
	}
	baseline := rewardspec.BaselineV0()
	if q.Baseline != "" {
		if baseline, err = rewardspec.ParseBaseline([]byte(q.Baseline)); err != nil {
			return nil, &Invalid{"baseline", err.Error()}
		}
	}
	specDigest, baselineDigest := arrowfile.SHA256([]byte(q.Spec)), ""
	if q.Baseline != "" {
		baselineDigest = arrowfile.SHA256([]byte(q.Baseline))
	}
	for _, document := range []string{q.Spec, q.Baseline} {
		if document == "" {
			continue
		}
		if err := store.PutIfAbsent(ctx, objstore.DocumentKey(arrowfile.SHA256([]byte(document))), []byte(document)); err != nil {
			return nil, fmt.Errorf("store the document: %w", err)
		}
	}
	err = tx(func(tx pgx.Tx) error {
		return experiment.Propose(ctx, tx, now, fmt.Sprintf("%s by %s: %s", spec.ID(), who, q.Why), func(next *event.ConfigAdopted) error {
			if q.Replaces != "" && next.GetRewardSpecDigest() != q.Replaces {
				return &Conflict{fmt.Sprintf("the spec in force is %s (%s), not the one that this was made against (%s); look again", next.GetRewardSpecName(), next.GetRewardSpecDigest(), q.Replaces)}
			}
			past, err := History(ctx, tx, store)
			if err != nil {
				return err
			}
			if len(past) == 0 {
				return ErrNone
			}
			if err := taken(past, spec.ID(), specDigest, baseline.Version, baselineDigest); err != nil {
				return err
			}
			before, err := Read(ctx, store, past[len(past)-1])
			if err != nil {
				return err
			}
			if err := duringTest(next, before, spec, q.DuringTest, now); err != nil {
				return err
			}
			next.RewardSpecDigest, next.RewardSpecName = specDigest, spec.ID()
			next.BaselineDigest, next.ClassifierVersion = baselineDigest, q.ClassifierVersion
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return Current(ctx, db, store)
}

// taken refuses a version that stood for other content: rows name their spec and baseline by it.
func taken(past []InForce, spec, specDigest, baseline, baselineDigest string) error {
	for _, p := range past {
		if p.Spec == spec && p.SpecDigest != specDigest {
			return &Conflict{fmt.Sprintf("%s was adopted before with other content (%s); raise its version", p.Spec, p.SpecDigest)}
		}
		if p.Baseline == baseline && p.BaselineDigest != baselineDigest {
			return &Conflict{fmt.Sprintf("baseline %s was adopted before with other content; give it another version", p.Baseline)}
		}
	}
	return nil
}

// duringTest refuses to change when turns settle while an A/B test counts them: its arms would be measured by two
// yardsticks, one before and one after.
func duringTest(config *event.ConfigAdopted, before *Documents, spec *rewardspec.Spec, allowed bool, now time.Time) error {
	old, err := rewardspec.Parse([]byte(before.Spec))
	if err != nil || allowed || old.SettleAfter == spec.SettleAfter {
		return err
	}
	for _, x := range config.GetExperiments() {
		if now.Before(x.GetEndsAt().AsTime()) {
			return &Conflict{fmt.Sprintf("%s runs until %s, and settle_after would change from %s to %s under it; wait, or allow it (during_test)",
				x.GetId(), x.GetEndsAt().AsTime().Format(time.RFC3339), old.SettleAfter, spec.SettleAfter)}
		}
	}
	return nil
}

// Current is what is in force.
func Current(ctx context.Context, db experiment.Database, store objstore.Store) (*InForce, error) {
	all, err := History(ctx, db, store)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, ErrNone
	}
	return &all[len(all)-1], nil
}

// History is every reward that was in force, the first one first.
func History(ctx context.Context, db experiment.Database, store objstore.Store) ([]InForce, error) {
	rows, err := db.Query(ctx, `select document, why, adopted_at, written_at is not null from config order by seq`)
	if err != nil {
		return nil, fmt.Errorf("read the configurations: %w", err)
	}
	var (
		all  []InForce
		body []byte
		next InForce
	)
	if _, err := pgx.ForEachRow(rows, []any{&body, &next.Why, &next.AdoptedAt, &next.InLog}, func() error {
		c := &event.ConfigAdopted{}
		if err := c.UnmarshalVT(body); err != nil {
			return err
		}
		if n := len(all); n > 0 && same(&all[n-1], c) {
			all[n-1].InLog = all[n-1].InLog || next.InLog // a later configuration told of it too
			return nil
		}
		next.Seq, next.Spec, next.SpecDigest = c.GetSeq(), c.GetRewardSpecName(), c.GetRewardSpecDigest()
		next.BaselineDigest, next.ClassifierVersion, next.AdoptedAt = c.GetBaselineDigest(), c.GetClassifierVersion(), next.AdoptedAt.UTC()
		all = append(all, next)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the configurations: %w", err)
	}
	versions := map[string]string{"": rewardspec.BaselineV0().Version}
	for i := range all {
		digest := all[i].BaselineDigest
		if _, known := versions[digest]; !known {
			document, err := store.Get(ctx, objstore.DocumentKey(digest))
			if err != nil {
				return nil, fmt.Errorf("read the baseline of configuration %d: %w", all[i].Seq, err)
			}
			b, err := rewardspec.ParseBaseline(document)
			if err != nil {
				return nil, fmt.Errorf("read the baseline of configuration %d: %w", all[i].Seq, err)
			}
			versions[digest] = b.Version
		}
		all[i].Baseline = versions[digest]
	}
	return all, nil
}

func same(a *InForce, c *event.ConfigAdopted) bool {
	return a.SpecDigest == c.GetRewardSpecDigest() && a.BaselineDigest == c.GetBaselineDigest() && a.ClassifierVersion == c.GetClassifierVersion()
}

// Read reads the documents of what is or was in force.
func Read(ctx context.Context, store objstore.Store, f InForce) (*Documents, error) {
	spec, err := store.Get(ctx, objstore.DocumentKey(f.SpecDigest))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Spec, err)
	}
	d := &Documents{Spec: string(spec)}
	if f.BaselineDigest != "" {
		baseline, err := store.Get(ctx, objstore.DocumentKey(f.BaselineDigest))
		if err != nil {
			return nil, fmt.Errorf("read baseline %s: %w", f.Baseline, err)
		}
		d.Baseline = string(baseline)
	}
	return d, nil
}

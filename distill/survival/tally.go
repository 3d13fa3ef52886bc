package survival

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"millrace/distill/correlation"
	"millrace/schemas/ledger"
)

// The observations that count lie a week behind the turn, by log time from its settling to the amendment's, give or
// take a day. Later ones meet a turn that the engine no longer remembers (8 days by default).
const (
	After = 7 * 24 * time.Hour
	Give  = 24 * time.Hour
)

// Tally gathers turns and what was observed of their edits later. Rows may come in any order, and again.
type Tally struct {
	turns        map[turn]settled
	observations map[observation]observed
}

type turn struct{ session, id string }

type settled struct {
	version string
	reward  float64
	at      time.Time
}

// observation is the key that makes amendments a set.
type observation struct {
	turn            turn
	source, eventID string
}

type observed struct {
	left float64
	at   time.Time
}

// New is a tally of nothing.
func New() *Tally {
	return &Tally{turns: map[turn]settled{}, observations: map[observation]observed{}}
}

// Add takes rows of the ledger: turns with a reward, and amendments that say what is left of an edit.
func (t *Tally) Add(rows []ledger.Row) {
	for i := range rows {
		r := &rows[i]
		of := turn{r.SessionID, r.TurnID}
		switch retention := r.Signal("edits.retention"); {
		case r.Kind == ledger.Turn && r.Reward.Known:
			t.turns[of] = settled{r.PolicyVersion, r.Reward.Number, r.SettledAt}
		case r.Kind == ledger.Amendment && r.EventBody == "edit_observed" && retention.Known:
			key := observation{of, r.Source, r.EventID}
			if first, again := t.observations[key]; !again || r.SettledAt.Before(first.at) {
				t.observations[key] = observed{retention.Number, r.SettledAt}
			}
		}
	}
}

// Correlation is that of the reward with the survival of the edits, over the turns of one policy version.
type Correlation struct {
	PolicyVersion string   `json:"policy_version"`
	Turns         int      `json:"turns"`    // with a reward and an observation a week later
	Reward        float64  `json:"reward"`   // their mean
	Survival      float64  `json:"survival"` // mean share of the edits that is left, 0…1
	Pearson       *float64 `json:"pearson"`  // null: fewer than three turns, or all alike in one of the two
	Spearman      *float64 `json:"spearman"` // the same of the ranks; equal values share their mean rank
}

// Correlations are those of all policy versions that have a turn with an observation, by version. A turn's survival is
// the mean over its observations.
func (t *Tally) Correlations() []Correlation {
	type mean struct {
		sum float64
		n   int
	}
	left := map[turn]mean{}
	// In the order of their keys: a sum of floats depends on it.
	for _, key := range slices.SortedFunc(maps.Keys(t.observations), observation.compare) {
		o, s := t.observations[key], t.turns[key.turn]
		if age := o.at.Sub(s.at); s.at.IsZero() || age < After-Give || age > After+Give {
			continue
		}
		m := left[key.turn]
		left[key.turn] = mean{m.sum + o.left, m.n + 1}
	}
	rewards, survivals := map[string][]float64{}, map[string][]float64{}
	for _, key := range slices.SortedFunc(maps.Keys(left), turn.compare) {
		s := t.turns[key]
		rewards[s.version] = append(rewards[s.version], s.reward)
		survivals[s.version] = append(survivals[s.version], left[key].sum/float64(left[key].n))
	}
	out := []Correlation{}
	for _, version := range slices.Sorted(maps.Keys(rewards)) {
		x, y := rewards[version], survivals[version]
		out = append(out, Correlation{
			PolicyVersion: version, Turns: len(x), Reward: stat.Mean(x, nil), Survival: stat.Mean(y, nil),
			Pearson: correlation.Pearson(x, y), Spearman: correlation.Spearman(x, y),
		})
	}
	return out
}

func (t turn) compare(o turn) int {
	return cmp.Or(cmp.Compare(t.session, o.session), cmp.Compare(t.id, o.id))
}

func (k observation) compare(o observation) int {
	return cmp.Or(k.turn.compare(o.turn), cmp.Compare(k.source, o.source), cmp.Compare(k.eventID, o.eventID))
}

package rehearsal

import (
	"cmp"
	"fmt"
	"math"

	"millrace/distill/engine"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// Outcome is what became of the turn that counts.
type Outcome struct {
	Disposition ledger.Disposition `json:"disposition"`
	Reason      string             `json:"reason,omitempty"`
	Reward      *float64           `json:"reward"`
	Advantage   *float64           `json:"advantage"`
	Span        *float64           `json:"span"` // the lowest advantage of a trained token
	Components  map[string]float64 `json:"components"`

	row ledger.Row
}

// Row is the turn's ledger row.
func (o *Outcome) Row() *ledger.Row { return &o.row }

// of is the outcome by a measure; nil if the turn has none.
func (o *Outcome) of(m rewardspec.Measure) *float64 {
	switch m {
	case rewardspec.OnAdvantage:
		return o.Advantage
	case rewardspec.OnSpan:
		return o.Span
	}
	return o.Reward
}

func outcomeOf(s engine.Settled) *Outcome {
	o := &Outcome{Disposition: s.Row.Disposition, Reason: s.Row.Reason, Components: map[string]float64{}, row: s.Row}
	if s.Row.Reward.Known {
		o.Reward, o.Advantage = &s.Row.Reward.Number, &s.Row.Advantage.Number
		low := s.Row.Advantage.Number
		for _, sample := range s.Samples {
			for i, a := range sample.TokenAdvantages {
				if sample.LossMask[i] == 1 {
					low = math.Min(low, float64(a))
				}
			}
		}
		o.Span = &low
	}
	for _, c := range s.Row.Components {
		if c.Value.Known {
			o.Components[c.Name] = c.Value.Number
		}
	}
	return o
}

// Result is what became of one scenario.
type Result struct {
	Name    string             `json:"name"`
	Why     string             `json:"why"`
	OK      bool               `json:"ok"`
	Problem string             `json:"problem,omitempty"`
	On      rewardspec.Measure `json:"on,omitempty"`
	Better  *Outcome           `json:"better,omitempty"`
	Worse   *Outcome           `json:"worse,omitempty"`
	Turn    *Outcome           `json:"turn,omitempty"`
	// The variation in which it failed, where it holds as it is written.
	Variation *Variation `json:"variation,omitempty"`
	// How many variations were acted out, and in how many it failed.
	Variations int `json:"variations"`
	Failed     int `json:"failed"`
}

// Report is what became of all scenarios under a spec.
type Report struct {
	Results []Result `json:"results"`
	Failed  int      `json:"failed"`
	Seed    uint64   `json:"seed"`
}

// Options say how often scenarios are varied; the zero value acts out what is written, and nothing else.
type Options struct {
	Variations int
	Seed       uint64
	Baseline   *rewardspec.Baseline // in force where sides are acted out as they are written; nil: v0
}

// Test acts out scenarios under a spec, or a draft of one, through the engine: as they are written, and varied.
func Test(spec *rewardspec.Spec, document []byte, scenarios []rewardspec.Scenario, o Options) (*Report, error) {
	report := &Report{Seed: o.Seed, Results: make([]Result, len(scenarios))}
	variations, baseline := Variations(o.Seed, o.Variations)
	stage, err := NewStage(spec, document, o.Baseline)
	if err != nil {
		return nil, err
	}
	if err := stage.rehearse(scenarios, Variation{}, report.written); err != nil {
		return nil, err
	}
	if stage, err = NewStage(spec, document, baseline); err != nil {
		return nil, err
	}
	for i := range variations {
		err := stage.rehearse(scenarios, variations[i], func(n int, r Result) { report.varied(n, r, &variations[i]) })
		if err != nil {
			return nil, err
		}
	}
	for _, r := range report.Results {
		if !r.OK {
			report.Failed++
		}
	}
	return report, nil
}

func (r *Report) written(n int, result Result) { r.Results[n] = result }

// varied counts a variation; the first in which a scenario fails that holds as written is shown.
func (r *Report) varied(n int, result Result, v *Variation) {
	into := &r.Results[n]
	into.Variations++
	if result.OK {
		return
	}
	into.Failed++
	if into.OK {
		result.Variation, result.Variations, result.Failed = v, into.Variations, into.Failed
		*into = result
	}
}

// rehearse acts out all scenarios in one log, each side in a session of its own, and says what became of each.
func (s *Stage) rehearse(scenarios []rewardspec.Scenario, v Variation, report func(int, Result)) error {
	sides := make([][3]string, len(scenarios)) // the turns that count
	var streams []*Stream
	varied := v != Variation{}
	for i, x := range scenarios {
		if varied && x.AsWritten {
			continue
		}
		for j, acts := range [3][]rewardspec.Act{x.Better, x.Worse, x.Turn} {
			if len(acts) == 0 {
				continue
			}
			stream, turn := v.around(fmt.Sprintf("%d-%d", i, j), Epoch, acts, s.settling())
			streams, sides[i][j] = append(streams, stream), turn
		}
	}
	_, settled, err := s.Run(s.Records(streams...))
	if err != nil {
		return err
	}
	byTurn := make(map[string]*Outcome, len(settled))
	for _, x := range settled {
		byTurn[x.Row.TurnID] = outcomeOf(x)
	}
	for i, x := range scenarios {
		if varied && x.AsWritten {
			continue
		}
		r := Result{Name: x.Name, Why: x.Why}
		for j, side := range []**Outcome{&r.Better, &r.Worse, &r.Turn} {
			if turn := sides[i][j]; turn != "" {
				*side = cmp.Or(byTurn[turn], &Outcome{Disposition: "never settled"})
			}
		}
		if x.Turn == nil {
			r.On = x.On
		}
		r.Problem = problem(x, r, varied)
		r.OK = r.Problem == ""
		report(i, r)
	}
	return nil
}

// sameEnough is how far two rewards may differ that should be the same: each is a sum of a dozen terms.
const sameEnough = 1e-9

// problem says how a scenario fails. Varied, a pair's order must hold, whatever its margin.
func problem(s rewardspec.Scenario, r Result, varied bool) string {
	if s.Turn != nil {
		if trained := r.Turn.Disposition == ledger.Rewarded; trained != s.Trained {
			return fmt.Sprintf("the turn %s; it must %s", disposed(r.Turn), map[bool]string{true: "be trained on", false: "not be trained on"}[s.Trained])
		}
		return ""
	}
	for _, side := range []struct {
		name string
		o    *Outcome
	}{{"better", r.Better}, {"worse", r.Worse}} {
		if side.o.Disposition != ledger.Rewarded {
			return fmt.Sprintf("the %s side %s; what a policy can steer must be trained on", side.name, disposed(side.o))
		}
	}
	by, margin := 0., *r.Better.of(s.On)-*r.Worse.of(s.On)
	mayTie := s.By != nil && *s.By == 0
	if s.By != nil && !varied {
		by = *s.By
	}
	switch {
	case mayTie && margin < -sameEnough:
		return fmt.Sprintf("the worse side's %s is higher by %.3f; it may at most tie", s.On, -margin)
	case !mayTie && margin <= sameEnough:
		if math.Abs(margin) <= sameEnough {
			return fmt.Sprintf("both sides have the same %s", s.On)
		}
		return fmt.Sprintf("the worse side's %s is higher by %.3f", s.On, -margin)
	case margin < by-sameEnough:
		return fmt.Sprintf("the better side's %s is higher by %.3f; it must be by %.3f", s.On, margin, by)
	}
	return ""
}

func disposed(o *Outcome) string {
	if o.Reason == "" {
		return "is " + string(o.Disposition)
	}
	return fmt.Sprintf("is %s (%s)", o.Disposition, o.Reason)
}

// OrderOf are the pairs of neighbours in an order of behaviours.
func OrderOf(order [][]string, behaviours []rewardspec.Behaviour) []rewardspec.Scenario {
	byName := map[string]rewardspec.Behaviour{}
	for _, b := range behaviours {
		byName[b.Name] = b
	}
	var out []rewardspec.Scenario
	for i := 1; i < len(order); i++ {
		for _, better := range order[i-1] {
			for _, worse := range order[i] {
				out = append(out, rewardspec.Scenario{
					Name: better + " > " + worse, Why: "the order of behaviours is the contract of the reward",
					Better: byName[better].Acts, Worse: byName[worse].Acts, On: rewardspec.OnReward, AsWritten: true, Line: byName[worse].Line,
				})
			}
		}
	}
	return out
}

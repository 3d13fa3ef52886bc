package stress

import (
	"fmt"

	"millrace/distill/rehearsal"
	"millrace/distill/replay"
	"millrace/distill/reward"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// stage is the world as the engine saw it once: whatever can happen in it, as ledger rows. Under another baseline they
// are replayed, which gives what the engine would.
type stage struct {
	spec    *rewardspec.Spec
	digest  string
	tasks   []Task
	rows    []ledger.Row // of all sessions, those of a session together
	scored  []ledger.Row // the same under the baseline in force
	reward  *reward.Reward
	chances [][][]chance // by task and action: all that can follow
	leftOut []Filter
}

// chance is one thing that can follow an action: what the user does, on a request of that size.
type chance struct {
	probability float64
	at          span
	advantage   float64 // that the tokens learn which chose the action, under the baseline in force
	trained     bool    // else they learn nothing
}

// span is a session's rows; the turn that counts is the first.
type span struct{ from, to int }

// act lets everything in the world happen, each once, each in a session of its own.
func act(spec *rewardspec.Spec, document []byte, leftOut []Filter) (*stage, error) {
	engine, err := rehearsal.NewStage(spec, document, nil)
	if err != nil {
		return nil, err
	}
	s := &stage{spec: spec, tasks: World(), leftOut: leftOut}
	known, sessions := behaviours(), map[string]span{}
	var streams []*rehearsal.Stream
	first := map[string]string{} // turn that counts, by session
	for _, task := range s.tasks {
		for _, a := range task.Actions {
			for _, r := range a.Responses {
				for _, size := range Sizes {
					name := session(a, r, size)
					if _, there := first[name]; there {
						continue
					}
					stream := rehearsal.NewStream(name, name, rehearsal.Epoch)
					acts := append(append([]rewardspec.Act{}, known[a.Name].Acts...), known[r.Name].Acts...)
					first[name] = rehearsal.Play(stream, acts, rehearsal.Variation{Tokens: size.Factor, Seconds: size.Factor})
					streams = append(streams, stream)
				}
			}
		}
	}
	_, settled, err := engine.Run(engine.Records(streams...))
	if err != nil {
		return nil, err
	}
	bySession := map[string][]ledger.Row{}
	for _, x := range settled {
		id := x.Row.SessionID
		if x.Row.TurnID == first[id] {
			bySession[id] = append([]ledger.Row{x.Row}, bySession[id]...)
		} else {
			bySession[id] = append(bySession[id], x.Row)
		}
	}
	for _, stream := range streams {
		rows := bySession[stream.Session]
		if len(rows) == 0 || rows[0].TurnID != first[stream.Session] {
			return nil, fmt.Errorf("stress: %s never settled", stream.Session)
		}
		sessions[stream.Session] = span{len(s.rows), len(s.rows) + len(rows)}
		s.rows = append(s.rows, rows...)
		s.digest = rows[0].RewardSpecDigest
	}
	for _, task := range s.tasks {
		var actions [][]chance
		for _, a := range task.Actions {
			var follow []chance
			for _, r := range a.Responses {
				for _, size := range Sizes {
					follow = append(follow, chance{probability: r.Probability * size.Share, at: sessions[session(a, r, size)]})
				}
			}
			actions = append(actions, follow)
		}
		s.chances = append(s.chances, actions)
	}
	return s, s.under(rewardspec.BaselineV0())
}

func session(a Action, r Response, s Size) string { return a.Name + "/" + r.Name + "/" + s.Name }

// under scores everything under a baseline.
func (s *stage) under(b *rewardspec.Baseline) (err error) {
	if s.reward, err = reward.Compile(s.spec, s.digest, b); err != nil {
		return err
	}
	if s.scored, err = replay.Rescore(s.reward, s.rows); err != nil {
		return err
	}
	for _, actions := range s.chances {
		for _, follow := range actions {
			for i := range follow {
				follow[i].advantage, follow[i].trained = s.credit(follow[i].at)
			}
		}
	}
	return nil
}

// credit is what the tokens learn that chose the action: the turn's advantage, or that of the step with a broken call.
// A turn that isn't trained on teaches nothing.
func (s *stage) credit(at span) (advantage float64, trained bool) {
	row := &s.scored[at.from]
	if row.Disposition != ledger.Rewarded || !row.Advantage.Known {
		return 0, false
	}
	for _, f := range s.leftOut {
		if f.takes(row) {
			return 0, false
		}
	}
	if row.Signal("tools.invalid").Number > 0 {
		return s.reward.SpanAdvantage(row.Advantage.Number), true
	}
	return row.Advantage.Number, true
}

// Filter is something that a trainer's own data loader might leave out.
type Filter struct {
	Name  string
	Doc   string
	takes func(*ledger.Row) bool
}

// Filters are those that were seen, or are likely.
var Filters = []Filter{
	{"invalid_calls", "turns with a malformed call", func(r *ledger.Row) bool { return r.Signal("tools.invalid").Number > 0 }},
	{"undelivered", "turns without an edit", func(r *ledger.Row) bool { return r.Signal("outcome.delivered").Number == 0 }},
	{"unended", "turns that hit a limit or never ended", func(r *ledger.Row) bool { return r.Outcome == "length" || r.Outcome == "unended" }},
	{"questions", "turns that ended in a question", func(r *ledger.Row) bool { return r.Question }},
	{"silence", "turns after which the user said nothing", func(r *ledger.Row) bool { return r.FollowUpClass == "" || r.FollowUpClass == "none" }},
}

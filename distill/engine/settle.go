package engine

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"millrace/distill/account"
	"millrace/distill/conclude"
	"millrace/distill/reward"
	"millrace/distill/signal"
	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/metric"
)

// maxChain is the number of turns that settle together: at most two questions and what came of them.
const maxChain = 3

// due is a turn's deadline; an entry whose deadline is no longer the turn's is stale.
type due struct {
	deadline int64
	offset   int64
	key      turn.Key
}

type dueHeap []due

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].deadline, h[j].deadline), cmp.Compare(h[i].offset, h[j].offset)) < 0
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// advance moves log time, settles every turn whose deadline the watermark has passed, and forgets what lies
// outside the windows. It says whether a new hour has begun.
func (e *Engine) advance(recordTime int64, eff *Effects) (newHour bool) {
	before := e.logTime
	e.logTime = max(e.logTime, recordTime)
	watermark := e.logTime - e.limits.lateness
	for len(e.due) > 0 && e.due[0].deadline <= watermark {
		d := heap.Pop(&e.due).(due)
		if t := e.turns[d.key]; t != nil && t.Deadline == d.deadline {
			e.settleChain(t, watermark, eff)
		}
	}
	e.seen.forget(e.logTime - e.limits.dedupe)
	if e.logTime/hour != before/hour {
		e.settled.forget(e.logTime - e.limits.memory)
		e.forgetSessions()
		return true
	}
	return false
}

// forgetDocuments drops what neither the configuration nor an open turn refers to; the shell provides it again.
func (e *Engine) forgetDocuments() {
	needed := map[string]bool{}
	for _, d := range configDocuments(e.config) {
		needed[d] = true
	}
	for _, t := range e.turns {
		for _, entry := range t.Entries {
			needed[registeredTools(entry.Event)] = true
		}
	}
	maps.DeleteFunc(e.documents, func(d string, _ []byte) bool { return !needed[d] })
	maps.DeleteFunc(e.tools, func(d string, _ *signal.ToolSchemas) bool { return !needed[d] })
	maps.DeleteFunc(e.rewards, func(_ string, r *reward.Reward) bool { return r != e.reward })
}

func (e *Engine) forgetSessions() {
	for id, s := range e.sessions {
		if len(s.open) == 0 && s.lastSeen < e.logTime-e.limits.dedupe {
			delete(e.sessions, id)
		}
	}
	e.incidents = slices.DeleteFunc(e.incidents, func(i *event.IncidentDeclared) bool {
		return i.GetEndsAt().AsTime().UnixMicro() < e.logTime-2*e.limits.maxTurn-e.limits.memory // settle_after may be long
	})
}

// settleChain settles a turn whose time has come, together with the questions that it answers and with the turn
// that answers its own question. If that turn is still observed or still running, the whole chain waits for it.
func (e *Engine) settleChain(t *turn.Turn, watermark int64, eff *Effects) {
	chain := e.chainOf(t)
	until := e.settlesAt(chain)
	if until > watermark {
		t.Deadline = until
		heap.Push(&e.due, due{t.Deadline, t.FirstOffset, t.Key})
		return
	}
	request := e.asked(chain[0])
	if next := e.answerTo(chain[len(chain)-1]); next != nil {
		next.PEdit, next.PEditStratum = ledger.Of(request.pEdit), request.stratum
	}
	rows := e.score(chain, request, until)
	for i, member := range chain {
		s := rows[i]
		eff.Settled = append(eff.Settled, s)
		e.batch.rows++
		for j := range s.Samples {
			e.batch.rows++
			e.batch.bytes += uint64(9 * s.Samples[j].Length())
		}
		key := account.Settled{PolicyVersion: s.Row.PolicyVersion, Arm: s.Row.Arm, Disposition: s.Row.Disposition}
		e.balance.Settled[key]++
		e.since.Settled[key]++
		session := e.sessions[member.SessionID]
		e.settled.add(uint64(member.Key), e.logTime, session.imported)
		delete(session.open, member.Key)
		delete(e.turns, member.Key)
	}
}

// settlesAt is when a chain's outcome is fixed: when its last turn's is, but no later than max_turn after its first
// turn began if the last one hasn't ended by then.
func (e *Engine) settlesAt(chain []*turn.Turn) int64 {
	final := chain[len(chain)-1]
	if final.EndedAt != 0 {
		return final.Deadline
	}
	return min(final.Deadline, chain[0].OpenedAt+e.limits.maxTurn)
}

// chainOf is the chain that a turn belongs to, in order: questions, then what answered them. A longer run of
// questions is cut into chains of maxChain, from its first open turn on, so that each turn of it finds the same chain.
func (e *Engine) chainOf(t *turn.Turn) []*turn.Turn {
	run := []*turn.Turn{t}
	for before, _ := e.questionTo(t); before != nil; before, _ = e.questionTo(before) {
		run = append(run, before)
	}
	slices.Reverse(run)
	start := (len(run) - 1) / maxChain * maxChain
	chain := run[start:]
	for len(chain) < maxChain {
		next := e.answerTo(chain[len(chain)-1])
		if next == nil {
			break
		}
		chain = append(chain, next)
	}
	return chain
}

// questionTo is the open question turn of the session whose answer is the given turn, and what had been asked for;
// nil if there is none.
func (e *Engine) questionTo(t *turn.Turn) (question *turn.Turn, asked request) {
	for _, other := range e.sessions[t.SessionID].open {
		f := answer(other)
		if f == nil || f.Key != t.Key || (question != nil && question.FirstOffset < other.FirstOffset) {
			continue
		}
		if r, asks := e.asks(other); asks {
			question, asked = other, r
		}
	}
	return question, asked
}

// answerTo is the turn that answers a turn's question: the session's next, unless it undoes, restores or repeats
// it, and only if it began in time. Nil if the turn asked nothing, or nobody answered, or the answer has
// settled before.
func (e *Engine) answerTo(t *turn.Turn) *turn.Turn {
	f := answer(t)
	if f == nil || e.turns[f.Key] == nil {
		return nil
	}
	if _, asks := e.asks(t); !asks {
		return nil
	}
	return e.turns[f.Key]
}

func answer(t *turn.Turn) *turn.FollowUp {
	if t.EndedAt == 0 {
		return nil
	}
	f := t.First()
	if f == nil || f.OpenedAt >= t.AnswerBy || f.Relation != event.Relation_RELATION_UNSPECIFIED {
		return nil
	}
	return f
}

// request is how likely a request asked for an edit, and the stratum whose frozen share that is; "" if it is certain.
type request struct {
	pEdit   float64
	stratum string
}

// asks says whether the turn ended with a question, without an edit although one may have been asked for, and how
// likely that was. A share of the baseline is never 0, so no baseline makes or breaks a chain.
func (e *Engine) asks(t *turn.Turn) (asked request, asks bool) {
	if t.EndedAt == 0 || !e.facts(t).AsksInsteadOfEditing() {
		return request{}, false
	}
	asked = e.asked(t)
	return asked, asked.pEdit > 0
}

// asked is what was asked for by the turn's own request, or by the one whose question it answers.
func (e *Engine) asked(t *turn.Turn) request {
	if t.PEdit.Known {
		return request{t.PEdit.Number, t.PEditStratum}
	}
	if question, asked := e.questionTo(t); question != nil {
		return asked
	}
	return e.request(e.facts(t))
}

// scored is a turn on its way to a row.
type scored struct {
	turn  *turn.Turn
	facts *turn.Facts
	row   ledger.Row
	asks  bool

	sequences []turn.Sequence
}

// score makes the rows of a chain. A fault in our own code while a turn is folded must neither stop the
// partition nor lose the turn: its row is withheld, with the reason.
func (e *Engine) score(chain []*turn.Turn, asked request, until int64) (out []Settled) {
	defer func() {
		if p := recover(); p != nil {
			out = nil
			for _, t := range chain {
				row := e.bareRow(t)
				row.Disposition, row.Reason = ledger.Withheld, conclude.Poison+fmt.Sprint(p)
				out = append(out, Settled{Row: row})
			}
		}
	}()
	members := make([]*scored, len(chain))
	for i, t := range chain {
		members[i] = &scored{turn: t, facts: e.facts(t)}
	}
	for i := len(members) - 1; i >= 0; i-- {
		m := members[i]
		m.asks = m.facts.AsksInsteadOfEditing() && asked.pEdit > 0
		e.fill(m, asked, len(members), until)
		var final *ledger.Row
		if m.asks {
			e.deferral(members, i)
			if m.row.AnsweredBy != "" {
				final = &members[len(members)-1].row
			}
		}
		conclude.Turn(e.reward, &m.row, e.ruling(m), final)
	}
	for _, m := range members {
		s := Settled{Row: m.row}
		if s.Row.Disposition == ledger.Rewarded {
			s.Samples = e.samples(m, &s.Row, m.sequences)
			for i := range s.Samples {
				if err := s.Samples[i].Check(); err != nil {
					panic(err) // a row that no shard takes would stop the whole partition
				}
			}
		}
		e.experiment(&s)
		out = append(out, s)
	}
	return out
}

// deferral notes what became of the question that member i asked.
func (e *Engine) deferral(members []*scored, i int) {
	row := &members[i].row
	row.Question, row.QuestionsToAnswer = true, 1
	if i == len(members)-1 {
		// Nobody answered, or the chain is at its limit: a third question is one too many. Or the answer has settled
		// before the question's end arrived: then its worth is not known.
		f := answer(members[i].turn)
		row.Answered = f != nil && e.turns[f.Key] == nil
		return
	}
	questions := 0
	for _, m := range members[i : len(members)-1] {
		questions += max(1, m.facts.Questions())
	}
	row.Answered, row.QuestionsToAnswer, row.AnsweredBy = true, int32(questions), members[len(members)-1].turn.TurnID
}

// experiment adds what the turn counts for in the A/B test that it took part in.
func (e *Engine) experiment(s *Settled) {
	for _, x := range e.config.GetExperiments() {
		if x.GetId() != s.Row.Experiment || s.Row.Arm == "" {
			continue
		}
		w := metric.Window{
			Experiment: x.GetId(), StartsAt: x.GetStartsAt().AsTime(), CountsUntil: x.GetCountsUntil().AsTime(),
			EndsAt: x.GetEndsAt().AsTime(), SlowAfterMs: x.GetLatencyThresholdMs(),
		}
		s.Sums = metric.Contributions(&s.Row, w)
	}
}

// ruling is the disposition that the log alone gives the turn, whatever the spec: withheld, incomplete or faulted.
func (e *Engine) ruling(m *scored) conclude.Ruling {
	f := m.facts
	quarantine := e.quarantine(m.turn, m.row.UnitHash)
	switch {
	case m.turn.Withheld != "":
		return conclude.Ruling{Disposition: ledger.Withheld, Reason: m.turn.Withheld}
	case quarantine != "":
		return conclude.Ruling{Disposition: ledger.Withheld, Reason: quarantine}
	case f.Privacy == event.Privacy_METRICS_ONLY:
		return conclude.Ruling{Disposition: ledger.Withheld, Reason: "privacy METRICS_ONLY"}
	}
	if reason := e.missing(m); reason != "" {
		return conclude.Ruling{Disposition: ledger.Incomplete, Reason: reason}
	}
	if reason := e.fault(f); reason != "" {
		return conclude.Ruling{Disposition: ledger.Faulted, Reason: reason}
	}
	return conclude.Ruling{}
}

// missing says which records of the turn were lost in transport: a gap in a source's sequence, or fewer steps
// and calls than the turn's end counted. A stub counts as arrived: size is never a reason.
func (e *Engine) missing(m *scored) string {
	f := m.facts
	if f.Started == nil && f.Stubs["turn_started"]+f.Stubs[""] == 0 {
		return "its start did not arrive"
	}
	if f.Ended != nil {
		if n := len(f.Steps) + f.Stubs["step_completed"] + f.Stubs[""]; f.Ended.Steps != nil && n < int(f.Ended.GetSteps()) {
			return fmt.Sprintf("%d of %d steps arrived", n, f.Ended.GetSteps())
		}
		if n := len(f.Calls) + f.Stubs["tool_called"] + f.Stubs[""]; f.Ended.ToolCalls != nil && n < int(f.Ended.GetToolCalls()) {
			return fmt.Sprintf("%d of %d tool calls arrived", n, f.Ended.GetToolCalls())
		}
	}
	type run struct{ lo, hi uint64 }
	spans := map[string]run{}
	for _, entry := range m.turn.Entries {
		n := entry.Event.GetSequence()
		if n == 0 {
			continue
		}
		r, ok := spans[entry.Event.GetSource()]
		if !ok {
			r = run{n, n}
		}
		spans[entry.Event.GetSource()] = run{min(r.lo, n), max(r.hi, n)}
	}
	sources := e.sessions[m.turn.SessionID].sources
	for _, source := range sortedKeys(spans) {
		r := spans[source]
		if f.Ended == nil && sources[source].last() > r.hi {
			r.hi++ // its end may be what was lost
		}
		if lo, hi, gap := sources[source].gap(r.lo, r.hi); gap {
			return fmt.Sprintf("%s: events %d to %d did not arrive", source, lo, hi)
		}
	}
	return ""
}

// fault says by what evidence the turn failed for a reason that was not the model's. Before the first sampled
// token a provider's or harness's failure is enough; after it there must be evidence from outside the turn.
func (e *Engine) fault(f *turn.Facts) string {
	reason := f.Ended.GetReason()
	failed := reason == event.EndReason_PROVIDER_FAILED || reason == event.EndReason_HARNESS_FAILED
	if !failed && f.Ended != nil {
		return ""
	}
	sampled := len(f.Steps)+len(f.Calls)+len(f.Edits) > 0 || len(f.Stubs) > 0
	if failed && !sampled {
		return reason.String() + " before the first token"
	}
	for _, i := range f.Infra {
		if i.GetStatus() != event.InfrastructureStatus_INFRASTRUCTURE_STATUS_UNSPECIFIED {
			return "infrastructure: " + i.GetStatus().String()
		}
	}
	at := f.StartedAt
	if !f.LastStepAt.IsZero() {
		at = f.LastStepAt
	}
	if f.Ended != nil {
		at = f.EndedAt
	}
	for _, i := range e.incidents {
		matches := i.GetPolicyVersion() == "" || (len(f.Versions) > 0 && f.Versions[0] == i.GetPolicyVersion())
		if matches && !at.Before(i.GetStartsAt().AsTime()) && !at.After(i.GetEndsAt().AsTime()) {
			return "incident " + i.GetIncident()
		}
	}
	return ""
}

package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/distill/signal"
	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/sample"
)

// facts are the turn's events, joined.
func (e *Engine) facts(t *turn.Turn) *turn.Facts {
	f := t.Facts()
	if tools := e.toolsOf(f); tools != nil {
		f.KnowTools(tools.Kind)
	}
	return f
}

// toolsOf are the registered tools that the turn could call; nil: no_schema.
func (e *Engine) toolsOf(f *turn.Facts) *signal.ToolSchemas {
	if !f.Registered {
		return nil
	}
	return e.tools[f.Context.GetToolSchemaDigest()]
}

// bareRow is what a row has without looking into the turn's events.
func (e *Engine) bareRow(t *turn.Turn) ledger.Row {
	return ledger.Row{
		Kind: ledger.Turn, SessionID: t.SessionID, TurnID: t.TurnID, PolicyVersion: t.Version(),
		RewardSpec: e.config.GetRewardSpecName(), RewardSpecDigest: e.config.GetRewardSpecDigest(),
		ClassifierVersion: signal.ClassifierVersion, BaselineVersion: e.reward.Baseline().Version,
		Topic: e.opts.Topic, Partition: e.opts.Partition, FirstOffset: t.FirstOffset, LastOffset: t.LastOffset,
		SettledAt: micros(e.logTime), Chain: 1, Signals: make([]ledger.Value, len(ledger.Signals)), Outcome: "unended",
	}
}

// fill gives the member its row: context, signals, follow-up, and whether there are tokens.
func (e *Engine) fill(m *scored, asked request, chain int, until int64) {
	f, t := m.facts, m.turn
	row := e.bareRow(t)
	c := f.Context
	row.UnitHash = e.pseudonym(f.UnitID)
	row.PolicyVersions = f.Versions
	row.Experiment, row.Arm = c.GetExperiment(), c.GetArm()
	row.Origin = originOf(f)
	row.Intent = intentOf(f.Started.GetIntent())
	row.HarnessVersion = c.GetHarnessVersion()
	row.Language, row.SizeClass = c.GetRepository().GetMainLanguage(), c.GetRepository().GetSizeClass()
	row.Stratum = e.stratum(f)
	row.ToolSchemaDigest = c.GetToolSchemaDigest()
	row.Outcome = f.Outcome()
	row.Chain = int32(chain)
	row.StartedAt, row.EndedAt = f.StartedAt, f.EndedAt
	shown := signal.Shown(f, t.First(), m.asks && answer(t) != nil)
	verdict, judge := e.followUp(f, shown)
	row.FollowUpClass = verdict.Class
	if judge != "" {
		row.ClassifierVersion = judge
	}
	row.Signals = signal.Compute(f, signal.Context{
		Tools: e.toolsOf(f), PEdit: asked.pEdit, Answered: answer(t) != nil, Shown: shown, FollowUp: verdict,
		OpenFor: float64(until-t.OpenedAt) / 1e6,
	})
	row.PEditStratum = asked.stratum
	if t.EndedAt != 0 {
		row.SettleAfter = time.Duration(t.AnswerBy-t.EndedAt) * time.Microsecond
	}
	m.sequences, row.WithoutTokens = f.Sequences(signal.MalformedSteps(f, e.toolsOf(f)))
	row.Sequences = int32(len(m.sequences))
	m.row = row
}

// followUp says what the session's next request shows of the turn. The structural rules come first, because they
// are precise; where they say nothing, later evidence (a judge's, a backend's) counts, and its classifier's version is
// given too. A configuration that names a classifier counts the evidence of that one alone.
func (e *Engine) followUp(f *turn.Facts, shown signal.FollowUp) (verdict signal.Verdict, judge string) {
	verdict = signal.Classify(shown)
	if verdict.Decides() {
		return verdict, ""
	}
	only := e.config.GetClassifierVersion()
	for i := len(f.Evidence) - 1; i >= 0; i-- {
		x := f.Evidence[i]
		if x.Polarity != nil && (only == "" || only == x.GetClassifierVersion()) {
			return signal.Judged(x, shown), x.GetClassifierVersion()
		}
	}
	return verdict, ""
}

// samples are the training sequences of a rewarded turn.
func (e *Engine) samples(m *scored, row *ledger.Row, sequences []turn.Sequence) []sample.Row {
	c := m.facts.Context
	ordinal := int64(-1)
	if n, ok := e.config.GetPolicyOrdinals()[row.PolicyVersion]; ok {
		ordinal = n
	}
	components := make([]sample.Component, len(row.Components))
	for i, x := range row.Components {
		components[i] = sample.Component{Name: x.Name, Value: x.Value.Number, Known: x.Value.Known, Weight: 1}
	}
	out := make([]sample.Row, len(sequences))
	for i, s := range sequences {
		out[i] = sample.Row{
			SampleID:  row.SessionID + "/" + row.TurnID + "/" + strconv.Itoa(i),
			SessionID: row.SessionID, TurnID: row.TurnID, Branch: int32(i), BranchesInTurn: int32(len(sequences)),
			Origin: row.Origin, GroupID: c.GetGroupId(), GroupIndex: int32(c.GetGroupIndex()), GroupSize: int32(c.GetGroupSize()),
			InputIDs: s.InputIDs, PromptLength: s.PromptLength, LossMask: s.Mask, BehaviorLogprobs: s.Logprobs, Steps: s.Steps,
			PolicyVersion: row.PolicyVersion, PolicyOrdinal: ordinal, UnitHash: row.UnitHash, PolicyVersionSpans: s.Spans,
			Reward: row.Reward.Number, Advantage: row.Advantage.Number, RewardComponents: components,
			TokenAdvantages: e.tokenAdvantages(s, row.Advantage.Number),
			Outcome:         row.Outcome, HarnessVersion: row.HarnessVersion, ToolSchemaDigest: row.ToolSchemaDigest,
			RewardSpec: row.RewardSpec, ClassifierVersion: row.ClassifierVersion, BaselineVersion: row.BaselineVersion,
			TokenizerDigest: c.GetTokenizerDigest(), ChatTemplateDigest: c.GetChatTemplateDigest(), Sidecar: s.Sidecar,
			SettledAt: row.SettledAt,
		}
	}
	return out
}

// tokenAdvantages are set only where a step has its own blame: its trained tokens take the span's advantage, all
// other trained tokens the turn's.
func (e *Engine) tokenAdvantages(s turn.Sequence, advantage float64) []float32 {
	if len(s.Blamed) == 0 {
		return nil
	}
	out := make([]float32, len(s.Mask))
	for i, trained := range s.Mask {
		if trained == 1 {
			out[i] = float32(advantage)
		}
	}
	blame := float32(e.reward.SpanAdvantage(advantage))
	for _, r := range s.Blamed {
		for i := r.Start; i < r.End; i++ {
			if s.Mask[i] == 1 {
				out[i] = blame
			}
		}
	}
	return out
}

func originOf(f *turn.Facts) string {
	switch f.Context.GetOrigin() {
	case event.Origin_SIMULATED:
		return "simulated"
	case event.Origin_IMPORTED:
		return "imported"
	default:
		return "live"
	}
}

// intentOf is the intent as the backend stamped it before the first step: edit, ask, debug, review or unknown.
func intentOf(i event.Intent) string {
	if i == event.Intent_INTENT_UNSPECIFIED {
		return "unknown"
	}
	return strings.ToLower(i.String())
}

// stratum groups turns by what was known before the first step, and by nothing later.
func (e *Engine) stratum(f *turn.Facts) string {
	r := f.Context.GetRepository()
	return e.reward.Stratum(f.Started.GetIntent(), r.GetMainLanguage(), r.GetSizeClass(), f.Context.GetOrigin())
}

// request is what the turn's own request asked for; a command of the client asked for no edit.
func (e *Engine) request(f *turn.Facts) request {
	if f.Started.GetIsCommand() {
		return request{}
	}
	intent := f.Started.GetIntent()
	switch intent {
	case event.Intent_EDIT, event.Intent_ASK, event.Intent_REVIEW:
		return request{pEdit: e.reward.PEdit(intent, "")}
	default:
		stratum := e.stratum(f)
		return request{pEdit: e.reward.PEdit(intent, stratum), stratum: stratum}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

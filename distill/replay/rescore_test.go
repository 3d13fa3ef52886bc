package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"millrace/distill/engine"
	"millrace/distill/engine/enginetest"
	"millrace/distill/rehearsal"
	"millrace/distill/replay"
	"millrace/distill/reward"
	"millrace/internal/arrowfile"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// values are a spec and a baseline as documents.
type values struct{ spec, baseline []byte }

func (v values) compile(t *testing.T) *reward.Reward {
	t.Helper()
	spec, err := rewardspec.Parse(v.spec)
	require.NoError(t, err)
	var baseline *rewardspec.Baseline
	if v.baseline != nil {
		baseline, err = rewardspec.ParseBaseline(v.baseline)
		require.NoError(t, err)
	}
	r, err := reward.Compile(spec, arrowfile.SHA256(v.spec), baseline)
	require.NoError(t, err)
	return r
}

// run puts the log through the real engine under the values, and gives the ledger: turns and amendments.
func run(t *testing.T, log []engine.Record, v values) []ledger.Row {
	t.Helper()
	r := v.compile(t)
	documents := rehearsal.Documents()
	documents[arrowfile.SHA256(v.spec)] = v.spec
	baseline := ""
	if v.baseline != nil {
		baseline = arrowfile.SHA256(v.baseline)
		documents[baseline] = v.baseline
	}
	e := engine.New(engine.Options{Topic: "sessions", UnitKey: []byte("test")})
	var rows []ledger.Row
	for _, record := range log {
		if c := record.Control.GetConfigAdopted(); c != nil {
			record.Control = proto.Clone(record.Control).(*event.ControlRecord)
			c = record.Control.GetConfigAdopted()
			c.RewardSpecDigest, c.RewardSpecName, c.BaselineDigest = arrowfile.SHA256(v.spec), r.Spec().ID(), baseline
		}
		if e.ClosesBefore(record) {
			e.Boundary()
		}
		for _, digest := range e.Needs(record) {
			e.Provide(digest, documents[digest])
		}
		effects := e.Apply(record)
		require.Empty(t, effects.Halt)
		for _, s := range effects.Settled {
			rows = append(rows, s.Row)
		}
		if effects.Amendment != nil {
			rows = append(rows, *effects.Amendment)
		}
	}
	return rows
}

func shipped() values {
	_, document := rewardspec.Default()
	return values{spec: document}
}

// changed is the shipped spec with other values, by pairs of what stood there and what stands there now.
func changed(t *testing.T, pairs ...string) values {
	t.Helper()
	_, document := rewardspec.Default()
	text := strings.Replace(string(document), "version: 1", "version: 2", 1)
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, text, pairs[i])
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return values{spec: []byte(text)}
}

func (v values) with(t *testing.T, b rewardspec.Baseline) values {
	t.Helper()
	document, err := b.Encode()
	require.NoError(t, err)
	v.baseline = document
	return v
}

// otherBaseline has numbers of its own for strata of the random logs.
func otherBaseline() rewardspec.Baseline {
	p, q := .9, .05
	return rewardspec.Baseline{
		Version: "cut-3", PEditUnknown: .2, Shrinkage: 50,
		Global: rewardspec.Stratum{WallSP95: 20, XRef: 900, CharsP10: 100, Value: .1},
		Strata: map[string]rewardspec.Stratum{
			"unknown/unknown/unknown/live": {PEdit: &p, WallSP95: 12, XRef: 700, CharsP10: 60, Value: -.25},
			"debug/unknown/unknown/live":   {PEdit: &q, WallSP95: 9, XRef: 400, CharsP10: 250, Value: .3},
			"edit/unknown/unknown/live":    {WallSP95: 30, XRef: 1200, CharsP10: 40, Value: .45},
		},
	}
}

func otherSpecs(t *testing.T) map[string]values {
	t.Helper()
	return map[string]values{
		"weights": changed(t, `"0.7 * (1.5 * edits.retention - 0.5)"`, `"0.9 * edits.retention - 0.2"`, "-0.5 * care.checks_broken", "-0.1 * care.checks_broken"),
		"a component less, one more": changed(t, `  - {name: retention, value: "0.7 * (1.5 * edits.retention - 0.5)"}`+"\n", "",
			`  - {name: tests, `, `  - {name: lookups, value: "-0.1 * giving_up.after_failed_lookups"}`+"\n"+`  - {name: tests, `),
		"a narrow clip":         changed(t, "[-8.0, 1.5]", "[-0.4, 0.3]"),
		"block values":          changed(t, "undelivered: {value: -0.8}", "undelivered: {value: -0.3}", "per_question: -0.2", "per_question: -0.05", "decay: 0.7", "decay: 0.9"),
		"one version to a turn": changed(t, "settle_after: 20m", "settle_after: 20m\nmax_policy_versions: 1"),
		"many versions":         changed(t, "settle_after: 20m", "settle_after: 20m\nmax_policy_versions: 9"),
		"another baseline":      shipped().with(t, otherBaseline()),
		"all of it": changed(t, "settle_after: 20m", "settle_after: 20m\nmax_policy_versions: 1", "[-8.0, 1.5]", "[-1.0, 1.0]", "unanswered: -0.8", "unanswered: -0.2",
			"0.3 * follow_up.polarity", "0.6 * follow_up.polarity").with(t, otherBaseline()),
	}
}

const seeds = 5

func randomLog(seed uint64) []engine.Record { return enginetest.RandomLog(100+seed, 90) }

// eachLog runs a test over random logs.
func eachLog(t *testing.T, test func(t *testing.T, log []engine.Record)) {
	t.Helper()
	for seed := range uint64(seeds) {
		for name, log := range map[string]func(uint64) []engine.Record{"anything": randomLog, "questions": questionLog} {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				t.Parallel()
				test(t, log(seed))
			})
		}
	}
}

func TestReplayUnderTheSameSpecGivesTheLedger(t *testing.T) {
	t.Parallel()
	eachLog(t, func(t *testing.T, log []engine.Record) {
		for name, v := range map[string]values{"shipped": shipped(), "another": otherSpecs(t)["all of it"]} {
			rows := run(t, log, v)
			require.NotEmpty(t, rows)
			again, err := replay.Rescore(v.compile(t), rows)
			require.NoError(t, err)
			requireSame(t, rows, again, name)

			file, err := arrowfile.WriteLedger(rows)
			require.NoError(t, err)
			read, err := arrowfile.ReadLedger(file)
			require.NoError(t, err)
			again, err = replay.Rescore(v.compile(t), read)
			require.NoError(t, err)
			requireSame(t, rows, again, name+", through a file")
			same, err := arrowfile.WriteLedger(again)
			require.NoError(t, err)
			require.Equal(t, arrowfile.SHA256(file), arrowfile.SHA256(same), "%s: the file, bit for bit", name)
		}
	})
}

// What the replay of a ledger says of another spec is what that spec would have made of the log.
func TestReplayUnderAnotherSpecGivesWhatAFullRunGives(t *testing.T) {
	t.Parallel()
	eachLog(t, func(t *testing.T, log []engine.Record) {
		before := run(t, log, shipped())
		kept := slices.Clone(before)
		for name, v := range otherSpecs(t) {
			want := run(t, log, v)
			got, err := replay.Rescore(v.compile(t), before)
			require.NoError(t, err)
			requireSame(t, want, got, name)
			requireSame(t, kept, before, "what was given stays as it was")

			back, err := replay.Rescore(shipped().compile(t), want)
			require.NoError(t, err)
			requireSame(t, before, back, "and back from "+name)
		}
	})
}

// The logs above mean something only if they hold everything whose replay differs from the rest.
func TestRandomLogsHoldEveryKindOfRow(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for seed := range uint64(seeds) {
		rows := append(run(t, randomLog(seed), shipped()), run(t, questionLog(seed), shipped())...)
		lax, err := replay.Rescore(otherSpecs(t)["many versions"].compile(t), rows)
		require.NoError(t, err)
		for i, r := range rows {
			kinds[string(r.Kind)]++
			kinds[string(r.Disposition)]++
			if r.Disposition != lax[i].Disposition {
				kinds["disposition changes"]++
			}
			for name, is := range map[string]bool{
				"question in a chain": r.AnsweredBy != "", "unanswered": r.Question && !r.Answered,
				"answered before it settled": r.Question && r.Answered && r.AnsweredBy == "",
				"disposition from the final": strings.HasPrefix(r.Reason, "the turn that answered it: "),
				"p_edit of a stratum":        r.PEditStratum != "",
				"inherited p_edit":           r.PEditStratum != "" && r.PEditStratum != r.Stratum,
			} {
				if is {
					kinds[name]++
				}
			}
		}
	}
	for _, name := range []string{
		"turn", "amendment", "rewarded", "no_tokens", "censored", "faulted", "incomplete", "mixed_policy", "withheld", "disposition changes",
		"question in a chain", "unanswered", "answered before it settled", "disposition from the final", "p_edit of a stratum", "inherited p_edit",
	} {
		require.Positive(t, kinds[name], "%s in %v", name, kinds)
	}
}

func TestRescoreRefuses(t *testing.T) {
	t.Parallel()
	r := shipped().compile(t)
	signals := make([]ledger.Value, len(ledger.Signals))
	old := ledger.Row{Kind: ledger.Turn, SessionID: "s", TurnID: "t", Signals: signals, Disposition: ledger.Censored}
	_, err := replay.Rescore(r, []ledger.Row{old})
	require.ErrorIs(t, err, replay.ErrOldRow)
	require.ErrorContains(t, err, "turn t of session s")

	signals = slices.Clone(signals)
	signals[ledger.SignalIndex["stalling.question_calls"]] = ledger.Of(0)
	question := ledger.Row{Kind: ledger.Turn, SessionID: "s", TurnID: "t", Signals: signals, Chain: 2, Question: true, Answered: true, AnsweredBy: "u"}
	_, err = replay.Rescore(r, []ledger.Row{question})
	require.ErrorContains(t, err, "answered by turn u, whose row is not there")
}

// A turn that our own code could not read stays what it is; a reason that only looks inherited is the turn's own.
func TestRescoreKeepsRulings(t *testing.T) {
	t.Parallel()
	r := shipped().compile(t)
	known := make([]ledger.Value, len(ledger.Signals))
	known[ledger.SignalIndex["stalling.question_calls"]] = ledger.Of(0)
	rows := []ledger.Row{
		{Kind: ledger.Turn, TurnID: "poisoned", Signals: make([]ledger.Value, len(ledger.Signals)), Disposition: ledger.Withheld, Reason: "poison: index out of range"},
		{
			Kind: ledger.Turn, TurnID: "question", Signals: known, Chain: 2, Question: true, Answered: true, AnsweredBy: "final", QuestionsToAnswer: 1,
			Disposition: ledger.Incomplete, Reason: "the turn that answered it: events 3 to 4 did not arrive",
		},
		{Kind: ledger.Turn, TurnID: "final", Signals: known, Chain: 2, Disposition: ledger.Withheld, Reason: "erasure"},
	}
	got, err := replay.Rescore(r, rows)
	require.NoError(t, err)
	for i := range rows {
		require.Equal(t, rows[i].Disposition, got[i].Disposition)
		require.Equal(t, rows[i].Reason, got[i].Reason)
		require.Equal(t, r.Digest(), got[i].RewardSpecDigest)
	}
}

func TestOtherSettleAfter(t *testing.T) {
	t.Parallel()
	spec := changed(t, "settle_after: 20m", "settle_after: 30m").compile(t).Spec()
	require.True(t, replay.OtherSettleAfter(spec, &ledger.Row{SettleAfter: 20 * time.Minute}))
	require.False(t, replay.OtherSettleAfter(spec, &ledger.Row{SettleAfter: 30 * time.Minute}))
	require.False(t, replay.OtherSettleAfter(spec, &ledger.Row{}), "it never ended, and waited for max_turn")
	for _, row := range run(t, randomLog(0), shipped()) {
		require.Equal(t, row.Kind == ledger.Turn && !row.EndedAt.IsZero(), row.SettleAfter == 20*time.Minute)
	}
}

func requireSame(t *testing.T, want, got []ledger.Row, name string) {
	t.Helper()
	require.Len(t, got, len(want), name)
	for i := range want {
		require.Equal(t, want[i], got[i], "%s: row %d", name, i)
	}
}

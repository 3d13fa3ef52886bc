package arrowfile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/ledger"
)

func ledgerRowOf(random *rand.Rand, i int) ledger.Row {
	at := time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC).Add(time.Duration(i) * time.Second)
	r := ledger.Row{
		Kind: ledger.Turn, SessionID: "session", TurnID: fmt.Sprintf("t-%d", i), UnitHash: "00ff",
		PolicyVersion: "base-1", PolicyVersions: []string{"base-1", "base-2"}, Experiment: "e", Arm: "control", Origin: "live", Intent: "edit",
		HarnessVersion: "h", Language: "go", SizeClass: "m", Stratum: "edit/go", RewardSpec: "composer@1", RewardSpecDigest: "d",
		ClassifierVersion: "rules@1", BaselineVersion: "v0", ToolSchemaDigest: "x",
		FollowUpClass: "complaint", Components: []ledger.Component{{Name: "retention", Value: ledger.Of(0)}, {Name: "thumb"}},
		Reward: ledger.Of(random.NormFloat64()), Advantage: ledger.Of(0), Disposition: ledger.Rewarded, Reason: "why", Outcome: "completed",
		PEditStratum: "unknown/go/m/live", Question: true, Answered: i%2 == 0, QuestionsToAnswer: 2, AnsweredBy: "t-9",
		SettleAfter: 20*time.Minute + 1500*time.Microsecond, WithoutTokens: "no token ids", Sequences: 3,
		Chain: 1, Branches: 2, Topic: "events", Partition: 3, FirstOffset: int64(i), LastOffset: int64(i + 5),
		StartedAt: at, EndedAt: at.Add(time.Second), SettledAt: at.Add(time.Minute),
	}
	r.Signals = make([]ledger.Value, len(ledger.Signals))
	for j := range r.Signals {
		if random.IntN(2) == 0 {
			r.Signals[j] = ledger.Of(float64(random.IntN(3)))
		}
	}
	switch i % 3 {
	case 1:
		r.Disposition, r.Reward, r.Advantage, r.EndedAt, r.Components = ledger.Censored, ledger.Value{}, ledger.Value{}, time.Time{}, nil
		r.FollowUpClass, r.Experiment, r.Arm, r.PolicyVersions = "", "", "", nil
		r.PEditStratum, r.Question, r.Answered, r.QuestionsToAnswer, r.AnsweredBy = "", false, false, 0, ""
		r.SettleAfter, r.WithoutTokens = 0, ""
	case 2:
		r = ledger.Row{
			Kind: ledger.Amendment, Source: "ide", EventID: fmt.Sprint(i), EventBody: "thumb", SessionID: "session", TurnID: "t", Topic: "events",
			Signals: make([]ledger.Value, len(ledger.Signals)), SettledAt: at,
		}
	}
	return r
}

func ledgerRows(n int) []ledger.Row {
	random := rand.New(rand.NewPCG(uint64(n), 2))
	rows := make([]ledger.Row, n)
	for i := range rows {
		rows[i] = ledgerRowOf(random, i)
	}
	return rows
}

func TestLedgerRoundTrip(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 100} {
		rows := ledgerRows(n)
		body, err := WriteLedger(rows)
		require.NoError(t, err)
		again, err := WriteLedger(rows)
		require.NoError(t, err)
		require.Equal(t, SHA256(body), SHA256(again), "the same rows give the same bytes")
		got, err := ReadLedger(body)
		require.NoError(t, err)
		require.Len(t, got, n)
		for i := range rows {
			require.Equal(t, rows[i], got[i])
		}
	}
}

// More rows than a row group holds; few enough columns differ that this stays quick.
func TestLedgerInManyRowGroups(t *testing.T) {
	t.Parallel()
	rows := make([]ledger.Row, rowGroup+9)
	for i := range rows {
		rows[i] = ledger.Row{Kind: ledger.Turn, TurnID: fmt.Sprint(i), Disposition: ledger.Censored}
	}
	rows[rowGroup+3].PolicyVersions = []string{"a", "b"}
	body, err := WriteLedger(rows)
	require.NoError(t, err)
	got, err := ReadLedger(body)
	require.NoError(t, err)
	require.Len(t, got, len(rows))
	for i := range got {
		require.Equal(t, rows[i].TurnID, got[i].TurnID)
	}
	require.Equal(t, []string{"a", "b"}, got[rowGroup+3].PolicyVersions)
}

func TestLedgerFewerSignals(t *testing.T) {
	t.Parallel()
	body, err := WriteLedger([]ledger.Row{{TurnID: "t", Signals: []ledger.Value{ledger.Of(3)}}})
	require.NoError(t, err)
	rows, err := ReadLedger(body)
	require.NoError(t, err)
	require.Len(t, rows[0].Signals, len(ledger.Signals))
	require.Equal(t, ledger.Of(3), rows[0].Signals[0])
	require.False(t, rows[0].Signals[1].Known)
}

func TestLedgerColumnsAreDocumented(t *testing.T) {
	t.Parallel()
	require.Len(t, ledgerColumns, len(ledger.Columns))
	for i, c := range ledger.Columns {
		require.Equal(t, c.Name, ledgerColumns[i].name)
		require.Equal(t, c.Type, words(ledgerColumns[i].typ), c.Name)
		require.Equal(t, c.Nullable, ledgerColumns[i].nullable, c.Name)
	}
}

func TestLedgerRefusesWhatIsNotANumber(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]ledger.Row{
		"signal edits.proposed": {Signals: []ledger.Value{ledger.Of(math.NaN())}},
		"component thumb":       {Components: []ledger.Component{{Name: "thumb", Value: ledger.Of(math.Inf(-1))}}},
		"reward NaN":            {Reward: ledger.Of(math.NaN())},
		"signals; there are":    {Signals: make([]ledger.Value, len(ledger.Signals)+1)},
	} {
		_, err := WriteLedger([]ledger.Row{r})
		require.ErrorContains(t, err, want)
	}
}

func TestReadLedgerSurvivesCorruption(t *testing.T) {
	t.Parallel()
	body, err := WriteLedger(ledgerRows(20))
	require.NoError(t, err)
	for n := 0; n < len(body); n += 97 {
		_, err := ReadLedger(body[:n])
		require.Error(t, err)
	}
	random := rand.New(rand.NewPCG(9, 9))
	for range 150 {
		broken := bytes.Clone(body)
		broken[random.IntN(len(broken))] ^= 1 << random.IntN(8)
		_, _ = ReadLedger(broken)
	}
}

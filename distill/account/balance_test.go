package account_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/account"
	"millrace/schemas/ledger"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	good := func() account.Balance {
		b := account.New()
		b.Read, b.Opened = 12, 5
		b.Records[account.Applied], b.Records[account.Duplicate], b.Records[account.Control] = 9, 1, 2
		b.Settled[account.Settled{PolicyVersion: "a", Arm: "control", Disposition: ledger.Rewarded}] = 2
		b.Settled[account.Settled{PolicyVersion: "b", Disposition: ledger.Censored}] = 1
		b.Open["a"], b.Open["none"] = 1, 1
		return b
	}
	for name, c := range map[string]struct {
		change func(b *account.Balance)
		want   string
	}{
		"balanced":             {func(*account.Balance) {}, ""},
		"empty":                {func(b *account.Balance) { *b = account.New() }, ""},
		"a record without one": {func(b *account.Balance) { b.Read++ }, "records: read 13, but 12 are accounted for: 1 are missing"},
		"a record too many":    {func(b *account.Balance) { b.Records[account.Orphan]++ }, "records: read 12, but 13 are accounted for: -1 are missing"},
		"a turn lost":          {func(b *account.Balance) { delete(b.Open, "none") }, "turns: opened 5, but settled 3 + open 1: 1 are missing"},
		"a turn settled twice": {func(b *account.Balance) { b.Settled[account.Settled{}]++ }, "turns: opened 5, but settled 4 + open 2: -1 are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := good()
			c.change(&b)
			if c.want == "" {
				require.NoError(t, b.Check())
				return
			}
			require.EqualError(t, b.Check(), c.want)
		})
	}
	a, b := good(), good()
	a.Add(b)
	require.NoError(t, a.Check())
	require.EqualValues(t, 24, a.Read)
	require.EqualValues(t, 6, a.SettledTurns())
	require.EqualValues(t, 4, a.OpenTurns())
	require.Equal(t, map[ledger.Disposition]int64{ledger.Rewarded: 4, ledger.Censored: 2}, a.ByDisposition())
}

func TestACloneIsOnesOwn(t *testing.T) {
	t.Parallel()
	a := account.New()
	b := a.Clone()
	b.Records[account.Applied]++
	b.Open["a"]++
	b.Settled[account.Settled{}]++
	require.Equal(t, account.New(), a)
}

package reward

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

func shipped(t testing.TB) *Reward {
	t.Helper()
	spec, _ := rewardspec.Default()
	r, err := Compile(spec, "digest", rewardspec.BaselineV0())
	require.NoError(t, err)
	return r
}

// Facts are a turn's signals by name; what isn't named was not observed.
type Facts map[string]float64

// Signals are the facts aligned with ledger.Signals.
func (f Facts) Signals() []ledger.Value {
	values := make([]ledger.Value, len(ledger.Signals))
	for name, v := range f {
		i, ok := ledger.SignalIndex[name]
		if !ok {
			panic("no such signal: " + name)
		}
		values[i] = ledger.Of(v)
	}
	return values
}

// with is a copy of the facts with others laid over them.
func (f Facts) with(more Facts) Facts {
	out := make(Facts, len(f)+len(more))
	for _, m := range []Facts{f, more} {
		maps.Copy(out, m)
	}
	return out
}

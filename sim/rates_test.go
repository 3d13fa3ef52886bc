package sim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRates holds what an observer measures over a whole cycle against what the policies were told to do. The seed
// is fixed, so a bound of 3.5 standard errors fails only when the generator has changed.
func TestRates(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			units := 1500
			if kind == Better {
				units = 4000
			}
			o := watch(t, Config{Seed: 7, Start: testStart, Assign: halves, Kind: kind, Units: units})
			require.InDelta(t, 5*float64(units), float64(len(o)), .06*5*float64(units), "turns in a cycle")
			candidate, err := Candidate(kind)
			require.NoError(t, err)
			all := func(*turnFacts) bool { return true }
			control := measure(o, "control", all)
			for arm, b := range map[string]Behaviour{"control": Base(), "candidate": candidate} {
				m := measure(o, arm, all)
				for _, c := range []struct {
					metric string
					got    moments
					want   float64
				}{
					{"delivery", m.delivery, b.Delivery},
					{"kept", m.kept, b.Kept},
					{"questions", m.questions, b.Questions},
					{"aborts", m.aborts, b.Aborts},
					{"malformed", m.malformed, b.Malformed},
				} {
					got, se := c.got.ratio()
					require.InDelta(t, c.want, got, 3.5*se, "%s of %s", c.metric, arm)
				}
				require.Greater(t, first(m.edited.ratio()), b.Delivery-.04, "nearly every delivered edit is applied")
				base, se0 := control.latency.ratio()
				got, se1 := m.latency.ratio()
				require.InDelta(t, math.Log(b.Latency), got-base, 3.5*math.Hypot(se0, se1), "log latency of %s", arm)
				base, se0 = control.tokens.ratio()
				got, se1 = m.tokens.ratio()
				require.InDelta(t, b.Tokens, got/base, .01+3.5*math.Hypot(se0, se1)/base, "tokens of %s", arm)
			}
		})
	}
}

// TestSpread checks what the power of a gate rests on besides the rates: the spread of latency over turns, and
// of activity over units.
func TestSpread(t *testing.T) {
	t.Parallel()
	o := watch(t, Config{Seed: 3, Start: testStart, Calm: true, Units: 1500})
	var n, sum, squares float64
	turns := map[string]float64{}
	for _, x := range o {
		if !x.ended {
			continue
		}
		l := math.Log(x.latencyMs)
		n++
		sum, squares = sum+l, squares+l*l
		turns[x.unit]++
	}
	require.InDelta(t, .9, math.Sqrt(squares/n-sum/n*sum/n), .05, "standard deviation of log latency")

	mean, variance := n/1500, 0.
	for _, x := range turns {
		variance += (x - mean) * (x - mean)
	}
	variance += float64(1500-len(turns)) * mean * mean
	variance /= 1500
	// A gamma of shape 2 adds mean²/2 to the variance of the counts.
	require.Greater(t, variance, mean+mean*mean/4)
}

func first(x, _ float64) float64 { return x }

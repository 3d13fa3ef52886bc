package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

func TestNormalTails(t *testing.T) {
	t.Parallel()
	require.InEpsilon(t, 7.61985302416052e-24, UpperTail(10), 1e-12, "no underflow where 1 − CDF is 0")
	for _, q := range []float64{1e-300, 1e-24, 1e-10, .00125, .005, .02, .05, .3, .5, .7, .975, 1 - 1e-12} {
		require.InEpsilon(t, q, UpperTail(UpperPoint(q)), 1e-11, "q %g", q)
	}
	for q := .001; q < 1; q += .001 {
		require.InDelta(t, distuv.UnitNormal.Quantile(1-q), UpperPoint(q), 1e-9)
	}
	require.True(t, math.IsInf(UpperPoint(0), 1))
	require.True(t, math.IsInf(UpperPoint(1), -1))
	require.True(t, math.IsNaN(UpperPoint(-.1)))
	require.True(t, math.IsNaN(UpperPoint(math.NaN())))
}

func TestRatioOfAgreesWithMoments(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var m Moments
	clusters := []Cluster{{}, {Num: 3}} // without a denominator: they count for nothing
	for range 500 {
		den := float64(1 + r.IntN(7))
		num := den * r.Float64()
		clusters = append(clusters, Cluster{num, den})
		m.N++
		m.S += num
		m.SS += num * num
		m.M += den
		m.MM += den * den
		m.SM += num * den
	}
	got, ok := RatioOf(clusters)
	require.True(t, ok)
	want, ok := m.Ratio()
	require.True(t, ok)
	require.InEpsilon(t, want.Value, got.Value, 1e-12)
	require.InEpsilon(t, want.Var, got.Var, 1e-9)
	require.Equal(t, 500, got.Clusters)

	_, ok = RatioOf(clusters[:3])
	require.False(t, ok, "one cluster has no variance")
	_, ok = Moments{N: 100, S: 270, SS: 848.79, M: 510, MM: 810, SM: -900}.Ratio()
	require.False(t, ok, "sums that belong to no sample")
}

// The critical values that the design states for the shipped split of the alphas.
func TestStatedCriticalValues(t *testing.T) {
	t.Parallel()
	const n = 4000
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"harm .01 at its best point", OneSided(.01, n).LowerFactor(n), 3.355},
		{"harm .01 over eight metrics", OneSided(.01/8, n).LowerFactor(n), 3.967},
		{"early win .005 over three metrics", OneSided(.005/3, n).LowerFactor(n), 3.889},
		{"final .02 over three metrics", UpperPoint(.02 / 3), 2.475},
		{"two-sided .05: 55 % wider than 1.96", TwoSided(.05, n).BothFactor(n) / 1.959964, 1.55},
		{"SRM of 100,000 and a bit", SequentialSRM([]float64{5000, 5200}, []float64{.5, .5}, 100), 1},
	} {
		require.InDelta(t, c.want, c.got, .005, c.name)
	}
}

func TestOneSidedPIsTheAlphaWhoseBoundTouchesZero(t *testing.T) {
	t.Parallel()
	l := Lift{Estimate: .04, SE: .011}
	s := OneSided(.01, 1000)
	p := s.UpperP(l, 3000)
	s.Alpha = p
	require.InDelta(t, 0, l.Estimate-s.LowerFactor(3000)*l.SE, 1e-9)
	require.EqualValues(t, 1, s.UpperP(Lift{Estimate: -1, SE: 1}, 3000))
	require.Less(t, OneSided(.01, 1000).UpperP(Lift{Estimate: 1, SE: .001}, 3000), 1e-300)
}

// Read every ten units of each arm, the sequence errs at most as often as stated; a fixed bound doesn't.
func TestSequenceHoldsUnderPeeking(t *testing.T) {
	t.Parallel()
	const runs, units, alpha = 400, 2000, .05
	s := OneSided(alpha, units/4)
	r := rand.New(rand.NewPCG(7, 7))
	crossed, naive := 0, 0
	for range runs {
		var sum, squares float64
		hit, hitNaive := false, false
		for i := 1; i <= units; i++ {
			x := r.NormFloat64()
			sum += x
			squares += x * x
			if n := float64(i); i >= 100 && i%10 == 0 {
				mean := Mean(n, sum, squares)
				z := mean.Value / math.Sqrt(mean.Var)
				hit = hit || z > s.LowerFactor(n)
				hitNaive = hitNaive || z > UpperPoint(alpha)
			}
		}
		if hit {
			crossed++
		}
		if hitNaive {
			naive++
		}
	}
	require.LessOrEqual(t, float64(crossed)/runs, alpha)
	require.Greater(t, float64(naive)/runs, 3*alpha)
}

func TestRareEvents(t *testing.T) {
	t.Parallel()
	none := Ratio{Den: 5000, Clusters: 900}
	some := Ratio{Num: 40, Value: .008, Var: .008 / 5000, Den: 5000, Clusters: 900}
	c, d := WithRareEvents(some, none)
	l := LogRatioLift(c, d)
	require.InDelta(t, math.Log(.5/40.5), l.Estimate, 1e-12)
	require.Greater(t, l.SE, 1.4, "no event isn't certainty")
	c, d = WithRareEvents(some, some)
	require.Equal(t, some, c)
	require.Equal(t, some, d)
}

func TestPowerFormulas(t *testing.T) {
	t.Parallel()
	// The design's table: 72,500 sessions for retention +2.28 % at .70, three success metrics, DEFF 2.
	u := math.Sqrt(.3 / .7)
	z := UpperPoint(.02 / 3)
	require.InEpsilon(t, .061, Detectable(LiftSE(u, 10_000, 2), z, .8), .01)
	require.InDelta(t, .8, Power(.061, LiftSE(u, 10_000, 2), z), .01)
	require.InDelta(t, 1.1, DesignEffect(1.5, .7, .1), .03)
	require.InDelta(t, 2.05, DesignEffect(4, 1, .15), .01)
	require.InDelta(t, 8.5, DesignEffect(8, 1.5, .3), .1)
	require.EqualValues(t, 1, DesignEffect(.5, 0, .3), "fewer events than units: nothing is clustered")
}

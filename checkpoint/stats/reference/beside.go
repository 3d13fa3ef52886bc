package reference

import (
	_ "embed"
	"encoding/json"
	"math"

	"millrace/checkpoint/stats"
)

// The methods of this file are not the gate's own tests. They are what other gates do, and what ours is compared with.

func theta(in struct {
	Post, Pre []float64
	Both      bool `json:"both_arms_identical"`
},
) values {
	var p stats.Paired
	for i, post := range in.Post {
		pre := in.Pre[i]
		p = p.Plus(stats.Paired{N: 1, Post: post, PostSquares: post * post, Pre: pre, PreSquares: pre * pre, Cross: post * pre})
	}
	if in.Both {
		p = p.Plus(p)
	}
	return values{"theta": {stats.Theta(p)}}
}

type pairedArm struct {
	N           float64
	Post        float64 `json:"post_sum"`
	PostSquares float64 `json:"post_sum_squares"`
	Pre         float64 `json:"pre_sum"`
	PreSquares  float64 `json:"pre_sum_squares"`
	Cross       float64
}

func adjustedMean(in struct{ Control, Treatment pairedArm }) values {
	c, t := stats.Paired(in.Control), stats.Paired(in.Treatment)
	l, control, candidate := stats.AdjustedLift(c, t, stats.Theta(c.Plus(t)))
	return values{"effect": {l.Estimate}, "p": {stats.NewWelch(l, control, candidate).P()}}
}

func adjustedRatio(in struct {
	NumPostA []float64 `json:"num_post_a"`
	DenPostA []float64 `json:"den_post_a"`
	NumPreA  []float64 `json:"num_pre_a"`
	DenPreA  []float64 `json:"den_pre_a"`
	NumPostB []float64 `json:"num_post_b"`
	DenPostB []float64 `json:"den_post_b"`
	NumPreB  []float64 `json:"num_pre_b"`
	DenPreB  []float64 `json:"den_pre_b"`
	Theta    float64
},
) values {
	pairs := func(num, den, numPre, denPre []float64) []stats.PairedCluster {
		out := make([]stats.PairedCluster, len(num))
		for i := range num {
			out[i] = stats.PairedCluster{Post: stats.Cluster{Num: num[i], Den: den[i]}, Pre: stats.Cluster{Num: numPre[i], Den: denPre[i]}}
		}
		return out
	}
	l := stats.AdjustedRatioLift(pairs(in.NumPostA, in.DenPostA, in.NumPreA, in.DenPreA), pairs(in.NumPostB, in.DenPostB, in.NumPreB, in.DenPreB), in.Theta)
	return values{"effect": {l.Estimate}, "se": {l.SE}}
}

type mixtureInput struct {
	S, V  float64
	VOpt  float64 `json:"v_opt"`
	Alpha float64
	G, H  float64
}

func oneSidedMixture(in mixtureInput) values {
	m := stats.OneSidedMixture(in.VOpt, in.Alpha)
	return values{"log_mixture": {m.Log(in.S, in.V)}, "bound": {m.Bound(in.V, in.Alpha)}}
}

func betaBinomial(in mixtureInput) values {
	m := stats.TwoSidedBetaBinomial(in.VOpt, in.Alpha, in.G, in.H)
	return values{"log_mixture": {m.Log(in.S, in.V)}, "bound": {m.Bound(in.V, in.Alpha)}}
}

func polyStitching(in struct {
	V, Alpha float64
	VMin     float64 `json:"v_min"`
	C        []float64
},
) values {
	out := values{}
	for _, c := range in.C {
		out["bound"] = append(out["bound"], stats.PolyStitching(in.V, in.Alpha, in.VMin, c))
	}
	return out
}

func doubleStitching(in struct {
	T, Alpha float64
	TOpt     float64 `json:"t_opt"`
	P        []float64
},
) values {
	out := values{}
	for _, p := range in.P {
		out["bound"] = append(out["bound"], stats.DoubleStitching(p, in.T, in.Alpha, in.TOpt))
	}
	return out
}

func empiricalProcess(in struct {
	T, Alpha float64
	TMin     float64 `json:"t_min"`
	A        float64
},
) values {
	return values{"bound": {stats.EmpiricalProcess(in.T, in.Alpha, in.TMin, in.A)}}
}

// quantileP compares 1 … 1,000 with the same moved by an offset.
func quantileP(in struct {
	TOpt     float64 `json:"t_opt"`
	AlphaOpt float64 `json:"alpha_opt"`
	Cases    [][2]float64
},
) values {
	out := values{}
	for _, c := range in.Cases {
		a, b := make([]float64, 1000), make([]float64, 1000)
		for i := range a {
			a[i] = float64(i + 1)
			b[i] = a[i] + c[1]
		}
		out["p"] = append(out["p"], stats.QuantileP(a, b, c[0], in.TOpt, in.AlphaOpt))
	}
	return out
}

type quantileArm struct {
	N, Q  float64
	First float64 `json:"n_star"`
	Low   float64 `json:"q_lower"`
	High  float64 `json:"q_upper"`
}

func (a quantileArm) ratio() stats.Ratio {
	return stats.QuantileRatio(a.Q, a.Low, a.High, a.N, a.First)
}

func quantiles(lift func(c, t stats.Ratio) stats.Lift) func(struct{ Control, Treatment quantileArm }) values {
	return func(in struct{ Control, Treatment quantileArm }) values {
		l := lift(in.Control.ratio(), in.Treatment.ratio())
		return values{"effect": {l.Estimate}, "ci": interval(l, .05)}
	}
}

// woodruff makes the source's data: 200 clusters of three to seven values with a common part.
func woodruff(struct{}) values {
	clusters := make([][]float64, 200)
	for i := range clusters {
		n := float64(i + 1)
		common := -stats.UpperPoint((n - .5) / 200)
		for j := 1; j <= 3+(i+1)%5; j++ {
			own := -stats.UpperPoint((float64((7*(i+1)+13*j)%101) + .5) / 101)
			clusters[i] = append(clusters[i], 100*math.Exp(.4*common+.6*own))
		}
	}
	out := values{}
	for name, nu := range map[string]float64{"p50": .5, "p90": .9, "p95": .95} {
		q, low, high := stats.Woodruff(clusters, nu, .025)
		out[name] = []float64{q, low, high}
	}
	return out
}

func percentiles(in struct{ X, P []float64 }) values {
	out := values{}
	for _, p := range in.P {
		out["q"] = append(out["q"], stats.Percentile(in.X, p))
	}
	return out
}

func shift(in struct {
	Control, Experiment []float64
	Conf                float64
},
) values {
	estimate, low, high := stats.Shift(in.Experiment, in.Control, (1-in.Conf)/2)
	return values{"estimate": {estimate}, "ci": {low, high}}
}

// kayenta are the samples that two cases only name.
//
//go:embed kayenta.json
var kayenta []byte

type samples struct{ X, Y []float64 }

func kayentaSamples() (diff, extremes samples) {
	var file struct {
		Diff     samples `json:"wilcoxon_diff"`
		Extremes samples `json:"intermediate"`
	}
	if err := json.Unmarshal(kayenta, &file); err != nil {
		panic(err) // the file is part of the binary, and a test reads it
	}
	return file.Diff, file.Extremes
}

func rankZ(struct{}) values {
	s, _ := kayentaSamples()
	return values{"z_mu0": {stats.ShiftedZ(s.X, s.Y, 0)}, "z_mu5": {stats.ShiftedZ(s.X, s.Y, 5)}}
}

// rankExtremes are the values between which the interval's root is looked for.
func rankExtremes(struct{}) values {
	_, s := kayentaSamples()
	low, high := stats.ShiftRange(s.X, s.Y)
	z := stats.UpperPoint(.025)
	lower, upper := stats.ShiftedZ(s.X, s.Y, low), stats.ShiftedZ(s.X, s.Y, high)
	return values{
		"mumin": {low}, "mumax": {high},
		"f_lower1": {lower - z}, "f_upper1": {upper - z}, "f_lower2": {lower + z}, "f_upper2": {upper + z},
	}
}

// rankLarge makes the source's data.
func rankLarge(struct{}) values {
	var first, second, third []float64
	for i := range 500 {
		first = append(first, 2*float64(i))
	}
	for i := range 600 {
		second = append(second, 2*float64(i)-41)
	}
	third = append(append(third, first[:30]...), second[30:]...)
	r, tied := stats.NewRankSum(first, second), stats.NewRankSum(first, third)
	return values{
		"U12": {r.U}, "p12_less": {r.LessP()}, "p12": {stats.TwoSidedP(r.Z())},
		"U13": {tied.U}, "p13": {stats.TwoSidedP(tied.Z())},
	}
}

func rankExact(in struct{ A, B []float64 }) values {
	r := stats.NewRankSum(in.A, in.B)
	less := stats.ExactLessP(r.U, len(in.A), len(in.B))
	return values{"U": {r.U}, "p_less": {less}, "p": {math.Min(1, 2*math.Min(less, 1-stats.ExactLessP(r.U-1, len(in.A), len(in.B))))}}
}

type looks struct {
	T     []float64
	Alpha float64
}

func obrienFleming(in looks) values {
	return values{"z": stats.Bounds(in.T, in.T, stats.OBrienFleming(in.Alpha), true)}
}

func spend(f stats.Spending, twoSided bool) func(looks) values {
	return func(in looks) values { return values{"z": stats.Bounds(in.T, in.T, f, twoSided)} }
}

func classicalOBrienFleming(in struct {
	K     int
	Alpha float64
},
) values {
	return values{"z": stats.ClassicalOBrienFleming(in.K, in.Alpha)}
}

// calendar spends by the time and takes the looks' correlation from their information.
func calendar(in struct {
	Calendar, Information []float64
	Alpha, Phi            float64
},
) values {
	return values{"z": stats.Bounds(in.Information, in.Calendar, stats.PowerSpending(in.Alpha, in.Phi), true)}
}

// peeking is how often a fixed bound of 1.96 is crossed upwards when it is read k times.
func peeking(in struct{ K []int }) values {
	out := values{}
	for _, k := range in.K {
		bounds := make([]float64, k)
		for i := range bounds {
			bounds[i] = stats.UpperPoint(.025)
		}
		out["one_sided_error"] = append(out["one_sided_error"], stats.ExitProbability(stats.EqualLooks(k), bounds, false))
	}
	return out
}

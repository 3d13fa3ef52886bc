package reference

import (
	"encoding/json"
	"fmt"
	"math"

	"millrace/checkpoint/stats"
)

// A computation gives its values under the names that a case expects.
type computation func(input json.RawMessage) (values, error)

type values map[string][]float64

// methods are the published cases by name; a case of another name is looked up by shape.
var methods = map[string]computation{
	"gb_proportion_relative":                on(welchProportions),
	"gb_one_sided_relative":                 on(welchOneSided),
	"gb_count_metric_relative":              on(welchMeans),
	"gb_ratio_delta_relative":               on(welchRatios),
	"cluster_robust_equals_delta":           on(clusterRobust),
	"ratio_of_clusters":                     on(ratioOfClusters),
	"gb_sequential_two_sided_mean_N*1000":   on(sequenceTwoSided),
	"gb_sequential_two_sided_prop_N*5000":   on(sequenceTwoSided),
	"gb_sequential_one_sided_relative":      on(sequenceOneSided(stats.RelativeLift)),
	"gb_sequential_one_sided_absolute":      on(sequenceOneSided(stats.AbsoluteLift)),
	"gb_sequential_one_sided_p_greater_abs": on(sequenceOneSidedP),
	"drconfseq_rho2_exact_vs_approx":        on(rhoSquared),
	"confseq_two_sided_normal_mixture":      on(normalMixture),
	"ssrm_vs_chi2":                          on(srmBoth),
	"propcis_wald_diff":                     on(waldDifference),
	"propcis_agresti_caffo":                 on(agrestiCaffo),
	"fagerland_katz_ratio":                  on(katz),
	"statsmodels_ztest_pooled":              on(twoProportions),
	"holm_pairwise_smokers":                 on(holm),
	"delta_vs_naive_relative":               on(deltaAndNaive),
	"sas_ztost_noninferiority":              on(nonInferiority),
	"gb_midexperiment_scaling_fixed":        on(scaling),
	"gb_midexperiment_scaling_sequential":   on(scaling),
	"spotify_required_sample_size":          on(requiredSample),
	"gb_srm_1":                              on(srm),
	"gb_cuped_theta_pooled":                 on(theta),
	"gb_cuped_relative_mean":                on(adjustedMean),
	"gb_cuped_ratio_golden_improving":       on(adjustedRatio),
	"gb_cuped_ratio_golden_declining":       on(adjustedRatio),
	"confseq_one_sided_normal_mixture":      on(oneSidedMixture),
	"confseq_beta_binomial_two_sided":       on(betaBinomial),
	"confseq_poly_stitching":                on(polyStitching),
	"confseq_quantile_double_stitching":     on(doubleStitching),
	"confseq_empirical_process_lil":         on(empiricalProcess),
	"confseq_quantile_ab_p_value":           on(quantileP),
	"gb_quantile_absolute":                  on(quantiles(stats.AbsoluteLift)),
	"gb_quantile_relative_prior1e6":         on(quantiles(stats.RelativeLift)),
	"woodruff_clustered_quantiles":          on(woodruff),
	"kayenta_percentile_linear":             on(percentiles),
	"kayenta_mw_ci_small":                   on(shift),
	"kayenta_mw_tie_out_with_R":             on(shift),
	"kayenta_wilcoxon_diff":                 on(rankZ),
	"kayenta_mw_intermediate":               on(rankExtremes),
	"gomoremath_mw_large":                   on(rankLarge),
	"gomoremath_mw_small_exact":             on(rankExact),
	"ldof_two_sided_k5":                     on(obrienFleming),
	"ldof_two_sided_k10":                    on(obrienFleming),
	"power_spend3_one_sided":                on(spend(stats.PowerSpending(.025, 3), false)),
	"power_spend2_two_sided":                on(spend(stats.PowerSpending(.05, 2), true)),
	"hsd_minus4_one_sided":                  on(spend(stats.HwangShihDeCani(.025, -4), false)),
	"classical_OF_k4":                       on(classicalOBrienFleming),
	"calendar_spend_information_bounds":     on(calendar),
	"obf_drift_fixed_peeking_error":         on(peeking),
}

// shapes recognise a case by the keys of its input, and by what it expects.
var shapes = []struct {
	input    string
	expected []string
	compute  computation
}{
	{"counts weights", []string{"p"}, on(srm)},
	{"counts k theta0", []string{"p_ssrm", "p_chi2"}, on(srmBoth)},
	{"alpha control n_star treatment", []string{"lower", "upper"}, on(sequenceOneSided(stats.RelativeLift))},
	{"alpha control n_star treatment", []string{"effect", "se", "ci", "p"}, on(sequenceTwoSided)},
	{"alpha control treatment", []string{"effect", "se", "lower", "upper", "p_greater", "p_less"}, on(welchOneSided)},
	{"pairs", []string{"rho2_exact", "rho2_approx"}, on(rhoSquared)},
	{"p", []string{"holm"}, on(holm)},
	{"n1 n2 x1 x2", []string{"z", "p"}, on(twoProportions)},
}

func on[T any](f func(T) values) computation {
	return func(input json.RawMessage) (values, error) {
		var in T
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		return f(in), nil
	}
}

type arm struct {
	N          float64
	X          *float64
	Sum        float64
	SumSquares float64 `json:"sum_squares"`
}

func (a arm) ratio() stats.Ratio {
	if a.X != nil {
		return stats.Proportion(a.N, *a.X)
	}
	return stats.Mean(a.N, a.Sum, a.SumSquares)
}

type arms struct {
	Control, Treatment arm
	Alpha              float64
	NStar              float64 `json:"n_star"`
	MDE                float64 `json:"mde"`
	Power              float64
}

func (a arms) n() float64 { return a.Control.N + a.Treatment.N }

func welchProportions(in arms) values {
	c, t := in.Control.ratio(), in.Treatment.ratio()
	w := stats.NewWelch(stats.RelativeLift(c, t), c, t)
	half := w.HalfWidth(.025)
	return values{"effect": {w.Estimate}, "se": {w.SE}, "ci": {w.Estimate - half, w.Estimate + half}, "p": {w.P()}}
}

func welchMeans(in arms) values {
	c, t := in.Control.ratio(), in.Treatment.ratio()
	w := stats.NewWelch(stats.RelativeLift(c, t), c, t)
	return values{"effect": {w.Estimate}, "p": {w.P()}}
}

func welchOneSided(in arms) values {
	c, t := in.Control.ratio(), in.Treatment.ratio()
	w := stats.NewWelch(stats.RelativeLift(c, t), c, t)
	half := w.HalfWidth(in.Alpha)
	return values{
		"effect": {w.Estimate}, "se": {w.SE}, "lower": {w.Estimate - half}, "upper": {w.Estimate + half},
		"p_greater": {w.UpperP()}, "p_less": {1 - w.UpperP()},
	}
}

type ratioArm struct {
	N  float64
	S  float64 `json:"num_sum"`
	SS float64 `json:"num_sum_squares"`
	M  float64 `json:"den_sum"`
	MM float64 `json:"den_sum_squares"`
	SM float64 `json:"num_den_sum_product"`
}

// welchRatios takes impossible sums on purpose (a negative variance of the denominator): the arithmetic is
// held to the source's, while Moments.Ratio says that they belong to no sample.
func welchRatios(in struct{ Control, Treatment ratioArm }) values {
	c, _ := stats.Moments(in.Control).Ratio()
	t, _ := stats.Moments(in.Treatment).Ratio()
	w := stats.NewWelch(stats.RelativeLift(c, t), c, t)
	return values{"control_ratio": {c.Value}, "treatment_ratio": {t.Value}, "effect": {w.Estimate}, "p": {w.P()}}
}

// clusterRobust makes the source's data: users in two arms with one to five sessions each.
func clusterRobust(struct{}) values {
	var users [2][]stats.Cluster
	rows := 0
	for i := 1; i <= 60; i++ {
		a := i % 2
		var c stats.Cluster
		for j := range 1 + 7*i%5 {
			if (37*i+101*j+13*a)%97 < 60+i%9 {
				c.Num++
			}
			c.Den++
			rows++
		}
		users[a] = append(users[a], c)
	}
	control, _ := stats.RatioOf(users[0])
	candidate, _ := stats.RatioOf(users[1])
	for _, r := range []*stats.Ratio{&control, &candidate} { // the source has no K/(K−1)
		r.Var *= float64(r.Clusters-1) / float64(r.Clusters)
	}
	l := stats.AbsoluteLift(control, candidate)
	return values{"diff": {l.Estimate}, "se": {l.SE}, "n_rows": {float64(rows)}}
}

// ratioOfClusters is what the gate makes of its buckets, on each scale: [num, den] of every cluster.
func ratioOfClusters(in struct{ Control, Treatment [][2]float64 }) values {
	estimate := func(pairs [][2]float64) stats.Ratio {
		clusters := make([]stats.Cluster, len(pairs))
		for i, p := range pairs {
			clusters[i] = stats.Cluster{Num: p[0], Den: p[1]}
		}
		r, _ := stats.RatioOf(clusters)
		return r
	}
	c, t := estimate(in.Control), estimate(in.Treatment)
	both := func(l stats.Lift) []float64 { return []float64{l.Estimate, l.SE} }
	return values{
		"value": {c.Value, t.Value}, "var": {c.Var, t.Var},
		"absolute": both(stats.AbsoluteLift(c, t)), "relative": both(stats.RelativeLift(c, t)),
		"log_ratio": both(stats.LogRatioLift(c, t)), "log_mean": both(stats.LogMeanLift(c, t)),
	}
}

func sequenceTwoSided(in arms) values {
	l := stats.RelativeLift(in.Control.ratio(), in.Treatment.ratio())
	s := stats.TwoSided(in.Alpha, in.NStar)
	half := s.BothFactor(in.n()) * l.SE
	return values{"effect": {l.Estimate}, "se": {l.SE}, "ci": {l.Estimate - half, l.Estimate + half}, "p": {s.P(l, in.n())}}
}

func sequenceOneSided(lift func(c, t stats.Ratio) stats.Lift) func(arms) values {
	return func(in arms) values {
		l := lift(in.Control.ratio(), in.Treatment.ratio())
		half := stats.OneSided(in.Alpha, in.NStar).LowerFactor(in.n()) * l.SE
		return values{"lower": {l.Estimate - half}, "upper": {l.Estimate + half}}
	}
}

func sequenceOneSidedP(in arms) values {
	l := stats.AbsoluteLift(in.Control.ratio(), in.Treatment.ratio())
	return values{"p": {stats.OneSided(in.Alpha, in.NStar).UpperP(l, in.n())}}
}

func rhoSquared(in struct{ Pairs [][2]float64 }) values {
	out := values{}
	for _, p := range in.Pairs {
		out["rho2_exact"] = append(out["rho2_exact"], stats.ExactRhoSquared(p[0], p[1]))
		out["rho2_approx"] = append(out["rho2_approx"], stats.TwoSided(p[0], p[1]).RhoSquared)
	}
	return out
}

// normalMixture is the same object in confseq's words: its rho is 1/ρ², its v is n, its bound is one of a sum.
func normalMixture(in struct {
	S, V     float64
	VOpt     float64 `json:"v_opt"`
	Alpha    float64
	AlphaOpt float64 `json:"alpha_opt"`
},
) values {
	s := stats.TwoSided(in.AlphaOpt, in.VOpt)
	s.Alpha = in.Alpha
	p := s.P(stats.Lift{Estimate: in.S / in.V, SE: 1 / math.Sqrt(in.V)}, in.V)
	v := in.V * s.RhoSquared
	logMixture := -math.Log(p)
	if p == 1 { // P is capped, the mixture isn't
		logMixture = in.S*in.S*s.RhoSquared/(2*(v+1)) - math.Log1p(v)/2
	}
	return values{"best_rho": {1 / s.RhoSquared}, "log_mixture": {logMixture}, "bound": {s.BothFactor(in.V) * math.Sqrt(in.V)}}
}

func srm(in struct{ Counts, Weights []float64 }) values {
	return values{"p": {stats.ChiSquareSRM(in.Counts, in.Weights)}}
}

func srmBoth(in struct {
	Theta0 []float64
	K      float64
	Counts [][]float64
},
) values {
	out := values{}
	for _, c := range in.Counts {
		out["p_ssrm"] = append(out["p_ssrm"], stats.SequentialSRM(c, in.Theta0, in.K))
		out["p_chi2"] = append(out["p_chi2"], stats.ChiSquareSRM(c, in.Theta0))
	}
	return out
}

type counts struct{ X1, N1, X2, N2 float64 }

func (in counts) ratios() (first, second stats.Ratio) {
	return stats.Proportion(in.N1, in.X1), stats.Proportion(in.N2, in.X2)
}

func interval(l stats.Lift, alpha float64) []float64 {
	half := stats.UpperPoint(alpha/2) * l.SE
	return []float64{l.Estimate - half, l.Estimate + half}
}

func waldDifference(in counts) values {
	first, second := in.ratios()
	return values{"ci": interval(stats.AbsoluteLift(second, first), .05)}
}

func agrestiCaffo(in counts) values {
	return values{"ci": interval(stats.AgrestiCaffo(in.X1, in.N1, in.X2, in.N2), .05)}
}

func katz(in counts) values {
	first, second := in.ratios()
	ci := interval(stats.LogRatioLift(second, first), .05)
	return values{"ci": {math.Exp(ci[0]), math.Exp(ci[1])}}
}

func twoProportions(in counts) values {
	z := stats.TwoProportionZ(in.X1, in.N1, in.X2, in.N2)
	return values{"z": {z}, "p": {stats.TwoSidedP(z)}}
}

func holm(in struct{ P []float64 }) values { return values{"holm": stats.Holm(in.P)} }

func deltaAndNaive(in arms) values {
	c, t := in.Control.ratio(), in.Treatment.ratio()
	relative, absolute := stats.RelativeLift(c, t), stats.AbsoluteLift(c, t)
	naive := interval(absolute, .05)
	return values{
		"rel": {relative.Estimate}, "delta_ci": interval(relative, .05),
		"naive_ci": {naive[0] / c.Value, naive[1] / c.Value},
	}
}

func nonInferiority(in struct{ X, N, Low, Upp float64 }) values {
	p := stats.Proportion(in.N, in.X)
	l := stats.Lift{Estimate: p.Value, SE: math.Sqrt(p.Var)}
	return values{
		"z_low": {stats.NonInferiorityZ(l, -in.Low)}, "z_upp": {stats.NonInferiorityZ(l, -in.Upp)},
		"ci90": interval(l, .10),
	}
}

// scaling is by how much more sample the effect would be found: the control and variances held, the candidate
// moved to the effect.
func scaling(in arms) values {
	c, t := in.Control.ratio(), in.Treatment.ratio()
	t.Value = c.Value * (1 + in.MDE)
	se := stats.RelativeLift(c, t).SE
	low, high := 0., 1e6
	for range 100 {
		more := (low + high) / 2
		factor := stats.UpperPoint(.025)
		if in.NStar > 0 {
			factor = stats.TwoSided(.05, in.NStar).BothFactor(in.n() * (1 + more))
		}
		if stats.Power(in.MDE, se/math.Sqrt(1+more), factor) < in.Power {
			low = more
		} else {
			high = more
		}
	}
	return values{"scaling_factor": {low}}
}

func requiredSample(in struct {
	Control    arm
	TreatmentN float64 `json:"treatment_n"`
	MDE        float64 `json:"mde_relative"`
	Power      float64
	Alpha      float64
},
) values {
	c := in.Control.ratio()
	n := stats.SampleFor(in.MDE*c.Value, c.Var*in.Control.N, in.Control.N/in.TreatmentN, stats.UpperPoint(in.Alpha/2), in.Power)
	return values{"required_total": {n}}
}

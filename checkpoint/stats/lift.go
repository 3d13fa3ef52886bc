package stats

import "math"

// Lift is the candidate against the control on one scale, with its standard error.
type Lift struct{ Estimate, SE float64 }

// RelativeLift is (r_T − r_C)/|r_C| with SE² = Var_T/r_C² + Var_C·r_T²/r_C⁴ (delta method; GrowthBook's
// relative effect).
func RelativeLift(control, candidate Ratio) Lift {
	c, t := control.Value, candidate.Value
	return Lift{
		Estimate: (t - c) / math.Abs(c),
		SE:       math.Sqrt(candidate.Var/(c*c) + control.Var*t*t/(c*c*c*c)),
	}
}

// AbsoluteLift is r_T − r_C.
func AbsoluteLift(control, candidate Ratio) Lift {
	return Lift{Estimate: candidate.Value - control.Value, SE: math.Sqrt(candidate.Var + control.Var)}
}

// LogMeanLift is the relative change of a geometric mean, for ratios that are means of logarithms:
// exp(r_T − r_C) − 1 with SE = (1 + D)·√(Var_T + Var_C) (delta method).
func LogMeanLift(control, candidate Ratio) Lift {
	growth := math.Exp(candidate.Value - control.Value)
	return Lift{Estimate: growth - 1, SE: growth * math.Sqrt(candidate.Var+control.Var)}
}

// LogRatioLift is log(r_T/r_C), with the delta method's √(Var_T/r_T² + Var_C/r_C²): Katz's interval for a
// rare rate (Katz, Baptista, Azen, Pise, Biometrics 1978). Its bounds turn into relative changes by exp(b) − 1.
func LogRatioLift(control, candidate Ratio) Lift {
	c, t := control.Value, candidate.Value
	return Lift{
		Estimate: math.Log(t / c),
		SE:       math.Sqrt(candidate.Var/(t*t) + control.Var/(c*c)),
	}
}

// WithRareEvents keeps a rate without events from claiming to be known exactly: when either arm has less than
// one event, both get half an event more, with its Poisson variance (the correction of Haldane and Anscombe).
func WithRareEvents(control, candidate Ratio) (Ratio, Ratio) {
	if control.Num >= 1 && candidate.Num >= 1 {
		return control, candidate
	}
	return halfEventMore(control), halfEventMore(candidate)
}

func halfEventMore(r Ratio) Ratio {
	r.Num += .5
	r.Value = r.Num / r.Den
	r.Var += .5 / (r.Den * r.Den)
	return r
}

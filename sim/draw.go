package sim

import (
	"math"
	"math/rand/v2"
)

// logNormal draws from the log-normal distribution with that median and that standard deviation of the logarithm.
func logNormal(r *rand.Rand, median, sd float64) float64 {
	return median * math.Exp(sd*r.NormFloat64())
}

// beta draws from the beta distribution with that mean; spread is the sum of its two parameters.
func beta(r *rand.Rand, mean, spread float64) float64 {
	x, y := gamma(r, mean*spread), gamma(r, (1-mean)*spread)
	if x+y == 0 {
		return mean
	}
	return x / (x + y)
}

// gamma draws from the gamma distribution of scale 1 (Marsaglia and Tsang 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(r.Float64(), 1/shape)
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// whole rounds x up or down at random so that the mean is kept.
func whole(r *rand.Rand, x float64) int {
	return int(x + r.Float64())
}

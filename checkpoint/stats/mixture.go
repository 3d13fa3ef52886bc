package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// The boundaries of this file are about sums S with intrinsic time v, not about estimates and standard errors: S crosses
// its bound at any time with probability alpha at most (Howard, Ramdas, McAuliffe, Sekhon, Annals of Statistics 2021).
// They hold without a normal law, and are what the gate's asymptotic sequences are compared with.

// NormalMixture is the one-sided normal mixture with its parameter rho.
type NormalMixture struct{ Rho float64 }

// OneSidedMixture tunes the mixture to be narrowest at time v for that alpha.
func OneSidedMixture(v, alpha float64) NormalMixture {
	return NormalMixture{Rho: 1 / rhoSquared(2*alpha, v)}
}

// Log is the logarithm of the mixture at s and v: ½ ln(4ρ/(v+ρ)) + s²/(2(v+ρ)) + ln Φ(s/√(v+ρ)).
func (m NormalMixture) Log(s, v float64) float64 {
	root := math.Sqrt(v + m.Rho)
	return math.Log(4*m.Rho/(v+m.Rho))/2 + s*s/(2*(v+m.Rho)) + math.Log(UpperTail(-s/root))
}

// Bound is where the mixture reaches 1/alpha.
func (m NormalMixture) Bound(v, alpha float64) float64 {
	return reaches(func(s float64) float64 { return m.Log(s, v) }, -math.Log(alpha), math.Inf(1), v)
}

// BetaBinomial is the two-sided mixture for steps between −g and h.
type BetaBinomial struct{ G, H, r float64 }

// TwoSidedBetaBinomial tunes the mixture to be narrowest at time v for that alpha.
func TwoSidedBetaBinomial(v, alpha, g, h float64) BetaBinomial {
	return BetaBinomial{G: g, H: h, r: math.Max(1/rhoSquared(alpha, v)-g*h, 1e-3*g*h)}
}

// Log is the logarithm of the mixture at s and v.
func (m BetaBinomial) Log(s, v float64) float64 {
	g, h, sum := m.G, m.H, m.G+m.H
	return v/(g*h)*math.Log(sum) - (v+h*s)/(h*sum)*math.Log(g) - (v-g*s)/(g*sum)*math.Log(h) +
		logBeta((m.r+v-g*s)/(g*sum), (m.r+v+h*s)/(h*sum)) - logBeta(m.r/(g*sum), m.r/(h*sum))
}

// Bound is where the mixture reaches 1/alpha; v/g, the most that S can be, where it never does.
func (m BetaBinomial) Bound(v, alpha float64) float64 {
	return reaches(func(s float64) float64 { return m.Log(s, v) }, -math.Log(alpha), v/m.G, v)
}

func logBeta(a, b float64) float64 { return logGamma(a) + logGamma(b) - logGamma(a+b) }

// reaches is the s from 0 to most at which a growing f comes to the threshold.
func reaches(f func(float64) float64, threshold, most, first float64) float64 {
	high := most
	if math.IsInf(most, 1) {
		for high = first; f(high) < threshold; high *= 2 {
		}
	} else if f(most) < threshold {
		return most
	}
	low := 0.
	for range 200 {
		mid := (low + high) / 2
		if f(mid) < threshold {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// The spacing of epochs and how the error is spread over them, as in the papers' own examples.
const (
	stitchEta = 2
	stitchS   = 1.4
)

var (
	stitchK1 = (math.Pow(stitchEta, .25) + math.Pow(stitchEta, -.25)) / math.Sqrt2
	stitchK2 = (math.Sqrt(stitchEta) + 1) / 2
)

// PolyStitching is the polynomial stitched bound at time v for sub-gamma increments of scale c, valid from vMin on
// (theorem 1 and its example).
func PolyStitching(v, alpha, vMin, c float64) float64 {
	v = math.Max(v, vMin)
	ell := stitchS*math.Log(math.Log(stitchEta*v/vMin)) + math.Log(mathext.Zeta(stitchS, 1)/math.Pow(math.Ln2, stitchS)) - math.Log(alpha)
	scale := stitchK2 * c * ell
	return math.Sqrt(stitchK1*stitchK1*v*ell+scale*scale) + scale
}

package stats

import "math"

// DesignEffect is how much clustering of events in units widens a variance: 1 + (m̄(1+CV²) − 1)·ICC for units
// with m̄ events on average, their number's coefficient of variation and the correlation inside a unit
// (Kish 1965; the size-weighted mean ΣM²/ΣM written as m̄(1+CV²)).
func DesignEffect(eventsPerUnit, cv, icc float64) float64 {
	return 1 + math.Max(0, eventsPerUnit*(1+cv*cv)-1)*icc
}

// LiftSE is the standard error of a relative lift between two equal arms with events in both: u·√(4·DEFF/N),
// u being an event's standard deviation over its mean.
func LiftSE(u, events, designEffect float64) float64 { return u * math.Sqrt(4*designEffect/events) }

// Power is the probability that a lift of this size, seen with that standard error, clears zero by z.
func Power(effect, se, z float64) float64 { return UpperTail(z - effect/se) }

// Detectable is the smallest effect that clears zero by z with the given power.
func Detectable(se, z, power float64) float64 { return (z + UpperPoint(1-power)) * se }

// SampleFor is the size of both arms at which the effect is found at z with the given power, for an arm's
// variance per unit and kappa = control units per candidate unit (the formula of Spotify's confidence).
func SampleFor(effect, variance, kappa, z, power float64) float64 {
	root := (z + UpperPoint(1-power)) / effect
	return root * root * (variance/kappa + variance) * (1 + kappa)
}

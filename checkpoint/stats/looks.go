package stats

import "math"

// A Spending is how much of the error may be used up to a share t of the test, 0 … 1.
type Spending func(t float64) float64

// OBrienFleming spends alpha as O'Brien and Fleming's bounds about do: hardly anything early (Lan and DeMets,
// Biometrika 1983). Two-sided: 4(1 − Φ(z_{α/4}/√t)), the whole of both sides.
func OBrienFleming(alpha float64) Spending {
	return func(t float64) float64 { return 4 * UpperTail(UpperPoint(alpha/4)/math.Sqrt(t)) }
}

// PowerSpending spends alpha·t^rho (Kim and DeMets, Biometrika 1987).
func PowerSpending(alpha, rho float64) Spending {
	return func(t float64) float64 { return alpha * math.Pow(t, rho) }
}

// HwangShihDeCani spends alpha·(1 − e^{−γt})/(1 − e^{−γ}) (Statistics in Medicine 1990).
func HwangShihDeCani(alpha, gamma float64) Spending {
	return func(t float64) float64 { return alpha * math.Expm1(-gamma*t) / math.Expm1(-gamma) }
}

// Bounds are the critical values at looks with that information, when the error is spent by those times: both are shares
// or numbers that grow. By the recursion of Armitage, McPherson and Rowe (JRSS A 1969).
func Bounds(information, times []float64, spend Spending, twoSided bool) []float64 {
	w := newWalk(information, twoSided)
	out := make([]float64, len(information))
	var spent float64
	for k := range information {
		part := spend(times[k]) - spent
		spent += part
		low, high := 0., 40.
		for range 60 {
			if mid := (low + high) / 2; w.exit(mid) > part {
				low = mid
			} else {
				high = mid
			}
		}
		out[k] = (low + high) / 2
		w.advance(out[k])
	}
	return out
}

// ExitProbability is how often one of the looks crosses its bound when nothing is there to see.
func ExitProbability(information, bounds []float64, twoSided bool) float64 {
	w := newWalk(information, twoSided)
	var total float64
	for _, b := range bounds {
		total += w.exit(b)
		w.advance(b)
	}
	return total
}

// ClassicalOBrienFleming are the bounds C/√(k/K) of K equally spaced looks with error alpha on both sides (O'Brien and
// Fleming, Biometrics 1979).
func ClassicalOBrienFleming(looks int, alpha float64) []float64 {
	information, bounds := EqualLooks(looks), make([]float64, looks)
	low, high := 0., 10.
	for range 35 {
		c := (low + high) / 2
		for k, i := range information {
			bounds[k] = c / math.Sqrt(i)
		}
		if ExitProbability(information, bounds, true) > alpha {
			low = c
		} else {
			high = c
		}
	}
	return bounds
}

// EqualLooks are the shares of information of equally spaced looks.
func EqualLooks(n int) []float64 {
	out := make([]float64, n)
	for k := range out {
		out[k] = float64(k+1) / float64(n)
	}
	return out
}

// walk is a Brownian motion seen at a few times, by the density of those paths that have not been stopped.
type walk struct {
	information []float64
	twoSided    bool
	k           int
	points      []float64
	mass        []float64 // density times the weight of Simpson's rule
}

const gridPoints = 401 // odd

func newWalk(information []float64, twoSided bool) *walk {
	return &walk{information: information, twoSided: twoSided, points: []float64{0}, mass: []float64{1}}
}

func (w *walk) step() (root float64) {
	before := 0.
	if w.k > 0 {
		before = w.information[w.k-1]
	}
	return math.Sqrt(w.information[w.k] - before)
}

// exit is the probability of crossing z at the next look and not before.
func (w *walk) exit(z float64) float64 {
	at, root := z*math.Sqrt(w.information[w.k]), w.step()
	var p float64
	for i, x := range w.points {
		tail := UpperTail((at - x) / root)
		if w.twoSided {
			tail += UpperTail((at + x) / root)
		}
		p += w.mass[i] * tail
	}
	return p
}

// advance goes on to the next look with the paths that haven't crossed z.
func (w *walk) advance(z float64) {
	scale, root := math.Sqrt(w.information[w.k]), w.step()
	high := math.Min(z, 9) * scale
	low := -high
	if !w.twoSided {
		low = -9 * scale
	}
	points, mass := make([]float64, gridPoints), make([]float64, gridPoints)
	h := (high - low) / (gridPoints - 1)
	for j := range points {
		x := low + float64(j)*h
		var f float64
		for i, from := range w.points {
			f += w.mass[i] * density((x-from)/root)
		}
		weight := 2.
		switch {
		case j == 0 || j == gridPoints-1:
			weight = 1
		case j%2 == 1:
			weight = 4
		}
		points[j], mass[j] = x, f/root*weight*h/3
	}
	w.points, w.mass = points, mass
	w.k++
}

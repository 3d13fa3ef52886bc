package sim

import "math/rand/v2"

// outages are the windows in which the model's provider fails, the same for every arm: one in about two and a half
// hours, two to four minutes long.
type outages struct {
	rng         *rand.Rand
	from, until int64 // the current window, or the next one
	calm        bool
}

const shareFailing = .7 // of the turns that begin in an outage

// during says whether an outage is on; it is asked with times that never go back.
func (o *outages) during(at int64) bool {
	if o.calm {
		return false
	}
	for at >= o.until {
		o.from = o.until + int64(2.5*float64(hour)*(.4+.6*o.rng.ExpFloat64()))
		o.until = o.from + 2*minute + int64(2*float64(minute)*o.rng.Float64())
	}
	return at >= o.from
}

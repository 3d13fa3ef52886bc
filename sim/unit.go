package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"millrace/schemas/event"
)

const (
	second = int64(1_000_000) // in µs
	minute = 60 * second
	hour   = 60 * minute
)

// The spread between units: of a turn's log latency, and of the mean retention of their edits.
const (
	unitLatencySD = .40
	unitKeptSD    = .08
)

// Turns in a session: the chance of 1, 2, … 6. A question that ends a session adds the turn of its answer.
var sessionLengths = [...]float64{.30, .25, .18, .13, .09, .05}

const meanSessionTurns = 2.66

// unit is one synthetic user.
type unit struct {
	id         string
	rng        *rand.Rand
	rate       float64 // sessions per µs, before the daily rhythm
	latency    float64 // added to the log latency of its turns
	kept       float64 // added to the mean retention of its edits
	script     int     // that it writes in
	autoAccept bool    // edits are written at once, undone later if at all
	privacy    event.Privacy
	skew       int64 // its clock minus the true time, µs
	repository *event.Repository
	arrival    int64 // when it last wanted to begin a session
	sessions   uint64
}

var languages = [...]string{"go", "typescript", "python", "rust", "java"}

func newUnit(cfg *Config, i int) *unit {
	r := rand.New(rand.NewPCG(cfg.Seed, mix(uint64(i)+1)))
	u := &unit{id: "u" + base36(mix(cfg.Seed^(uint64(i)+1)<<20)>>24), rng: r}
	// The sum of two exponentials is gamma-distributed with shape 2.
	activity := (r.ExpFloat64() + r.ExpFloat64()) / 2
	u.rate = activity * cfg.TurnsPerUnitHour / meanSessionTurns / float64(hour)
	u.latency = unitLatencySD * r.NormFloat64()
	u.kept = unitKeptSD * r.NormFloat64()
	u.script = r.IntN(len(scripts))
	u.autoAccept = r.Float64() < .3
	u.privacy = event.Privacy_FULL
	switch p := r.Float64(); {
	case p < .005:
		u.privacy = event.Privacy_METRICS_ONLY
	case p < .02:
		u.privacy = event.Privacy_NO_CONTENT
	}
	skew := int64(2 * float64(second) * r.NormFloat64())
	if r.IntN(500) == 0 {
		skew = 365 * 24 * hour * int64(1-2*r.IntN(2)) // a clock a year off
	}
	if !cfg.Calm {
		u.skew = skew
	}
	u.repository = &event.Repository{
		IdHash:       base36(mix(r.Uint64())),
		SizeClass:    [...]string{"small", "medium", "large"}[r.IntN(3)],
		MainLanguage: languages[r.IntN(len(languages))],
	}
	u.arrival = cfg.Start.UnixMicro()
	return u
}

// nextArrival draws when the unit wants to begin its next session.
func (u *unit) nextArrival(start int64) int64 {
	gap := u.rng.ExpFloat64() / (u.rate * rhythm(u.arrival-start))
	if gap > float64(30*24*hour) {
		gap = float64(30 * 24 * hour)
	}
	u.arrival += int64(gap)
	return u.arrival
}

// rhythm is the mild daily rhythm of traffic, 1 on average; it rises through the first five and a half hours.
func rhythm(since int64) float64 {
	const day, centre = float64(24 * hour), float64(11 * hour / 4)
	return 1 + .25*math.Sin(2*math.Pi*(float64(since)-centre)/day)
}

// mix is splitmix64's finaliser: neighbouring numbers give unrelated ones.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

func microTime(us int64) time.Time { return time.UnixMicro(us).UTC() }

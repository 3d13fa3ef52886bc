package ingest

import (
	"math"
	"sync"
	"time"
)

// rates is a token bucket for each caller: rate events per second in the long run, burst at once.
type rates struct {
	rate, burst float64

	mu      sync.Mutex
	buckets map[string]bucket
}

type bucket struct {
	level float64
	at    time.Time
}

const maxBuckets = 10_000

// take lets n events of a caller pass, or says after how many seconds to come again.
func (r *rates) take(caller string, n int, now time.Time) (seconds int, ok bool) {
	if r.rate <= 0 {
		return 0, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.buckets[caller]
	if !known {
		if len(r.buckets) >= maxBuckets {
			clear(r.buckets)
		}
		b = bucket{level: r.burst, at: now}
	}
	b.level = math.Min(r.burst, b.level+r.rate*now.Sub(b.at).Seconds())
	b.at = now
	// A batch as large as the bucket passes when the bucket is full.
	if missing := math.Min(float64(n), r.burst) - b.level; missing > 0 {
		r.buckets[caller] = b
		return max(1, int(math.Ceil(missing/r.rate))), false
	}
	b.level -= float64(n)
	r.buckets[caller] = b
	return 0, true
}

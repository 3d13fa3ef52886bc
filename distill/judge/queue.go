package judge

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// waiting is an ask and the clock of its partition: the log time, in µs.
type waiting struct {
	*Ask
	clock *atomic.Int64
}

func (w waiting) late() bool { return w.clock.Load() >= w.settles }

// queue holds the asks that wait for a judge, oldest first. What has become too late makes room for others.
type queue struct {
	most int
	late func(int) // is told how many were dropped

	mu    sync.Mutex
	asks  []waiting
	taken map[*Ask]bool // by a worker; true: removed meanwhile, so that it must not come back
	ready chan struct{} // holds one if an ask may be there
}

func newQueue(most int, late func(int)) *queue {
	return &queue{most: most, late: late, taken: map[*Ask]bool{}, ready: make(chan struct{}, 1)}
}

// offer takes an ask if there is room.
func (q *queue) offer(w waiting) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.asks) >= q.most {
		n := len(q.asks)
		q.asks = slices.DeleteFunc(q.asks, waiting.late)
		q.late(n - len(q.asks))
	}
	if len(q.asks) >= q.most {
		return false
	}
	q.asks = append(q.asks, w)
	q.wake()
	return true
}

// back puts a taken ask at the front again, since nobody answered.
func (q *queue) back(w waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if removed := q.taken[w.Ask]; !removed {
		q.asks = slices.Insert(q.asks, 0, w)
		q.wake()
	}
	delete(q.taken, w.Ask)
}

// done is said of a taken ask that doesn't come back.
func (q *queue) done(w waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.taken, w.Ask)
}

// await waits until there is something to take; false if ctx ended.
func (q *queue) await(ctx context.Context) bool {
	for q.length() == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-q.ready:
		}
	}
	return ctx.Err() == nil
}

// take gives the oldest ask that is not too late, if there is one.
func (q *queue) take() (waiting, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.asks) > 0 {
		w := q.asks[0]
		q.asks[0] = waiting{}
		q.asks = q.asks[1:]
		if len(q.asks) > 0 {
			q.wake() // for the next worker
		}
		if !w.late() {
			q.taken[w.Ask] = false
			return w, true
		}
		q.late(1)
	}
	return waiting{}, false
}

// remove drops the asks that are meant, also those that were taken and may come back, and gives their number.
func (q *queue) remove(meant func(*Ask) bool) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.asks)
	q.asks = slices.DeleteFunc(q.asks, func(w waiting) bool { return meant(w.Ask) })
	n -= len(q.asks)
	for a, removed := range q.taken {
		if !removed && meant(a) {
			q.taken[a] = true
			n++
		}
	}
	return n
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.asks)
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

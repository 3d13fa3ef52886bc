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
	ready chan struct{} // holds one if an ask may be there
}

func newQueue(most int, late func(int)) *queue {
	return &queue{most: most, late: late, ready: make(chan struct{}, 1)}
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

// back puts an ask at the front again that nobody answered.
func (q *queue) back(w waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asks = slices.Insert(q.asks, 0, w)
	q.wake()
}

// next waits for an ask that is not too late; false if ctx ended.
func (q *queue) next(ctx context.Context) (waiting, bool) {
	for {
		if w, ok := q.take(); ok {
			return w, true
		}
		select {
		case <-ctx.Done():
			return waiting{}, false
		case <-q.ready:
		}
	}
}

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
			return w, true
		}
		q.late(1)
	}
	return waiting{}, false
}

// remove drops the asks that are meant, and gives their number.
func (q *queue) remove(meant func(*Ask) bool) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.asks)
	q.asks = slices.DeleteFunc(q.asks, func(w waiting) bool { return meant(w.Ask) })
	return n - len(q.asks)
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

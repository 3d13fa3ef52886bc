package judge

import (
	"context"
	"sync"
	"time"
)

const (
	failuresToOpen = 3
	longestRest    = time.Minute
)

// breaker leaves an endpoint alone that doesn't answer: after three failures in a row nobody asks for a while, then one
// tries. Each failure of a trial doubles the while, up to a minute; a success ends it.
type breaker struct {
	first time.Duration // of the rests

	mu       sync.Mutex
	failures int
	until    time.Time // when the next trial may be made
	trying   bool
	changed  chan struct{} // closed at every change
}

func newBreaker(first time.Duration) *breaker {
	return &breaker{first: first, changed: make(chan struct{})}
}

// wait returns true when the caller may ask; false if ctx ended. Whoever may ask says afterwards that the
// endpoint answered or failed, or releases his turn.
func (b *breaker) wait(ctx context.Context) bool {
	for ctx.Err() == nil {
		b.mu.Lock()
		rest := time.Until(b.until)
		switch {
		case b.failures < failuresToOpen:
			b.mu.Unlock()
			return true
		case rest <= 0 && !b.trying:
			b.trying = true
			b.mu.Unlock()
			return true
		case b.trying:
			rest = longestRest // the trial's end tells
		}
		changed := b.changed
		b.mu.Unlock()
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return false
}

// failed notes a failure; it says whether the endpoint is left alone from now on, where it wasn't.
func (b *breaker) failed() (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	if over := b.failures - failuresToOpen; over >= 0 {
		b.until = time.Now().Add(min(longestRest, b.first<<min(over, 10)))
	}
	b.tell()
	return b.failures == failuresToOpen
}

// answered notes a success; it says whether the endpoint had been left alone.
func (b *breaker) answered() (closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	closed = b.failures >= failuresToOpen
	b.failures = 0
	b.tell()
	return closed
}

// release gives a trial back that was not made.
func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tell()
}

func (b *breaker) tell() {
	b.trying = false
	close(b.changed)
	b.changed = make(chan struct{})
}

// open says whether the endpoint is being left alone.
func (b *breaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= failuresToOpen
}

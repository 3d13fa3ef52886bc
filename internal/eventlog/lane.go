package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// A batch in flight holds at most so much; one larger message goes alone.
const (
	batchMessages = 2000
	batchBytes    = 4 << 20
)

// lane appends to one partition, one batch in flight, which is what keeps the order.
type lane struct {
	writer    *Writer
	partition int
	wake      chan struct{}

	mu     sync.Mutex
	queue  []entry
	closed bool
}

func (l *lane) push(entries []entry) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.queue = append(l.queue, entries...)
	}
	l.mu.Unlock()
	if closed {
		settleAll(entries, ErrClosed)
		return
	}
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (l *lane) run() {
	defer l.writer.lanes.Done()
	for {
		select {
		case <-l.wake:
			for batch := l.take(); len(batch) > 0; batch = l.take() {
				l.send(batch)
			}
		case <-l.writer.ctx.Done():
			l.mu.Lock()
			rest := l.queue
			l.queue, l.closed = nil, true
			l.mu.Unlock()
			settleAll(rest, ErrClosed)
			return
		}
	}
}

func (l *lane) take() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, 0
	for n < len(l.queue) && n < batchMessages && (n == 0 || bytes+l.queue[n].size <= batchBytes) {
		bytes += l.queue[n].size
		n++
	}
	batch := l.queue[:n:n]
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil // give the array back
	}
	return batch
}

// send appends a batch, again and again if need be, until each entry has its answer.
func (l *lane) send(batch []entry) {
	for wait := newBackoff(); ; {
		if batch = l.waitedFor(batch); len(batch) == 0 {
			return
		}
		refused, err := l.produce(batch)
		switch {
		case err == nil:
			l.writer.gone.present()
			settleAll(batch, nil)
			return
		case l.writer.ctx.Err() != nil:
			settleAll(batch, ErrClosed)
			return
		case Retryable(err):
			for i := range batch {
				batch[i].call.tried(err)
			}
			if !wait.sleep(l.writer.ctx, l.writer.ctx) {
				settleAll(batch, ErrClosed)
				return
			}
		case !causedByOne(err) || len(batch) == 1:
			settleAll(batch, err)
			return
		case len(refused) > 0:
			// The broker names the records: answer them, and send the rest again.
			rest := batch[:0:0]
			for i := range batch {
				if refused[i] {
					batch[i].settle(err)
				} else {
					rest = append(rest, batch[i])
				}
			}
			batch = rest
		default:
			// Some entry is to blame: halve until it stands alone. The order holds.
			half := len(batch) / 2
			l.send(batch[:half])
			batch = batch[half:]
		}
	}
}

// produce appends a batch once. Besides the error it returns the indices of the records that the broker names.
func (l *lane) produce(batch []entry) (map[int]bool, error) {
	w := l.writer
	records := make([]kafka.Record, len(batch))
	for i, e := range batch {
		records[i] = kafka.Record{Time: e.time, Key: kafka.NewBytes(e.message.Key), Value: kafka.NewBytes(e.message.Value)}
		if len(e.message.Headers) > 0 {
			records[i].Headers = make([]kafka.Header, len(e.message.Headers))
			for j, h := range e.message.Headers {
				records[i].Headers[j] = kafka.Header(h)
			}
		}
	}
	response, err := w.client.Produce(w.ctx, &kafka.ProduceRequest{
		Topic:        w.topic,
		Partition:    l.partition,
		RequiredAcks: kafka.RequireAll,
		Compression:  kafka.Snappy,
		Records:      kafka.NewRecordReader(records...),
	})
	refused := map[int]bool{}
	if err == nil {
		err = response.Error
		for i := range response.RecordErrors {
			if i >= 0 && i < len(batch) {
				refused[i] = true
			}
		}
	}
	if err != nil {
		err = w.gone.explain(w.ctx, w.client, w.topic, err)
		err = fmt.Errorf("topic %s partition %d: %w", w.topic, l.partition, err)
	}
	return refused, err
}

func causedByOne(err error) bool {
	var code kafka.Error
	return errors.As(err, &code) && perMessage[code]
}

// waitedFor drops the entries whose caller has gone.
func (l *lane) waitedFor(batch []entry) []entry {
	for i := range batch {
		if batch[i].call.ctx.Err() != nil {
			kept := append(batch[:0:0], batch[:i]...)
			for _, e := range batch[i:] {
				if err := e.call.ctx.Err(); err != nil {
					e.settle(l.writer.because(err, e.call.lastError()))
				} else {
					kept = append(kept, e)
				}
			}
			return kept
		}
	}
	return batch
}

func settleAll(batch []entry, err error) {
	for i := range batch {
		batch[i].settle(err)
	}
}

// backoff doubles from 20 ms to 1 s, jittered.
type backoff struct{ next time.Duration }

func newBackoff() *backoff { return &backoff{20 * time.Millisecond} }

// sleep waits; false if one of the contexts ended first.
func (b *backoff) sleep(x, y context.Context) bool {
	timer := time.NewTimer(b.next/2 + rand.N(b.next/2))
	defer timer.Stop()
	b.next = min(2*b.next, time.Second)
	select {
	case <-timer.C:
		return true
	case <-x.Done():
	case <-y.Done():
	}
	return false
}

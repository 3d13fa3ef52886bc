package eventlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// Writer appends messages to one topic, durably (acks=all) and in order per partition. It is safe for concurrent use.
type Writer struct {
	topic  string
	client *kafka.Client
	limit  int
	gone   absence

	ctx   context.Context // ends at Close
	close context.CancelFunc
	lanes sync.WaitGroup

	mu         sync.Mutex
	byPart     map[int32]*lane
	partitions int // 0: not asked yet
}

// NewWriter makes a writer of one topic of cfg: the events', the dead letters' or the checkpoints'. It doesn't connect yet.
func NewWriter(cfg Config, topic string) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	w := &Writer{
		topic:  topic,
		client: cfg.client(ackTimeout, topic),
		limit:  MaxMessageBytes,
		byPart: map[int32]*lane{},
	}
	if topic == cfg.DeadLetterTopic() {
		w.limit = maxDeadLetterBytes
	}
	w.ctx, w.close = context.WithCancel(context.Background())
	return w, nil
}

// Topic is the topic that is written.
func (w *Writer) Topic() string { return w.topic }

// Write appends messages and waits. The answer has one error per message, nil when the message is durable on all
// in-sync replicas. Messages of one partition are appended in the order given, and after those of earlier calls that
// have returned. What can never be taken (ErrTooLarge, a time too far ahead of the broker's clock) gets its own error
// and doesn't fail its neighbours. What may be taken later is tried again until ctx ends; a message whose error is
// the context's may have been appended all the same. A message may be appended more than once.
// The bytes must not change before Write returns; after a context's end, not at all.
func (w *Writer) Write(ctx context.Context, messages ...Message) []error {
	c := &call{ctx: ctx, errs: make([]error, len(messages)), open: len(messages), done: make(chan struct{})}
	if len(messages) == 0 {
		return nil
	}
	partitions, err := w.Partitions(ctx)
	if err != nil {
		return c.abandon(err)
	}
	now := time.Now()
	queued := map[int32][]entry{}
	for i := range messages {
		m := &messages[i]
		p := m.Partition
		if p == AnyPartition {
			p = PartitionOf(m.Key, partitions)
		}
		e := entry{message: m, size: m.size(), time: m.Time, call: c, index: i}
		if e.time.IsZero() {
			e.time = now
		}
		switch {
		case p < 0 || int(p) >= partitions:
			e.settle(fmt.Errorf("topic %s has partitions 0 to %d, not %d", w.topic, partitions-1, p))
		case e.size > w.limit:
			e.settle(fmt.Errorf("%w: %d bytes for topic %s, the limit is %d", ErrTooLarge, e.size, w.topic, w.limit))
		default:
			queued[p] = append(queued[p], e)
		}
	}
	for p, entries := range queued {
		w.lane(p).push(entries)
	}
	select {
	case <-c.done:
		return c.errs
	case <-ctx.Done():
		return c.abandon(w.because(ctx.Err(), c.lastError()))
	}
}

// because says why waiting was in vain, where that is known.
func (w *Writer) because(end, last error) error {
	if last == nil {
		return fmt.Errorf("topic %s: %w", w.topic, end)
	}
	return fmt.Errorf("topic %s: %w; the last attempt: %w", w.topic, end, last)
}

// Partitions is the topic's number of partitions: asked once, since partitions are chosen once. It tries again until
// ctx ends, or the topic turns out to be missing.
func (w *Writer) Partitions(ctx context.Context) (int, error) {
	w.mu.Lock()
	n := w.partitions
	w.mu.Unlock()
	var last error
	for wait := newBackoff(); n == 0; {
		var err error
		if n, err = countPartitions(ctx, w.client, w.topic); err == nil {
			w.mu.Lock()
			w.partitions = n
			w.mu.Unlock()
			break
		}
		if err = w.gone.explain(ctx, w.client, w.topic, err); ctx.Err() == nil {
			if last = err; !Retryable(err) {
				return 0, fmt.Errorf("topic %s: %w", w.topic, err)
			}
		}
		if !wait.sleep(ctx, w.ctx) {
			return 0, w.because(ended(ctx), last)
		}
	}
	return n, nil
}

// Close stops the writer; calls that are still waiting get ErrClosed, and their messages may be durable or not.
func (w *Writer) Close() error {
	w.close()
	w.lanes.Wait()
	closeClient(w.client)
	return nil
}

func (w *Writer) lane(partition int32) *lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.byPart[partition]
	if l == nil {
		l = &lane{writer: w, partition: int(partition), wake: make(chan struct{}, 1)}
		w.byPart[partition] = l
		w.lanes.Add(1)
		go l.run()
	}
	return l
}

func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return ErrClosed
}

// call is one Write: its answer, filled in by the lanes.
type call struct {
	ctx  context.Context
	done chan struct{} // closed when nothing is open

	mu        sync.Mutex
	errs      []error
	settled   []bool
	open      int
	abandoned bool
	last      error // of an attempt that is tried again
}

func (c *call) tried(err error) {
	c.mu.Lock()
	c.last = err
	c.mu.Unlock()
}

func (c *call) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// entry is one message on its way.
type entry struct {
	message *Message
	time    time.Time
	size    int
	call    *call
	index   int
}

func (e *entry) settle(err error) {
	c := e.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.abandoned {
		return
	}
	if c.settled == nil {
		c.settled = make([]bool, len(c.errs))
	}
	c.errs[e.index], c.settled[e.index] = err, true
	if c.open--; c.open == 0 {
		close(c.done)
	}
}

// abandon gives err to whatever isn't settled; nothing is written to the answer afterwards.
func (c *call) abandon(err error) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = true
	for i := range c.errs {
		if c.settled == nil || !c.settled[i] {
			c.errs[i] = err
		}
	}
	return c.errs
}

package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"millrace/schemas/event"
)

// memoryKey identifies an event: a hash of its source and event id.
type memoryKey [16]byte

// keptScratch is the largest buffer that outlives its event: one huge event mustn't be paid for ever.
const keptScratch = 1 << 20

// identity is an event's key and a digest of what it says. The gateway's and the sender's stamps are left out:
// a repeat has others. A stub has a key of its own: the item that it stands for may come again, mended.
func (e *Engine) identity(ev *event.SessionEvent) (memoryKey, uint64) {
	name := append(append(e.scratch[:0], ev.GetSource()...), 0)
	name = append(name, ev.GetEventId()...)
	if ev.GetStub() != nil {
		name = append(name, 0)
	}
	named := sha256.Sum256(name)

	sent, received, registered, occurred := ev.SentAt, ev.ReceivedAt, ev.SchemaRegistered, ev.OccurredAt
	ev.SentAt, ev.ReceivedAt, ev.SchemaRegistered = nil, nil, false
	if ev.GetStub() != nil {
		ev.OccurredAt = nil // the gateway's too, if the item's own could not be read
	}
	size := ev.SizeVT()
	body := slices.Grow(name[:0], size)[:size]
	n, err := ev.MarshalToSizedBufferVT(body)
	ev.SentAt, ev.ReceivedAt, ev.SchemaRegistered, ev.OccurredAt = sent, received, registered, occurred
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(body[size-n:])
	if cap(body) <= keptScratch {
		e.scratch = body[:0]
	}
	return memoryKey(named[:16]), binary.LittleEndian.Uint64(sum[:])
}

// memory is the dedupe keys of the window, oldest first.
type memory struct {
	digests map[memoryKey]uint64
	order   []remembered
	head    int
}

type remembered struct {
	key memoryKey
	at  int64 // log time
}

func newMemory() *memory { return &memory{digests: map[memoryKey]uint64{}} }

func (m *memory) look(key memoryKey, digest uint64) (known, same bool) {
	d, ok := m.digests[key]
	return ok, ok && d == digest
}

func (m *memory) add(key memoryKey, digest uint64, at int64) {
	m.digests[key] = digest
	m.order = append(m.order, remembered{key, at})
}

func (m *memory) forget(before int64) {
	for m.head < len(m.order) && m.order[m.head].at < before {
		delete(m.digests, m.order[m.head].key)
		m.head++
	}
	if m.head > len(m.order)/2 && m.head > 1024 {
		m.order = append(m.order[:0], m.order[m.head:]...)
		m.head = 0
	}
}

// keepers are the keys of settled turns, by the hour of log time in which they settled: what tells an amendment
// from an orphan. Those of imported sessions are kept for good.
type keepers struct {
	hours   map[uint64]int64 // key → hour; forever for imported turns
	byHour  map[int64][]uint64
	oldest  int64
	started bool
}

const (
	hour    = 60 * 60 * 1_000_000
	forever = int64(-1)
)

func newKeepers() *keepers { return &keepers{hours: map[uint64]int64{}, byHour: map[int64][]uint64{}} }

func (k *keepers) has(key uint64) bool { _, ok := k.hours[key]; return ok }

func (k *keepers) add(key uint64, at int64, imported bool) {
	h := at / hour
	if imported {
		h = forever
	} else if !k.started || h < k.oldest {
		k.oldest, k.started = h, true
	}
	k.hours[key] = h
	k.byHour[h] = append(k.byHour[h], key)
}

func (k *keepers) forget(before int64) {
	for ; k.started && k.oldest < before/hour; k.oldest++ {
		for _, key := range k.byHour[k.oldest] {
			delete(k.hours, key)
		}
		delete(k.byHour, k.oldest)
		if len(k.byHour) == 0 || (len(k.byHour) == 1 && k.byHour[forever] != nil) {
			k.started = false
		}
	}
}

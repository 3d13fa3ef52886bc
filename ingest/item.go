package ingest

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/ingest/eventjson"
	"millrace/ingest/privacy"
	"millrace/internal/eventlog"
	"millrace/internal/unithash"
	"millrace/schemas/event"
)

// batch is a request on its way to the log.
type batch struct {
	at       time.Time // the gateway's clock: received_at, and the records' time
	answer   Answer
	messages []eventlog.Message
	places   []int            // messages[i] is of item places[i]
	first    map[identity]int // where an event that goes to the log stands in messages
	same     map[int]int      // a duplicate's item → the message that it repeats
	stubs    map[identity]bool
	unknown  map[string]bool // tool-schema digests that were looked up in vain
}

// maxEventBytes leaves room in a log message for the key and the headers.
const maxEventBytes = eventlog.MaxMessageBytes - 4<<10

// identity is the key of deduplication.
type identity struct{ source, event string }

func newBatch(at time.Time, n int) *batch {
	return &batch{
		at: at, answer: Answer{Results: make([]Result, n)},
		first: make(map[identity]int, n), same: map[int]int{}, stubs: map[identity]bool{}, unknown: map[string]bool{},
	}
}

// add takes one item into the batch: a message for the log, or an answer already.
func (g *Gateway) add(ctx context.Context, b *batch, index int, raw []byte, kind format) {
	result := &b.answer.Results[index]
	result.Index = index
	e, bad := g.decode(raw, kind)
	if bad == nil {
		bad = event.Validate(e)
	}
	if e != nil {
		result.EventID = e.EventId
	}
	if bad != nil {
		g.leaveStub(b, result, e, bad, raw, kind)
		return
	}
	e.ReceivedAt = timestamppb.New(b.at)
	e.SchemaRegistered = false
	switch bad, err := g.resolveToolSchema(ctx, b, e); {
	case err != nil:
		g.logStoreTrouble(err)
		result.retry(ReasonStoreAway, "tool schemas can't be stored or looked up now")
		return
	case bad != nil:
		// No stub: a policy can't cause this, and the same event will come again once the document is registered.
		result.reject(bad)
		return
	}
	g.protect(e)
	message, err := eventlog.EventMessage(e, b.at)
	if err != nil {
		result.reject(&event.Invalid{Reason: ReasonMalformedProtobuf, Message: err.Error()})
		return
	}
	if len(message.Value) > maxEventBytes {
		g.leaveStub(b, result, e, &event.Invalid{Reason: ReasonTooLarge, Message: fmt.Sprintf("%d bytes when packed; at most %d", len(message.Value), maxEventBytes)}, raw, kind)
		return
	}
	id := identity{e.Source, e.EventId}
	if before, ok := b.first[id]; ok {
		if sameEvent(b.messages[before].Value, e) {
			b.same[index] = before
			result.Status = Duplicate
			return
		}
		result.reject(&event.Invalid{Reason: ReasonConflict, Field: "eventId", Message: fmt.Sprintf("item %d is another event with the same source and id", b.places[before])})
		return
	}
	b.first[id] = len(b.messages)
	b.messages = append(b.messages, message)
	b.places = append(b.places, index)
	result.Status = Accepted // if the log says so
}

// sameEvent compares events of one batch, which carry the same stamps, as their reader will: when they were sent says nothing.
func sameEvent(written []byte, e *event.SessionEvent) bool {
	before := &event.SessionEvent{}
	if before.UnmarshalVT(written) != nil {
		return false
	}
	before.SentAt, e.SentAt = nil, nil
	return proto.Equal(before, e)
}

func (g *Gateway) decode(raw []byte, kind format) (*event.SessionEvent, *event.Invalid) {
	if len(raw) > g.cfg.Limits.ItemBytes {
		return nil, &event.Invalid{Reason: ReasonTooLarge, Message: fmt.Sprintf("%d bytes; at most %d", len(raw), g.cfg.Limits.ItemBytes)}
	}
	if kind != formatProtobuf {
		return eventjson.Decode(raw)
	}
	e := &event.SessionEvent{}
	if err := e.UnmarshalVT(raw); err != nil {
		return nil, &event.Invalid{Reason: ReasonMalformedProtobuf, Message: "not a SessionEvent of millrace.events.v1"}
	}
	return e, nil
}

// protect takes out of the event what may not be stored.
func (g *Gateway) protect(e *event.SessionEvent) {
	if n := privacy.Strip(e); n > 0 {
		g.metrics.stripped.WithLabelValues(e.Privacy.String()).Add(float64(n))
	}
	if !g.cfg.KeepSecrets {
		if n := privacy.Redact(e); n > 0 {
			g.metrics.redacted.Add(float64(n))
		}
	}
	if len(g.cfg.UnitKey) > 0 && e.UnitId != "" {
		e.UnitId = unithash.Pseudonym(g.cfg.UnitKey, e.UnitId)
	}
}

// leaveStub rejects an item; if it can be read who it is, its identity, reason and size go to the log, so that what a
// policy blew up is seen by its turn. The answer waits for the stub as it would for the event.
func (g *Gateway) leaveStub(b *batch, result *Result, e *event.SessionEvent, bad *event.Invalid, raw []byte, kind format) {
	result.reject(bad)
	known, body := identify(e, raw, kind)
	result.EventID = known.EventId
	if known.SessionId == "" || known.TurnId == "" {
		return
	}
	stub := &event.SessionEvent{
		Source: known.Source, EventId: known.EventId, SessionId: known.SessionId, Sequence: known.Sequence,
		TurnId: known.TurnId, UnitId: known.UnitId, Privacy: known.Privacy,
		OccurredAt: known.OccurredAt, SentAt: known.SentAt, ReceivedAt: timestamppb.New(b.at),
		Body: &event.SessionEvent_Stub{Stub: &event.Stub{Reason: bad.Reason, Body: body, Bytes: uint64(len(raw))}},
	}
	if event.Validate(stub) != nil {
		// Times and level are often what was wrong; the identity is what counts.
		stub.OccurredAt, stub.SentAt, stub.Privacy, stub.UnitId = stub.ReceivedAt, nil, event.Privacy_PRIVACY_UNSPECIFIED, ""
		if event.Validate(stub) != nil {
			return
		}
	}
	id := identity{stub.Source, stub.EventId}
	if _, taken := b.first[id]; taken || b.stubs[id] {
		return
	}
	g.protect(stub)
	message, err := eventlog.EventMessage(stub, b.at)
	if err != nil {
		return
	}
	b.stubs[id] = true
	b.messages = append(b.messages, message)
	b.places = append(b.places, result.Index)
	g.metrics.stubs.Inc()
}

// identify reads of a rejected item who it is, and which body it had.
func identify(e *event.SessionEvent, raw []byte, kind format) (*event.SessionEvent, string) {
	switch {
	case e != nil:
		return e, bodyName(e)
	case kind != formatProtobuf:
		return eventjson.Identity(raw)
	}
	partial := &event.SessionEvent{}
	partial.UnmarshalVT(raw) //nolint:errcheck // what stands before the fault is read
	return partial, bodyName(partial)
}

func bodyName(e *event.SessionEvent) string {
	m := e.ProtoReflect()
	if fd := m.WhichOneof(bodyOneof); fd != nil {
		return string(fd.Name())
	}
	return ""
}

var bodyOneof protoreflect.OneofDescriptor = (&event.SessionEvent{}).ProtoReflect().Descriptor().Oneofs().ByName("body")

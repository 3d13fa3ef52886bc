package eventlog

import (
	"bytes"
	"fmt"
	"mime"
	"strings"
	"time"

	"millrace/schemas/event"
)

// ContentTypeHeader names the header that says which message a record's value is.
const ContentTypeHeader = "content-type"

const (
	mediaType          = "application/x-protobuf"
	eventProto         = "millrace.events.v1.SessionEvent"
	controlProto       = "millrace.events.v1.ControlRecord"
	eventContentType   = mediaType + "; proto=" + eventProto
	controlContentType = mediaType + "; proto=" + controlProto
)

// Why a record becomes a dead letter, besides the reasons of event.Validate.
const (
	RejectTombstone    = "tombstone"     // no value
	RejectContentType  = "content_type"  // the header is missing, or names another message
	RejectUndecodable  = "undecodable"   // not a protobuf of that message
	RejectKeyMismatch  = "key_mismatch"  // the key isn't the session id, or not the control record's
	RejectMisrouted    = "misrouted"     // the key's hash belongs to another partition
	RejectBadSignature = "bad_signature" // a control record that isn't signed for this place
	RejectUnknownBody  = "unknown_body"  // a control record of a kind that this version doesn't know
)

// EventMessage makes the message of an event: keyed by its session, with t as the record's time.
func EventMessage(e *event.SessionEvent, t time.Time) (Message, error) {
	value, err := e.MarshalVT()
	if err != nil {
		return Message{}, fmt.Errorf("event %s/%s: %w", e.GetSource(), e.GetEventId(), err)
	}
	return Message{
		Partition: AnyPartition, Time: t, Key: []byte(e.GetSessionId()), Value: value,
		Headers: []Header{{ContentTypeHeader, []byte(eventContentType)}},
	}, nil
}

// Decode tells what a record is: a valid event in its own partition, a control record with a good signature, or
// neither, and then the reason code of its dead letter. Exactly one of the three is set. partitions is the topic's
// number of them.
func Decode(r Record, k *Keyring, partitions int) (ev *event.SessionEvent, control *event.ControlRecord, reject string) {
	switch protoOf(r) {
	case eventProto:
		ev, reject = decodeEvent(r, partitions)
	case controlProto:
		control, reject = decodeControl(r, k)
	default:
		reject = RejectContentType
		if r.Value == nil {
			reject = RejectTombstone
		}
	}
	return ev, control, reject
}

func decodeEvent(r Record, partitions int) (*event.SessionEvent, string) {
	if r.Value == nil {
		return nil, RejectTombstone
	}
	e := &event.SessionEvent{}
	if err := e.UnmarshalVT(r.Value); err != nil {
		return nil, RejectUndecodable
	}
	if invalid := event.Validate(e); invalid != nil {
		return nil, invalid.Reason
	}
	if string(r.Key) != e.SessionId {
		return nil, RejectKeyMismatch
	}
	if PartitionOf(r.Key, partitions) != r.Partition {
		return nil, RejectMisrouted
	}
	return e, ""
}

// Stub is what a rejected record leaves for its turn, as the gateway would have left it: the event's identity, the
// reason and the size. Nil if it can't be read who the event is, or if it stands in the wrong place. A policy can write
// what no validation lets pass; that its turn has such an event must not look like a loss in transport.
func Stub(r Record, partitions int, reason string) *event.SessionEvent {
	e := &event.SessionEvent{}
	if protoOf(r) != eventProto || e.UnmarshalVT(r.Value) != nil || string(r.Key) != e.SessionId || PartitionOf(r.Key, partitions) != r.Partition {
		return nil
	}
	body := ""
	m := e.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); f != nil {
		body = string(f.Name())
	}
	stub := &event.SessionEvent{
		Source: e.Source, EventId: e.EventId, SessionId: e.SessionId, Sequence: e.Sequence, TurnId: e.TurnId,
		UnitId: e.UnitId, OccurredAt: e.OccurredAt, SentAt: e.SentAt, ReceivedAt: e.ReceivedAt, Privacy: e.Privacy,
		Body: &event.SessionEvent_Stub{Stub: &event.Stub{Reason: reason, Body: body, Bytes: uint64(len(r.Value))}},
	}
	if stub.TurnId == "" || event.Validate(stub) != nil {
		return nil
	}
	return stub
}

// decodeControl verifies before it parses.
func decodeControl(r Record, k *Keyring) (*event.ControlRecord, string) {
	if k.Verify(r) != nil {
		return nil, RejectBadSignature
	}
	c := &event.ControlRecord{}
	if err := c.UnmarshalVT(r.Value); err != nil {
		return nil, RejectUndecodable
	}
	if !bytes.Equal(r.Key, controlKey(c.Id)) {
		return nil, RejectKeyMismatch
	}
	if c.Body == nil {
		return nil, RejectUnknownBody
	}
	return c, ""
}

// protoOf is the message's name in the content type; empty if there is none.
func protoOf(r Record) string {
	header, _ := r.Header(ContentTypeHeader)
	switch string(header) { // as we write it
	case eventContentType:
		return eventProto
	case controlContentType:
		return controlProto
	}
	media, params, err := mime.ParseMediaType(string(header))
	if err != nil || !strings.EqualFold(media, mediaType) {
		return ""
	}
	return params["proto"]
}

package eventlog

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/schemas/event"
)

// Stub stands in for an event that Decode has rejected, as the one of a rejected item does that the gateway took: who
// it was, which body it had and why it was rejected, so that its turn doesn't miss it. It is a function of the record
// alone. nil if the record can't be one of its key's turn: it isn't an event, was put in the wrong place, or source,
// event, session or turn can't be read.
func Stub(r Record, reject string, partitions int) *event.SessionEvent {
	if reject == "" || r.Value == nil || protoOf(r) != eventProto || PartitionOf(r.Key, partitions) != r.Partition {
		return nil
	}
	known := &event.SessionEvent{}
	known.UnmarshalVT(r.Value) //nolint:errcheck // what stands before the fault is read
	if known.SessionId != string(r.Key) || known.TurnId == "" {
		return nil
	}
	at := timestamppb.New(r.Time)
	stub := &event.SessionEvent{
		Source: known.Source, EventId: known.EventId, SessionId: known.SessionId, Sequence: known.Sequence,
		TurnId: known.TurnId, UnitId: known.UnitId, Privacy: known.Privacy,
		OccurredAt: known.OccurredAt, SentAt: known.SentAt, ReceivedAt: at,
		Body: &event.SessionEvent_Stub{Stub: &event.Stub{Reason: reject, Body: bodyName(known), Bytes: uint64(len(r.Value))}},
	}
	if event.Validate(stub) != nil {
		// Times and level are often what was wrong; the identity is what counts.
		stub.OccurredAt, stub.SentAt, stub.Privacy, stub.UnitId = at, nil, event.Privacy_PRIVACY_UNSPECIFIED, ""
		if event.Validate(stub) != nil {
			return nil
		}
	}
	return stub
}

func bodyName(e *event.SessionEvent) string {
	m := e.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); f != nil {
		return string(f.Name())
	}
	return ""
}

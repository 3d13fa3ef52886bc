package eventlog

import (
	"slices"
	"strconv"
	"strings"
)

// The headers that a dead letter has besides those of the record that it keeps.
const (
	reasonHeader    = "millrace-reason"
	topicHeader     = "millrace-topic"
	partitionHeader = "millrace-partition"
	offsetHeader    = "millrace-offset"
	ownHeaders      = 4
)

// DeadLetter is a record that could not be taken, byte for byte, with the reason. Its topic, partition and offset are
// those where it stood, and tell a letter that was written twice.
type DeadLetter struct {
	Record
	Reason string
}

// Message is the letter as it is written into the dead-letter topic.
func (d DeadLetter) Message() Message {
	return Message{
		Partition: AnyPartition, Key: d.Key, Value: d.Value, Time: d.Time,
		Headers: append(slices.Clone(d.Headers),
			Header{reasonHeader, []byte(d.Reason)},
			Header{topicHeader, []byte(d.Topic)},
			Header{partitionHeader, []byte(strconv.Itoa(int(d.Partition)))},
			Header{offsetHeader, []byte(strconv.FormatInt(d.Offset, 10))},
		),
	}
}

// ReadDeadLetter takes a record of the dead-letter topic; false if it is none that Message made.
func ReadDeadLetter(r Record) (DeadLetter, bool) {
	n := len(r.Headers) - ownHeaders
	if n < 0 {
		return DeadLetter{}, false
	}
	own := r.Headers[n:] // the original may have had headers of the same names: the last four are ours
	for i, name := range []string{reasonHeader, topicHeader, partitionHeader, offsetHeader} {
		if own[i].Key != name {
			return DeadLetter{}, false
		}
	}
	partition, err := strconv.ParseInt(string(own[2].Value), 10, 32)
	if err != nil {
		return DeadLetter{}, false
	}
	offset, err := strconv.ParseInt(string(own[3].Value), 10, 64)
	if err != nil {
		return DeadLetter{}, false
	}
	d := DeadLetter{Record: r, Reason: string(own[0].Value)}
	d.Topic, d.Partition, d.Offset, d.Headers = string(own[1].Value), int32(partition), offset, r.Headers[:n:n]
	return d, true
}

// Again is the letter's record as a message for its topic: as it was, but with the time left open, and by its key into
// the partition that it belongs to. False for a control record: its signature holds for one place only.
func (d DeadLetter) Again() (Message, bool) {
	if protoOf(d.Record) == controlProto || strings.HasPrefix(string(d.Key), "control:") {
		return Message{}, false
	}
	return Message{Partition: AnyPartition, Key: d.Key, Value: d.Value, Headers: d.Headers}, true
}

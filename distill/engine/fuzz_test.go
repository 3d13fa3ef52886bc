package engine_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/engine"
	"millrace/distill/engine/enginetest"
	"millrace/distill/rehearsal"
	"millrace/schemas/event"
)

// FuzzApply takes bytes as a log: each record is a byte for its kind, one for the time since the one before, two for
// its length, and a protobuf of that length. Whatever stands in the log, valid or not, Apply does not panic, both
// balances hold after every record, and its state can be saved and loaded.
func FuzzApply(f *testing.F) {
	for seed := range uint64(3) {
		f.Add(packLog(enginetest.RandomLog(seed, 1)))
	}
	f.Add([]byte{0, 0, 0, 0, 1, 255, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		e := engine.New(options)
		for digest, document := range rehearsal.Documents() {
			e.Provide(digest, document)
		}
		e.Apply(engine.Record{Time: rehearsal.Epoch.UnixMicro(), Control: rehearsal.Config(1)})
		defer func() {
			e.Boundary()
			state, err := e.Save()
			require.NoError(t, err)
			_, err = engine.Load(options, state)
			require.NoError(t, err)
		}()
		for _, r := range unpackLog(data) {
			if e.ClosesBefore(r) {
				e.Boundary()
			}
			opened, read := e.Account().Opened, e.Account().Read
			rehearsal.Provide(e, r)
			eff := e.Apply(r)
			balance := e.Account()
			require.NoError(t, balance.Check())
			if eff.Halt != "" {
				require.Equal(t, read, balance.Read, "a halt changes nothing")
				require.Equal(t, opened, balance.Opened, "a halt changes nothing")
				return
			}
			require.Equal(t, read+1, balance.Read)
		}
	})
}

const (
	asEvent = iota
	asControl
	asRejected
	kinds
)

// packLog is what unpackLog reads, for the records that fit.
func packLog(log []engine.Record) []byte {
	var out []byte
	before := rehearsal.Epoch.UnixMicro()
	for _, r := range log {
		kind, body := byte(asRejected), []byte(nil)
		if r.Event != nil {
			kind = asEvent
			body, _ = r.Event.MarshalVT()
		} else if r.Control != nil {
			kind = asControl
			body, _ = r.Control.MarshalVT()
		}
		if len(body) > 0xffff {
			continue
		}
		out = append(out, kind, byte(min(max((r.Time-before)/10_000_000, 0), 255)))
		out = append(binary.LittleEndian.AppendUint16(out, uint16(len(body))), body...)
		before = r.Time
	}
	return out
}

func unpackLog(data []byte) []engine.Record {
	var out []engine.Record
	at := rehearsal.Epoch.UnixMicro()
	for len(data) >= 4 {
		kind, wait, n := data[0]%kinds, int64(data[1]), int(binary.LittleEndian.Uint16(data[2:]))
		data = data[4:]
		body := data[:min(n, len(data))]
		data = data[len(body):]
		at += wait * 10_000_000 // tens of seconds
		r := engine.Record{Offset: int64(len(out)) + 1, Time: at}
		switch kind {
		case asEvent:
			r.Event = &event.SessionEvent{}
			if r.Event.UnmarshalVT(body) != nil {
				r.Event, r.Reject = nil, "undecodable"
			}
		case asControl:
			r.Control = &event.ControlRecord{}
			if r.Control.UnmarshalVT(body) != nil {
				r.Control, r.Reject = nil, "undecodable"
			}
		default:
			r.Reject = "undecodable"
		}
		out = append(out, r)
	}
	return out
}

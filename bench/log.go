package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/internal/eventlog"
	"millrace/schemas/event"
)

const (
	turnsPerSession = 3
	stepsPerTurn    = 4
	tokensPerStep   = 300
	promptTokens    = 2000 // of a turn's first step; later ones send what was added
)

// partitionLog is one partition's log, as the broker would give it and as the engine takes it.
type partitionLog struct {
	wire    []eventlog.Record // the value is nil where the record is a control record
	records []engine.Record
	events  int
	bytes   int // of the events' values
}

// ordinary are sessions that overlap, each of three turns: look-ups, an edit, a decision, and what was left of the edit
// at each horizon, until everything has settled.
func ordinary(sessions int) (*partitionLog, error) {
	streams := make([]*rehearsal.Stream, sessions)
	for i := range streams {
		s := begin(i)
		for range turnsPerSession {
			edit := work(s)
			s.End(event.EndReason_COMPLETED, false)
			s.Wait(5*time.Second).Decide(edit, event.Decision_ACCEPTED)
			seconds := 0
			for _, horizon := range []int{30, 120, 300, 600} {
				s.Wait(time.Duration(horizon-seconds)*time.Second).Observe(edit, float64(horizon), .9)
				seconds = horizon
			}
		}
		streams[i] = s
	}
	return newLog(rehearsal.Records(streams...))
}

// unended are turns that were all begun within an hour and haven't ended: what the engine holds of them is what an open
// turn costs.
func unended(turns int) (*partitionLog, error) {
	streams := make([]*rehearsal.Stream, turns)
	for i := range streams {
		s := begin(0)
		s.Session, s.Now = fmt.Sprintf("s%d", i), rehearsal.Epoch.Add(time.Duration(i)*time.Hour/time.Duration(turns))
		work(s)
		streams[i] = s
	}
	records := rehearsal.Records(streams...)
	last := len(records)
	for records[last-1].Event == nil { // ticks, until everything has settled
		last--
	}
	return newLog(records[:last])
}

func begin(i int) *rehearsal.Stream {
	return rehearsal.NewStream(fmt.Sprintf("s%d", i), fmt.Sprintf("u%d", i), rehearsal.Epoch.Add(time.Duration(i)*7*time.Second))
}

// work is a turn up to its edit, whose id it gives.
func work(s *rehearsal.Stream) (edit string) {
	first := len(s.Events)
	s.Start(event.Intent_EDIT, event.Relation_RELATION_UNSPECIFIED, "make the parser faster, it takes seconds on a large file")
	for range stepsPerTurn - 1 {
		s.Step(tokensPerStep, 5*time.Second).Call("read_file", event.ToolKind_READ, `{"path":"internal/parser/parser.go"}`, event.ToolOutcome_OK)
	}
	s.Step(tokensPerStep, 5*time.Second)
	edit = s.Edit(400)
	// The stream's prompts are a few tokens long; a real one begins with instructions, tools and files.
	prompt := make([]byte, 0, 4*promptTokens)
	for i := range uint32(promptTokens) {
		prompt = binary.LittleEndian.AppendUint32(prompt, i%1000)
	}
	for _, ev := range s.Events[first:] {
		switch step := ev.GetStepCompleted(); {
		case step == nil:
		case step.PromptPrefixLen == 0:
			step.PromptTokenIds = append(slices.Clone(prompt), step.PromptTokenIds...)
		default:
			step.PromptPrefixLen += promptTokens
		}
	}
	return edit
}

func newLog(records []engine.Record) (*partitionLog, error) {
	l := &partitionLog{records: records, wire: make([]eventlog.Record, len(records))}
	for i, r := range records {
		if r.Event == nil {
			continue
		}
		m, err := eventlog.EventMessage(r.Event, time.UnixMicro(r.Time))
		if err != nil {
			return nil, err
		}
		l.wire[i] = eventlog.Record{Offset: r.Offset, Time: m.Time, Key: m.Key, Value: m.Value, Headers: m.Headers}
		l.events, l.bytes = l.events+1, l.bytes+len(m.Value)
	}
	return l, nil
}

// decode reads the events from their bytes as the worker does, checks included. Control records are taken as they are:
// they are few, and their signature isn't what is measured.
func (l *partitionLog) decode(visit func(engine.Record)) error {
	for i := range l.wire {
		r := engine.Record{Offset: l.records[i].Offset, Time: l.records[i].Time, Control: l.records[i].Control}
		if l.wire[i].Value != nil {
			var reject string
			if r.Event, _, reject = eventlog.Decode(l.wire[i], nil, 1); reject != "" {
				return fmt.Errorf("offset %d is no event of an ordinary log: %s", r.Offset, reject)
			}
		}
		visit(r)
	}
	return nil
}

// partition is an engine that is given what it asks for, and batches as the worker has them.
type partition struct {
	*engine.Engine
	settled, samples int
	err              error
}

func newPartition() *partition {
	return &partition{Engine: engine.New(engine.Options{Topic: "sessions", UnitKey: []byte("bench")})}
}

// take applies a record. What settled is counted and dropped: writing it isn't the engine's.
func (p *partition) take(r engine.Record) {
	if p.ClosesBefore(r) {
		p.Boundary()
	}
	rehearsal.Provide(p.Engine, r)
	effects := p.Apply(r)
	if effects.Halt != "" {
		p.err = errors.Join(p.err, errors.New(effects.Halt))
	}
	p.settled += len(effects.Settled)
	for i := range effects.Settled {
		p.samples += len(effects.Settled[i].Samples)
	}
	if effects.Full {
		p.Boundary()
	}
}

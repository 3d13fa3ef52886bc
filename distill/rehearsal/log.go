package rehearsal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"millrace/distill/engine"
	"millrace/schemas/event"
)

// Log puts events into a partition's log in order of their time, behind a configuration; a tick stands wherever
// nothing happened for a minute, and at the end when everything has settled.
func Log(events []*event.SessionEvent) []engine.Record {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b *event.SessionEvent) int {
		return cmp.Compare(a.GetOccurredAt().AsTime().UnixMicro(), b.GetOccurredAt().AsTime().UnixMicro())
	})
	var out []engine.Record
	add := func(at time.Time, r engine.Record) {
		r.Offset, r.Time = int64(len(out)), at.UnixMicro()
		out = append(out, r)
	}
	now := Epoch
	if len(sorted) > 0 {
		now = sorted[0].GetOccurredAt().AsTime()
	}
	add(now, engine.Record{Control: Config(1)})
	tickUntil := func(end time.Time) {
		for now.Add(time.Minute).Before(end) {
			now = now.Add(time.Minute)
			add(now, engine.Record{Control: Tick(fmt.Sprintf("tick-%d", now.Unix()))})
		}
	}
	for _, ev := range sorted {
		at := ev.GetOccurredAt().AsTime()
		tickUntil(at)
		if at.After(now) {
			now = at
		}
		add(now, engine.Record{Event: ev})
	}
	tickUntil(now.Add(150 * time.Minute))
	return out
}

// Provide gives the engine the documents of tests that a record needs, as the shell does.
func Provide(e *engine.Engine, r engine.Record) {
	documents := Documents()
	for _, digest := range e.Needs(r) {
		if document, ok := documents[digest]; ok && !e.Has(digest) {
			e.Provide(digest, document)
		}
	}
}

// Run applies a log to a new engine and gives everything that settled.
func Run(records []engine.Record) (*engine.Engine, []engine.Settled) {
	e := engine.New(engine.Options{Topic: "sessions", UnitKey: []byte("test")})
	var settled []engine.Settled
	for _, r := range records {
		if e.ClosesBefore(r) {
			e.Boundary()
		}
		Provide(e, r)
		effects := e.Apply(r)
		if effects.Halt != "" {
			panic(effects.Halt)
		}
		settled = append(settled, effects.Settled...)
	}
	return e, settled
}

package rehearsal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/distill/engine"
	"millrace/internal/arrowfile"
	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

// Stage is what a rehearsal runs under: a reward spec, which may be a draft, and a baseline.
type Stage struct {
	spec         *rewardspec.Spec
	name, digest string
	baseline     string // its digest
	documents    map[string][]byte
}

// NewStage makes a stage for a spec, or a draft of one, and the document that it was read from. A nil baseline is v0.
func NewStage(spec *rewardspec.Spec, document []byte, baseline *rewardspec.Baseline) (*Stage, error) {
	s := &Stage{spec: spec, name: spec.ID(), digest: arrowfile.SHA256(document)}
	s.documents = map[string][]byte{s.digest: document, arrowfile.SHA256(Tools): Tools}
	if baseline != nil {
		encoded, err := baseline.Encode()
		if err != nil {
			return nil, err
		}
		s.baseline = arrowfile.SHA256(encoded)
		s.documents[s.baseline] = encoded
	}
	return s, nil
}

// shipped is the stage of the shipped spec and baseline v0, made once: tests start many engines.
var shipped = sync.OnceValue(func() *Stage {
	spec, document := rewardspec.Default()
	s, err := NewStage(spec, document, nil)
	if err != nil {
		panic(err) // only a baseline could fail
	}
	return s
})

// Shipped is the stage of the shipped spec and baseline v0.
func Shipped() *Stage { return shipped() }

// Spec is the stage's.
func (s *Stage) Spec() *rewardspec.Spec { return s.spec }

// Config is a configuration with the stage's spec and baseline.
func (s *Stage) Config(seq uint64) *event.ControlRecord {
	return &event.ControlRecord{Id: fmt.Sprintf("config-%d", seq), Body: &event.ControlRecord_ConfigAdopted{ConfigAdopted: &event.ConfigAdopted{
		Seq: seq, RewardSpecDigest: s.digest, RewardSpecName: s.name, BaselineDigest: s.baseline,
		PolicyOrdinals: map[string]int64{"base": 0, "next": 1}, BatchIntervalMs: 60_000,
	}}}
}

// settling is how long after its last event a turn may still be open: the longest turn and its answer, and settle_after
// where that is longer than the shipped one's.
func (s *Stage) settling() time.Duration {
	return 150*time.Minute + max(0, s.spec.SettleAfter-20*time.Minute)
}

// Log puts events into a partition's log in order of their time, behind a configuration; a tick stands wherever
// nothing happened for a minute, and at the end when everything has settled.
func (s *Stage) Log(events []*event.SessionEvent) []engine.Record {
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
	add(now, engine.Record{Control: s.Config(1)})
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
	tickUntil(now.Add(s.settling()))
	return out
}

// Records are the streams' events as a partition's log.
func (s *Stage) Records(streams ...*Stream) []engine.Record {
	var events []*event.SessionEvent
	for _, stream := range streams {
		events = append(events, stream.Events...)
	}
	return s.Log(events)
}

// Run applies a log to a new engine and gives everything that settled. It fails where the engine would halt its
// partition.
func (s *Stage) Run(records []engine.Record) (*engine.Engine, []engine.Settled, error) {
	e := engine.New(engine.Options{
		Topic: "sessions", UnitKey: []byte("test"),
		ReadSpec: func(document []byte) (*rewardspec.Spec, error) {
			if arrowfile.SHA256(document) == s.digest {
				return s.spec, nil
			}
			return rewardspec.Parse(document)
		},
	})
	var settled []engine.Settled
	for _, r := range records {
		if e.ClosesBefore(r) {
			e.Boundary()
		}
		s.Provide(e, r)
		effects := e.Apply(r)
		if effects.Halt != "" {
			return nil, nil, fmt.Errorf("rehearsal: %s", effects.Halt)
		}
		settled = append(settled, effects.Settled...)
	}
	return e, settled, nil
}

// Provide gives the engine the stage's documents that a record needs, as the shell does.
func (s *Stage) Provide(e *engine.Engine, r engine.Record) {
	for _, digest := range e.Needs(r) {
		if document, ok := s.documents[digest]; ok && !e.Has(digest) {
			e.Provide(digest, document)
		}
	}
}

// Documents are what a configuration of tests refers to, by digest.
func Documents() map[string][]byte { return maps.Clone(shipped().documents) }

// Config is a configuration with the shipped spec.
func Config(seq uint64) *event.ControlRecord { return shipped().Config(seq) }

// Log puts events into a log under the shipped spec.
func Log(events []*event.SessionEvent) []engine.Record { return shipped().Log(events) }

// Records are the streams' events as a log under the shipped spec.
func Records(streams ...*Stream) []engine.Record { return shipped().Records(streams...) }

// Provide gives the engine the documents of tests that a record needs.
func Provide(e *engine.Engine, r engine.Record) { shipped().Provide(e, r) }

// Run applies a log to a new engine under the shipped spec; a test whose log halts it is wrong, and panics.
func Run(records []engine.Record) (*engine.Engine, []engine.Settled) {
	e, settled, err := shipped().Run(records)
	if err != nil {
		panic(err)
	}
	return e, settled
}

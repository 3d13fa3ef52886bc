package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"millrace/distill/engine"
)

// speed is the CPU time of one pass over the log, of all threads together, so that the garbage collector's is in it and a
// neighbour's isn't.
type speed struct {
	Sessions int `json:"sessions"`
	Events   int `json:"events"`
	Bytes    int `json:"bytes"`
	Turns    int `json:"turns"`
	Rounds   int `json:"rounds"`

	Decode spread `json:"decode"` // bytes → checked events, thrown away: the peer
	Apply  spread `json:"apply"`  // the same events through the engine, settling included
	Both   spread `json:"both"`   // decoded and applied, as the worker does
	// Of each round by itself, so that a slow moment of the machine slows both sides of it.
	ApplyPerDecode spread `json:"apply_per_decode"` // time of Apply over time of decoding
	DecodePerBoth  spread `json:"decode_per_both"`  // share of the decode-only speed that decoding and applying reach
}

// spread are a measure's smallest, median and largest value over the rounds; times are in seconds of CPU.
type spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	return spread{v[0], v[len(v)/2], v[len(v)-1]}
}

// measureSpeed decodes, applies, and does both, round by round, after one round that doesn't count. Every pass is
// checked to have done all of its work.
func measureSpeed(l *partitionLog, sessions, rounds int) (speed, error) {
	s := speed{Sessions: sessions, Events: l.events, Bytes: l.bytes, Turns: sessions * turnsPerSession, Rounds: rounds}
	passes := make([][3]float64, 0, rounds)
	for round := range rounds + 1 {
		decoded := make([]engine.Record, 0, len(l.records))
		if err := l.decode(func(r engine.Record) { decoded = append(decoded, r) }); err != nil {
			return s, err
		}
		seen := 0
		var failed error
		decode := timed(func() { failed = l.decode(func(engine.Record) { seen++ }) })
		if failed != nil || seen != len(l.records) {
			return s, fmt.Errorf("decoded %d of %d records: %w", seen, len(l.records), failed)
		}
		alone := newPartition()
		apply := timed(func() {
			for _, r := range decoded {
				alone.take(r)
			}
		})
		decoded = nil // so that the next pass doesn't carry its memory
		behind := newPartition()
		both := timed(func() { failed = l.decode(behind.take) })
		for _, p := range []*partition{alone, behind} {
			if p.err != nil || failed != nil || p.settled != s.Turns || p.samples != s.Turns {
				return s, fmt.Errorf("%d of %d turns settled, with %d samples: %w %w", p.settled, s.Turns, p.samples, p.err, failed)
			}
		}
		if round > 0 {
			passes = append(passes, [3]float64{decode, apply, both})
		}
	}
	of := func(value func(p [3]float64) float64) spread {
		values := make([]float64, len(passes))
		for i, p := range passes {
			values[i] = value(p)
		}
		return spreadOf(values)
	}
	s.Decode = of(func(p [3]float64) float64 { return p[0] })
	s.Apply = of(func(p [3]float64) float64 { return p[1] })
	s.Both = of(func(p [3]float64) float64 { return p[2] })
	s.ApplyPerDecode = of(func(p [3]float64) float64 { return p[1] / p[0] })
	s.DecodePerBoth = of(func(p [3]float64) float64 { return p[0] / p[2] })
	return s, nil
}

// timed is a pass's CPU time. It begins with a clean heap, so that no pass pays for the one before.
func timed(pass func()) float64 {
	runtime.GC()
	began := cpu()
	pass()
	return (cpu() - began).Seconds()
}

// cpu is the time that all threads of the process have spent so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is what open turns take, in bytes for each.
type memory struct {
	Turns  int     `json:"turns"`
	Events int     `json:"events"`
	Wire   float64 `json:"wire"`   // of the turn's events in the log
	Held   float64 `json:"held"`   // of its decoded events alone, held in a slice: the peer
	Engine float64 `json:"engine"` // of an engine that holds the turn, its events included
	State  float64 `json:"state"`  // in the state object that is written at each commit
}

// measureMemory lets an engine hold turns that are all open, and compares its heap with that of their events.
func measureMemory(l *partitionLog, turns int) (memory, error) {
	m := memory{Turns: turns, Events: l.events, Wire: float64(l.bytes) / float64(turns)}
	before := heap()
	events := make([]engine.Record, 0, len(l.records))
	if err := l.decode(func(r engine.Record) { events = append(events, r) }); err != nil {
		return m, err
	}
	m.Held = (heap() - before) / float64(turns)
	runtime.KeepAlive(events)
	events = nil // freed before the engine's turn

	before = heap()
	p := newPartition()
	if err := l.decode(p.take); err != nil {
		return m, err
	}
	m.Engine = (heap() - before) / float64(turns)
	p.Boundary() // the engine is in use until its state is saved
	state, err := p.Save()
	if err != nil || p.err != nil || p.settled != 0 {
		return m, fmt.Errorf("%d turns settled that should be open: %w %w", p.settled, err, p.err)
	}
	m.State = float64(len(state)) / float64(turns)
	runtime.KeepAlive(l) // its bytes are no part of the difference
	return m, nil
}

// heap is what is in use after everything that can go has gone.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

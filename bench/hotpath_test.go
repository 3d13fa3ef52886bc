package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"millrace/distill/engine"
)

// What is measured is the whole work: every event decoded as it was written, every turn settled with its sample. How long it
// takes is nobody's test.
func TestMeasuresTheWholeWork(t *testing.T) {
	t.Parallel()
	const sessions = 20
	var out strings.Builder
	require.NoError(t, run(&out, sessions, 500, 2, true))
	var r report
	require.NoError(t, json.Unmarshal([]byte(out.String()), &r))

	// A turn is its start and end, four steps, four calls with their results, an edit, a decision and four observations.
	const eventsOfWork, eventsOfTurn = 1 + 4 + 8 + 1, 1 + 4 + 8 + 1 + 1 + 1 + 4
	require.Equal(t, sessions*turnsPerSession, r.Speed.Turns)
	require.Equal(t, sessions*turnsPerSession*eventsOfTurn, r.Speed.Events)
	require.Equal(t, 2, r.Speed.Rounds)
	require.Equal(t, sessions, r.Memory.Turns)
	require.Equal(t, sessions*eventsOfWork, r.Memory.Events)
	// Tokens alone: 2,000 of the prompt and four steps of 300 with log-probabilities, 4 bytes each.
	require.Greater(t, r.Memory.Wire, float64(4*(promptTokens+2*stepsPerTurn*tokensPerStep)))
	require.Equal(t, 500, r.Replay.Rows)
	require.Less(t, r.Memory.State, r.Memory.Wire, "the state object holds no tokens")

	out.Reset()
	require.NoError(t, r.print(&out))
	require.Contains(t, out.String(), "of the time of decoding the same events")
}

func TestDecodedEventsAreThoseThatWereApplied(t *testing.T) {
	t.Parallel()
	log, err := ordinary(3)
	require.NoError(t, err)
	n := 0
	require.NoError(t, log.decode(func(r engine.Record) {
		require.Equal(t, log.records[n].Offset, r.Offset)
		require.Equal(t, log.records[n].Time, r.Time)
		require.True(t, proto.Equal(log.records[n].Event, r.Event), "offset %d", r.Offset)
		n++
	}))
	require.Len(t, log.records, n)
	for i := range log.wire {
		log.wire[i].Key = []byte("another session")
	}
	require.ErrorContains(t, log.decode(func(engine.Record) {}), "key_mismatch")
}

// For profiles: go test ./bench -bench Apply -cpuprofile cpu.out.
func BenchmarkApply(b *testing.B) {
	log, err := ordinary(500)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		p := newPartition()
		for _, r := range log.records {
			p.take(r)
		}
		require.Equal(b, 500*turnsPerSession, p.settled)
	}
	b.ReportMetric(float64(log.events*b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkDecode(b *testing.B) {
	log, err := ordinary(500)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, log.decode(func(engine.Record) {}))
	}
	b.ReportMetric(float64(log.events*b.N)/b.Elapsed().Seconds(), "events/s")
}

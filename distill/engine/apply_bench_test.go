package engine_test

import (
	"fmt"
	"testing"
	"time"

	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/schemas/event"
)

// BenchmarkApply is the engine alone, on one core: a partition of ordinary turns of a few steps, calls and edits, with
// all that settling them costs.
func BenchmarkApply(b *testing.B) {
	streams := make([]*rehearsal.Stream, 1000)
	for i := range streams {
		s := rehearsal.NewStream(fmt.Sprintf("s%d", i), fmt.Sprintf("u%d", i), rehearsal.Epoch.Add(time.Duration(i)*7*time.Second))
		for range 3 {
			s.Start(event.Intent_EDIT, 0, "make the parser faster, it takes seconds on a large file")
			for range 3 {
				s.Step(300, 5*time.Second).Call("read_file", event.ToolKind_READ, `{"path":"internal/parser/parser.go"}`, event.ToolOutcome_OK)
			}
			edit := s.Edit(400)
			s.End(event.EndReason_COMPLETED, false)
			s.Wait(5*time.Second).Decide(edit, event.Decision_ACCEPTED)
			for _, after := range []float64{30, 120, 300, 600} {
				s.Wait(time.Duration(after/2)*time.Second).Observe(edit, after, .9)
			}
		}
		streams[i] = s
	}
	log := rehearsal.Records(streams...)
	b.ReportAllocs()
	b.ResetTimer()
	applied, settled := 0, 0
	for applied < b.N {
		e := engine.New(options)
		for digest, document := range rehearsal.Documents() {
			e.Provide(digest, document)
		}
		for _, r := range log[:min(len(log), b.N-applied)] {
			if e.ClosesBefore(r) {
				e.Boundary()
			}
			settled += len(e.Apply(r).Settled)
			applied++
		}
	}
	b.ReportMetric(float64(applied)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(settled)/b.Elapsed().Seconds(), "turns/s")
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/distill/rehearsal"
	"millrace/internal/arrowfile"
	"millrace/schemas/event"
	"millrace/sim/drive"
)

// The experiment that the traffic's turns take part in.
const testExperiment = "x"

// traffic is what IDE backends send in real time. Its long sessions last from its beginning to its end, whatever
// happens meanwhile, and some of their turns do so for many seconds.
type traffic struct {
	events []*event.SessionEvent // by time
	sent   int                   // of them, handed out
	now    time.Time
	over   atomic.Bool // nothing is handed out any more
}

// newTraffic makes the events of so many long sessions and of as many units' short ones.
func newTraffic(seed uint64, start time.Time, length time.Duration, sessions int) *traffic {
	r := rand.New(rand.NewPCG(seed, 2))
	x := &traffic{now: start}
	end := start.Add(length)
	add := func(id string, begin, end time.Time, pace time.Duration) {
		s := rehearsal.NewStream(id, fmt.Sprintf("unit-%d", r.IntN(sessions)), begin)
		s.Version = []string{"base-0", "next-1"}[r.IntN(2)]
		for s.Now.Before(end) {
			liveTurn(r, s, pace)
		}
		x.events = append(x.events, s.Events...)
	}
	for i := range sessions {
		// Every fourth is slow: its turns run for up to a dozen seconds.
		pace := 120 * time.Millisecond
		if i%4 == 0 {
			pace = 1500 * time.Millisecond
		}
		add(fmt.Sprintf("long-%d", i), start, end, pace)
		for n := range 3 {
			begin := start.Add(time.Duration(r.Int64N(int64(length))))
			add(fmt.Sprintf("short-%d-%d", i, n), begin, begin.Add(2*time.Second), 80*time.Millisecond)
		}
	}
	for _, ev := range x.events {
		c := ev.GetTurnStarted().GetContext()
		if c == nil {
			continue
		}
		c.Experiment, c.Arm = testExperiment, "control"
		if len(ev.GetUnitId())%2 == 0 {
			c.Arm = "candidate"
		}
	}
	slices.SortStableFunc(x.events, func(a, b *event.SessionEvent) int {
		return cmp.Compare(a.GetOccurredAt().AsTime().UnixMicro(), b.GetOccurredAt().AsTime().UnixMicro())
	})
	return x
}

// liveTurn is one turn whose steps take about pace, with what the user did to its edits.
func liveTurn(r *rand.Rand, s *rehearsal.Stream, pace time.Duration) {
	wait := func() { s.Wait(time.Duration(r.Int64N(int64(pace)))) }
	s.Start(event.Intent(r.IntN(4)), event.Relation(r.IntN(4)), fmt.Sprintf("request %d of some words", r.IntN(5)))
	var edits []string
	for range 1 + r.IntN(8) {
		s.Step(uint32(10+r.IntN(60)), pace/2+time.Duration(r.Int64N(int64(pace))))
		switch r.IntN(4) {
		case 0:
			s.Call("read_file", event.ToolKind_READ, `{"path":"a.go"}`, event.ToolOutcome_OK)
		case 1:
			s.Call("edit_file", event.ToolKind_EDIT_FILE, `{"path":`, event.ToolOutcome_EXECUTION_FAILED)
		default:
			edits = append(edits, s.Edit(uint32(5+r.IntN(500))))
		}
	}
	if r.IntN(12) != 0 { // else it never ends
		s.End(event.EndReason(1+r.IntN(5)), r.IntN(4) == 0)
	}
	for _, edit := range edits {
		wait()
		s.Decide(edit, event.Decision(1+r.IntN(3)))
		for _, after := range []float64{30, 120} {
			wait()
			s.Observe(edit, after, r.Float64())
		}
	}
	if r.IntN(4) == 0 {
		s.Wait(4*time.Second).Judge(event.FollowUpClass(1+r.IntN(9)), float64(r.IntN(3)-1), r.Float64()) // mostly too late: an amendment
	}
	wait()
}

// Now and Next are what the driver asks a source for.
func (x *traffic) Now() time.Time { return x.now }

func (x *traffic) Next(until time.Time) []*event.SessionEvent {
	x.now = until
	if x.over.Load() {
		return nil
	}
	from := x.sent
	for x.sent < len(x.events) && !x.events[x.sent].GetOccurredAt().AsTime().After(until) {
		x.sent++
	}
	return x.events[from:x.sent]
}

// ids are the identities of the events that were handed out.
func (x *traffic) ids() map[string]bool {
	ids := map[string]bool{}
	for _, ev := range x.events[:x.sent] {
		ids[ev.GetSource()+" "+ev.GetEventId()] = true
	}
	return ids
}

var errTrafficOver = errors.New("the traffic is over")

// flow is a traffic on its way through a client that sends again what was not accepted.
type flow struct {
	t      *testing.T
	source *traffic
	driver *drive.Driver
	done   chan error
}

// play sends the traffic to an instance as time passes, through all of its deaths.
func play(t *testing.T, i *instance, source *traffic) *flow {
	t.Helper()
	return playTo(t, i.listen, i.token(), source)
}

func playTo(t *testing.T, listen, token string, source *traffic) *flow {
	t.Helper()
	driver, err := drive.New(drive.Config{
		URL: "http://" + listen, Token: token, Step: 100 * time.Millisecond, Batch: 100, MostPause: 300 * time.Millisecond,
		Documents: map[string][]byte{arrowfile.SHA256(rehearsal.Tools): rehearsal.Tools},
		Advance: func(ctx context.Context, now time.Time) error {
			if source.over.Load() {
				return errTrafficOver
			}
			return pause(ctx, time.Until(now))
		},
	})
	require.NoError(t, err)
	f := &flow{t: t, source: source, driver: driver, done: make(chan error, 1)}
	go func() {
		f.done <- driver.Run(t.Context(), source, source.events[len(source.events)-1].GetOccurredAt().AsTime())
	}()
	return f
}

// finish ends the traffic and waits until everything that was handed out is accepted.
func (f *flow) finish() drive.Stats {
	f.t.Helper()
	f.source.over.Store(true)
	if err := <-f.done; !errors.Is(err, errTrafficOver) {
		require.NoError(f.t, err)
	}
	stats := f.driver.Stats()
	require.Empty(f.t, stats.Rejected, stats.Example)
	require.Equal(f.t, int64(f.source.sent), stats.Accepted)
	return stats
}

package schedule

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var _ cron.Schedule = Anchored{}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse("2006-01-02 15:04", s)
	require.NoError(t, err)
	return v
}

func TestDue(t *testing.T) {
	t.Parallel()
	s := Anchored{Anchor: at(t, "2026-03-01 07:00"), Period: 5 * time.Hour}
	for name, c := range map[string]struct {
		now, last, due string
		missed         int
	}{
		"before the anchor":               {now: "2026-03-01 06:59"},
		"the first":                       {now: "2026-03-01 07:00", due: "2026-03-01 07:00"},
		"a little late":                   {now: "2026-03-01 07:20", due: "2026-03-01 07:00"},
		"made already":                    {now: "2026-03-01 11:59", last: "2026-03-01 07:00"},
		"over midnight, still five hours": {now: "2026-03-01 22:00", last: "2026-03-01 17:00", due: "2026-03-01 22:00"},
		"the next day":                    {now: "2026-03-02 03:00", last: "2026-03-01 22:00", due: "2026-03-02 03:00"},
		"one catch-up after an outage":    {now: "2026-03-02 04:10", last: "2026-03-01 07:00", due: "2026-03-02 03:00", missed: 3},
		"never the first one for hours":   {now: "2026-03-01 17:30", due: "2026-03-01 17:00", missed: 2},
		"a clock that went back":          {now: "2026-03-01 12:00", last: "2026-03-01 17:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var last time.Time
			if c.last != "" {
				last = at(t, c.last)
			}
			slot, ok := s.Due(at(t, c.now), last)
			require.Equal(t, c.due != "", ok)
			if ok {
				require.Equal(t, Slot{Time: at(t, c.due), Missed: c.missed}, slot)
			}
		})
	}
}

// TestNextIgnoresZones: the slots are instants; the zone of the clock and its summer time don't move them.
func TestNextIgnoresZones(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("UTC-4", -4*3600)
	s := Anchored{Anchor: at(t, "2026-03-01 07:00"), Period: 5 * time.Hour}
	require.Equal(t, at(t, "2026-03-01 12:00"), s.Next(at(t, "2026-03-01 07:00").In(zone)))
	require.Equal(t, at(t, "2026-03-01 07:00"), s.Next(at(t, "2026-03-01 02:01")))
	require.Equal(t, at(t, "2026-03-02 03:00"), s.Next(at(t, "2026-03-01 22:00")))
}

// TestNoBurst: whenever one looks, and however long one was away, a slot is due at most once and none comes early.
func TestNoBurst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Anchored{Anchor: time.Unix(rapid.Int64Range(0, 1e9).Draw(t, "anchor"), 0), Period: time.Duration(rapid.IntRange(1, 100_000).Draw(t, "period")) * time.Second}
		now, last, missed, made := s.Anchor.Add(-s.Period), time.Time{}, 0, 0
		for _, wait := range rapid.SliceOfN(rapid.IntRange(0, 500_000), 1, 30).Draw(t, "waits") {
			now = now.Add(time.Duration(wait) * time.Second)
			slot, ok := s.Due(now, last)
			if !ok {
				continue
			}
			if slot.Time.After(now) || now.Sub(slot.Time) >= s.Period || (!last.IsZero() && !slot.Time.After(last)) {
				t.Fatalf("due %v at %v after %v", slot, now, last)
			}
			last, missed, made = slot.Time, missed+slot.Missed, made+1
			if _, again := s.Due(now, last); again {
				t.Fatalf("%v is due twice", slot)
			}
		}
		if made > 0 {
			if want := int(last.Sub(s.Anchor)/s.Period) + 1; made+missed != want {
				t.Fatalf("%d made and %d missed of %d slots", made, missed, want)
			}
		}
	})
}

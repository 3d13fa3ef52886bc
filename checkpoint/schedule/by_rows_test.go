package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDueByRows(t *testing.T) {
	t.Parallel()
	s := ByRows{Rows: 1000, Least: 48 * time.Hour, Most: 14 * 24 * time.Hour}
	for name, c := range map[string]struct {
		now, last, due string
		waiting        int64
	}{
		"the first one waits for rows only":  {now: "2026-03-01 08:00", waiting: 1000, due: "2026-03-01 08:00"},
		"too few":                            {now: "2026-03-14 07:00", waiting: 999},
		"the first one, at the latest":       {now: "2026-03-15 09:00", waiting: 3, due: "2026-03-15 07:00"},
		"enough, but a cycle is on its way":  {now: "2026-03-05 06:59", last: "2026-03-03 07:00", waiting: 5000},
		"enough":                             {now: "2026-03-05 07:00", last: "2026-03-03 07:00", waiting: 1001, due: "2026-03-05 07:00"},
		"at the latest":                      {now: "2026-03-17 07:00", last: "2026-03-03 07:00", due: "2026-03-17 07:00"},
		"a clock that went back, and enough": {now: "2026-03-01 12:00", last: "2026-03-03 07:00", waiting: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var last time.Time
			if c.last != "" {
				last = at(t, c.last)
			}
			due, ok := s.Due(at(t, c.now), at(t, "2026-03-01 07:00"), last, c.waiting)
			require.Equal(t, c.due != "", ok)
			if ok {
				require.Equal(t, at(t, c.due), due)
			}
		})
	}
}

// TestByRowsNeverBursts: however rows come and however long one was away, two cuts lie at least a cycle apart.
func TestByRowsNeverBursts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.IntRange(1, 1000).Draw(t, "least")) * time.Minute
		s := ByRows{Rows: 100, Least: least, Most: least + time.Duration(rapid.IntRange(0, 2000).Draw(t, "more"))*time.Minute}
		begin, last, waiting := time.Unix(0, 0), time.Time{}, int64(0)
		now := begin
		for _, wait := range rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 40).Draw(t, "waits") {
			now = now.Add(time.Duration(wait) * time.Minute)
			waiting += rapid.Int64Range(0, 80).Draw(t, "rows")
			since := last
			if last.IsZero() {
				since = begin
			}
			_, due := s.Due(now, begin, last, waiting)
			switch {
			case due && !last.IsZero() && now.Sub(last) < s.Least:
				t.Fatalf("due %s after the last one, at least %s were wanted", now.Sub(last), s.Least)
			case !due && now.Sub(since) >= s.Most:
				t.Fatalf("not due %s after the last one, at most %s were wanted", now.Sub(since), s.Most)
			case !due && waiting >= s.Rows && now.Sub(since) >= s.Least:
				t.Fatalf("not due with %d rows", waiting)
			}
			if due {
				last, waiting = now, 0
			}
		}
	})
}

package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/internal/postgres"
)

const (
	month = 30 * 24 * time.Hour
	five  = 5 * time.Hour
)

// slotOf is the slot at or before a time, reckoned without the code under test.
func slotOf(t time.Time) time.Time {
	return start.Add(t.Sub(start).Truncate(five))
}

// processes are the ones of a month: each dies now and then in the middle of a query, or stands still while another
// takes its place.
type processes struct {
	*world
	random *rand.Rand
	fuse   *fuse
	pool   *pgxpool.Pool
	leads  *Control
	frozen []*Control
	born   int
	made   map[time.Time]bool // slots that were due at some pass
}

func (p *processes) begin() {
	p.born++
	p.world.cfg.Owner = fmt.Sprintf("process %d", p.born)
	deps := p.deps()
	deps.DB = p.pool
	var err error
	p.leads, err = New(p.world.cfg, deps)
	require.NoError(p.t, err)
	p.exec(`update leader set lease_until = '-infinity'`)
}

// pass looks at a moment of the clock, and makes at most one cut, for a slot that had none.
func (p *processes) pass(now time.Time) {
	p.t.Helper()
	before := p.cuts()
	for {
		ctx, cancel := context.WithCancel(p.t.Context())
		if p.fuse.cancel = nil; p.random.IntN(4) == 0 {
			p.fuse.left, p.fuse.after, p.fuse.cancel = 1+p.random.IntN(60), p.random.IntN(2) == 0, cancel
		}
		err := p.leads.Step(ctx, now)
		died := p.fuse.cancel != nil && p.fuse.left <= 0
		p.fuse.cancel = nil
		cancel()
		if !died {
			require.NoError(p.t, err)
			break
		}
		p.begin() // the next process goes on from there
	}
	slot := slotOf(now).UTC()
	fresh := p.cuts()[len(before):]
	if p.made[slot] || now.Before(start) {
		require.Empty(p.t, fresh, "the slot of %s has its cut", now)
		return
	}
	require.Len(p.t, fresh, 1, "the slot of %s, and never a burst", now)
	require.Equal(p.t, slot, *fresh[0].Slot)
	if now.Sub(slot) <= p.world.cfg.Ladder.MarkBy {
		require.Equal(p.t, slot, fresh[0].DueAt, "exactly at its time")
	}
	p.made[slot] = true
}

func (p *processes) cuts() []cut.Cut {
	p.t.Helper()
	all, err := cut.List(p.t.Context(), p.world.pool)
	require.NoError(p.t, err)
	return all
}

// TestAMonth: thirty days with crashes, restarts, outages, frozen leaders, and a wall clock that jumps a day ahead, and
// later a day back. The slots stay five hours apart; each has at most one cut.
func TestAMonth(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := setup(t)
	p := &processes{world: w, random: rand.New(rand.NewPCG(seed, 1)), fuse: &fuse{}, made: map[time.Time]bool{}}
	cfg := w.pool.Config().Copy()
	cfg.ConnConfig.Tracer = p.fuse
	var err error
	p.pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(p.pool.Close)
	p.begin()
	var rows, on int64
	var down time.Time // until then no process runs
	for slot := start; slot.Before(start.Add(month)); slot = slot.Add(five) {
		day := int(slot.Sub(start) / (24 * time.Hour))
		w.offset += 1000
		w.shard("base", int(on%2), w.offset-900, 105)
		on++
		rows += 105
		moments := []time.Duration{0}
		for range 2 {
			moments = append(moments, time.Duration(p.random.Int64N(int64(five))))
		}
		slices.Sort(moments)
		for _, m := range moments {
			now := slot.Add(m)
			switch {
			case day == 8 && m > 0: // a day ahead, for some passes; then it is set right
				now = now.Add(24 * time.Hour)
			case day == 20 && m > 0:
				now = now.Add(-24 * time.Hour)
			}
			if now.Before(down) {
				continue
			}
			p.pass(now)
		}
		switch p.random.IntN(12) {
		case 0:
			down = slot.Add(time.Duration(p.random.Int64N(int64(20 * time.Hour))))
		case 1:
			p.begin()
		case 2: // stands still, and another one is elected; it wakes later, and can't write
			p.frozen = append(p.frozen, p.leads)
			p.begin()
		}
		for _, old := range p.frozen {
			if old.term == 0 {
				continue // it never led
			}
			p.pass(slot) // somebody else leads
			_, err := old.beginCut(t.Context(), slot.Add(five))
			require.ErrorIs(t, err, postgres.ErrFenced)
		}
		p.frozen = nil
	}
	all := p.cuts()
	slots := map[time.Time]bool{}
	var counted int64
	for _, k := range all {
		require.NoError(t, k.Check())
		require.Zero(t, k.Slot.Sub(start)%five)
		require.False(t, slots[*k.Slot], "two cuts for one slot")
		slots[*k.Slot] = true
		if k.State == cut.Skipped {
			require.NotEmpty(t, k.Reason)
		}
		counted += k.InShards
	}
	order := func(set map[time.Time]bool) []time.Time { return slices.SortedFunc(maps.Keys(set), time.Time.Compare) }
	require.Equal(t, order(p.made), order(slots))
	require.Greater(t, len(slots), 90, "of 144")
	var waiting int64
	require.NoError(t, w.pool.QueryRow(t.Context(), `select coalesce(sum(rows), 0) from shard s where not exists (select from cut_shard x where x.shard = s.id)`).Scan(&waiting))
	require.Equal(t, rows, counted+waiting, "no row is lost")
	ended, err := candidate.List(t.Context(), w.pool)
	require.NoError(t, err)
	for _, c := range ended {
		if c.State == candidate.TimedOut {
			require.NotEmpty(t, c.Reason)
		}
	}
	t.Logf("%d cuts, %d processes", len(all), p.born)
}

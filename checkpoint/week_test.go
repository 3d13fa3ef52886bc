package checkpoint

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
)

// slots in a week, begun at its first one.
const slotsInAWeek = 34

// The ways a cycle can go.
const (
	ship         = "ship"
	hold         = "hold"
	rollback     = "rollback"
	invalid      = "invalid"
	idle         = "no submission"
	unverified   = "not verified"
	refused      = "refused, not corrected"
	notStarted   = "test not started"
	noVerdict    = "no verdict"
	fewRows      = "too few rows"
	haltedUnmend = "a halted partition"
	halfWithout  = "a halted partition that a person lets it go on without"
)

var week = []string{
	ship, hold, idle, rollback, fewRows, invalid, unverified, ship, notStarted, haltedUnmend, refused, noVerdict, halfWithout, idle,
	ship, fewRows, idle, haltedUnmend, refused, hold, unverified,
}

// season leads a world through cycles, five hours each, and keeps its own books of all rows.
type season struct {
	*world
	control *Control
	n       int    // of the cycle
	live    string // as it has to be
	rows    int64  // of all shards so far
	shards  int64
	carried int64 // of live's rows that the next cut has to take
	dead    int64 // of ended candidates
	old     int64 // of the version that was live before
}

func (s *season) at(hours, minutes int) time.Time {
	return start.Add(time.Duration(s.n)*5*time.Hour + time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute)
}

func (s *season) pass(hours, minutes int) {
	s.t.Helper()
	require.NoError(s.t, s.control.Step(s.t.Context(), s.at(hours, minutes)), "cycle %d", s.n)
}

// settle commits a shard between the last mark and the next one.
func (s *season) settle(version string, partition, turns int) {
	s.t.Helper()
	s.world.shard(version, partition, int64(s.n)*100_000+s.shards*100%90_000, turns)
	s.rows, s.shards = s.rows+int64(turns), s.shards+1
}

// TestAWeekLosesNoRow: whatever becomes of a cycle, every row of every shard is counted in exactly one cut, as the
// design says, and no slot is left out.
func TestAWeekLosesNoRow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := &season{world: w, control: w.control(), live: "base"}
	s.settle("base", 0, 100)
	s.settle("base", 1, 70)
	s.carried = 170
	for ; s.n < slotsInAWeek; s.n++ {
		how := week[s.n%len(week)]
		w.offset = int64(s.n) * 100_000
		if s.n == 0 {
			w.offset = 90_000
		}
		t.Run(fmt.Sprintf("%d %s", s.n, how), func(t *testing.T) {
			w.t = t
			s.cycle(how)
		})
		if t.Failed() {
			return
		}
	}
	w.t = t
	cuts, err := cut.List(t.Context(), w.pool)
	require.NoError(t, err)
	require.Len(t, cuts, slotsInAWeek)
	var counted int64
	for i, k := range cuts {
		require.Equal(t, start.Add(time.Duration(i)*5*time.Hour), k.DueAt)
		require.NoError(t, k.Check())
		require.NotEmpty(t, string(k.State)+k.Reason)
		counted += k.InShards
	}
	var waiting, twice int64
	require.NoError(t, w.pool.QueryRow(t.Context(), `select coalesce(sum(rows), 0) from shard s where not exists (select from cut_shard x where x.shard = s.id)`).Scan(&waiting))
	require.NoError(t, w.pool.QueryRow(t.Context(), `select coalesce(sum(rows), 0) from cut_shard`).Scan(&twice))
	require.Equal(t, s.rows, counted+waiting, "no row is lost")
	require.Equal(t, counted, twice, "the cuts and their shards say the same")
	require.Equal(t, s.carried+s.dead+s.old, waiting)
}

// cycle is one of them, from its slot to its verdict.
func (s *season) cycle(how string) {
	id, version := fmt.Sprintf("cut-%d", s.n+1), fmt.Sprintf("cand-%d", s.n+1)
	halted := how == haltedUnmend || how == halfWithout
	few := how == fewRows
	if few {
		s.cfg.Cut.MinRows = 1 << 20
		s.restart()
	}
	s.frozen[1] = halted
	s.pass(0, 0)
	left := int64(0)
	switch {
	case few:
		require.Contains(s.t, s.world.cut(id).Reason, "they go to the next cut")
		s.cfg.Cut.MinRows = 100
		s.restart()
	case how == haltedUnmend:
		s.pass(0, 10)
		require.Equal(s.t, "waits for partition 1", s.world.cut(id).Reason)
		s.pass(1, 1)
		require.Contains(s.t, s.world.cut(id).Reason, "waits for partition 1; by ")
	case how == halfWithout:
		require.NoError(s.t, s.pool.QueryRow(s.t.Context(), `select coalesce(sum(rows), 0) from shard s
			where partition = 1 and policy_version = $1 and not exists (select from cut_shard x where x.shard = s.id)`, s.live).Scan(&left))
		s.goOnWithout(id, 1)
		s.pass(0, 30)
	}
	s.frozen[1] = false
	k := s.world.cut(id)
	require.Equal(s.t, s.at(0, 0), k.DueAt)
	if few || how == haltedUnmend {
		require.Equal(s.t, cut.Skipped, k.State)
	} else {
		require.Equal(s.t, cut.Packed, k.State, k.Reason)
		require.Equal(s.t, s.carried-left, k.Taken)
		if how != halfWithout {
			require.Equal(s.t, cut.Balance{InShards: s.carried + s.dead + s.old, Taken: s.carried, Superseded: s.old, Stale: s.dead}, k.Balance)
		}
		s.old, s.dead = s.old-k.Superseded, s.dead-k.Stale
		s.carried = left
	}
	tested := s.lead(how, id, version)
	s.settle(s.live, 0, 120)
	s.settle(s.live, 1, 50)
	s.carried += 170
	if tested {
		s.settle(version, 0, 110)
	}
	ended := map[string]candidate.State{
		ship: candidate.Promoted, hold: candidate.Held, rollback: candidate.RolledBack, invalid: candidate.Invalid,
		idle: candidate.TimedOut, unverified: candidate.TimedOut, refused: candidate.TimedOut, notStarted: candidate.TimedOut, noVerdict: candidate.TimedOut, halfWithout: candidate.TimedOut,
	}[how]
	if ended != "" {
		c, err := candidate.Get(s.t.Context(), s.pool, version)
		require.NoError(s.t, err)
		require.Equal(s.t, ended, c.State, c.Reason)
		require.NotEmpty(s.t, c.Reason)
	}
	switch {
	case ended == candidate.Promoted:
		// The candidate's arm has made the next cut's data already; control's is superseded.
		s.live, s.old, s.carried = version, s.old+s.carried, 110
	case tested:
		s.dead += 110 // and control's rows carry over
	}
}

// restart is another process with the configuration as it now stands.
func (s *season) restart() {
	s.exec(`update leader set lease_until = '-infinity'`)
	s.cfg.Owner = fmt.Sprintf("process %d", s.n)
	s.control = s.world.control()
}

// lead is what trainer, workers and traffic do after the cut; it says whether the candidate was tested.
func (s *season) lead(how, id, version string) (tested bool) {
	switch how {
	case fewRows, haltedUnmend:
		s.pass(4, 46)
		return false
	case idle, halfWithout:
		s.pass(1, 1)
		return false
	}
	sub := s.submission(id, version)
	if how == refused {
		sub.Files[0].Bytes++
	}
	s.submit(sub, s.at(0, 40))
	switch how {
	case unverified:
		s.pass(1, 16)
		return false
	case refused:
		s.pass(0, 41)
		s.pass(1, 1)
		return false
	case notStarted:
		s.broken = errors.New("no broker")
		for _, m := range []int{41, 76, 4*60 + 46} {
			require.ErrorContains(s.t, s.control.Step(s.t.Context(), s.at(0, m)), "no broker")
		}
		s.broken = nil
		s.pass(4, 47)
		return false
	}
	s.pass(0, 41)
	s.pass(1, 15)
	require.Equal(s.t, candidate.Testing, s.state(version))
	if how == noVerdict {
		s.committed(s.at(4, 0))
		s.pass(4, 46)
		return true
	}
	experiment := "exp" + version[len("cand"):]
	s.traffic(experiment, map[string]float64{ship: .3, rollback: -.1}[how])
	if how == invalid {
		s.exec(`insert into exposed_unit select experiment, unit_hash, 'candidate' from exposed_unit where experiment = $1 and arm = 'control' and unit_hash like '%1'`, experiment)
	}
	s.committed(s.at(4, 40))
	s.pass(4, 43)
	return true
}

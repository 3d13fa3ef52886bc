package assignment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/internal/unithash"
)

func unitName(i int) string { return fmt.Sprint("unit-", i) }

func assign(t *testing.T, r *Ruleset, q Query) Assignment {
	t.Helper()
	a, err := r.Assign(q, noon)
	require.NoError(t, err)
	return a
}

// TestCoverageGrows: at each step both arms are served by exactly half of the places in the test, and whoever is in an
// arm stays there.
func TestCoverageGrows(t *testing.T) {
	t.Parallel()
	salt := experimentOf(0).Salt
	before := map[string]string{}
	for _, coverage := range []int{200, 1000, 4000, Buckets} {
		places := map[string]map[int]bool{ArmControl: {}, ArmCandidate: {}}
		for i := range 200_000 {
			unit := unitName(i)
			now := arm(salt, unit, coverage)
			if was := before[unit]; was != "" {
				require.Equal(t, was, now, "%s moved when the coverage grew to %d", unit, coverage)
			}
			if before[unit] = now; now != "" {
				places[now][unithash.Bucket(salt, unit)] = true
			}
		}
		require.Len(t, places[ArmControl], coverage/2)
		require.Len(t, places[ArmCandidate], coverage/2)
	}
}

// TestArmsAreOfTheSameSize holds for each of the 10,001 coverages, place by place.
func TestArmsAreOfTheSameSize(t *testing.T) {
	t.Parallel()
	byPlace := make([]string, Buckets)
	for i, found := 0, 0; found < Buckets; i++ {
		if place := unithash.Bucket("s", unitName(i)); byPlace[place] == "" {
			byPlace[place] = unitName(i)
			found++
		}
	}
	for coverage := 0; coverage <= Buckets; coverage += 111 {
		for _, c := range []int{coverage, min(coverage+1, Buckets)} {
			count := map[string]int{}
			for _, unit := range byPlace {
				count[arm("s", unit, c)]++
			}
			require.Equal(t, (c+1)/2, count[ArmControl], c)
			require.Equal(t, (c+1)/2, count[ArmCandidate], c)
		}
	}
}

func TestHoldBackThenExperimentThenLive(t *testing.T) {
	t.Parallel()
	r := rulesetWith(func(r *Ruleset) { r.HoldBack, r.Experiment = holdBack(), experimentOf(4000) })
	count := map[Assignment]int{}
	for i := range 100_000 {
		unit := unitName(i)
		a := assign(t, &r, Query{Unit: unit})
		count[a]++
		if held := arm(r.HoldBack.Salt, unit, 1000); held != "" {
			require.Equal(t, "anchor-1", a.Experiment, "whoever is held back, or compared with them, is in no test of a candidate")
		}
	}
	end := r.Experiment.EndsAt
	require.InDelta(t, 5_000, count[Assignment{Version: "base-1", Variant: VariantHoldBack, Experiment: "anchor-1", Arm: ArmControl}], 300)
	require.InDelta(t, 5_000, count[Assignment{Version: "base-8", Variant: VariantLive, Experiment: "anchor-1", Arm: ArmCandidate}], 300)
	require.InDelta(t, 18_000, count[Assignment{Version: "base-8", Variant: VariantControl, Experiment: "exp-9", Arm: ArmControl, ValidUntil: end}], 600)
	require.InDelta(t, 18_000, count[Assignment{Version: "cand-9", Variant: VariantCandidate, Experiment: "exp-9", Arm: ArmCandidate, ValidUntil: end}], 600)
	require.InDelta(t, 54_000, count[Assignment{Version: "base-8", Variant: VariantLive}], 900)
	require.Len(t, count, 5)
}

// TestBothArmsLoseTheSessionsFromBefore: a session that began before the experiment counts in neither arm.
func TestBothArmsLoseTheSessionsFromBefore(t *testing.T) {
	t.Parallel()
	r := rulesetWith(func(r *Ruleset) { r.Experiment = experimentOf(Buckets) })
	for i := range 1000 {
		q := Query{Unit: unitName(i)}
		fresh := assign(t, &r, q)
		q.Checkpoint = "base-8"
		require.Equal(t, Assignment{Version: "base-8", Variant: VariantKept}, assign(t, &r, q))
		q.Checkpoint, q.Experiment = fresh.Version, fresh.Experiment
		require.Equal(t, fresh, assign(t, &r, q), "one that began in it stays in it")
	}
}

func TestSessionsKeepTheirCheckpointThroughACycle(t *testing.T) {
	t.Parallel()
	cycle := rulesetWith(func(r *Ruleset) { r.Experiment = experimentOf(Buckets) })
	unit := ""
	for i := 0; unit == ""; i++ {
		if assign(t, &cycle, Query{Unit: unitName(i)}).Arm == ArmCandidate {
			unit = unitName(i)
		}
	}
	session := Query{Unit: unit, Checkpoint: "cand-9", Experiment: "exp-9"}
	shipped := rulesetWith(func(r *Ruleset) { r.Live, r.Kept = "cand-9", []string{"base-8"} })
	require.Equal(t, "cand-9", assign(t, &shipped, session).Version)
	next := rulesetWith(func(r *Ruleset) { r.Live, r.Kept = "cand-10", []string{"cand-9", "base-8"} })
	require.Equal(t, Assignment{Version: "cand-9", Variant: VariantKept}, assign(t, &next, session))
	rolledBack := rulesetWith(func(*Ruleset) {})
	require.Equal(t, Assignment{Version: "base-8", Variant: VariantLive}, assign(t, &rolledBack, session), "nobody keeps what was withdrawn")
}

func TestAssignNeedsNoMemory(t *testing.T) {
	r := rulesetWith(func(r *Ruleset) { r.HoldBack, r.Experiment = holdBack(), experimentOf(4000) })
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = r.Assign(Query{Unit: "user-17"}, noon) }))
}

func BenchmarkAssign(b *testing.B) {
	r := rulesetWith(func(r *Ruleset) { r.HoldBack, r.Experiment = holdBack(), experimentOf(4000) })
	for b.Loop() {
		if _, err := r.Assign(Query{Unit: "5bdcc146bf60754e6a042426089575c7"}, noon.Add(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
}

package distill

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"millrace/distill/account"
	"millrace/distill/rehearsal"
	"millrace/schemas/ledger"
)

// TestClientsMakeNoSeries counts turns of versions and arms that nobody has registered.
func TestClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	eng, _ := rehearsal.Run(rehearsal.Log(nil))
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	counts := account.New()
	for _, key := range []account.Settled{
		{PolicyVersion: "base", Arm: "control"},
		{PolicyVersion: "none"},
		{PolicyVersion: "base-1", Arm: "candidate"},
		{PolicyVersion: "base-2", Arm: "candidate"},
		{PolicyVersion: "base", Arm: "3f2a"},
		{PolicyVersion: "base", Arm: "77b1"},
	} {
		key.Disposition = ledger.Rewarded
		counts.Settled[key] = 1
	}
	m.committed(0, newBatch(0), nil, counts, eng, 0)
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "millrace_turns_total" {
			continue
		}
		for _, series := range family.GetMetric() {
			key := ""
			for _, label := range series.GetLabel() {
				key += label.GetValue() + " "
			}
			found[key] = series.GetCounter().GetValue()
		}
	}
	require.Equal(t, map[string]float64{
		"control rewarded base ": 1, " rewarded none ": 1, "candidate rewarded other ": 2, "other rewarded base ": 2,
	}, found)
}

// TestALateEndLeavesTheNextHoldAlone ends a worker whose partition was claimed anew meanwhile.
func TestALateEndLeavesTheNextHoldAlone(t *testing.T) {
	t.Parallel()
	before, next := &hold{}, &hold{}
	d := &Distill{workers: map[int32]*hold{3: next}}
	d.ended(3, before)
	require.Equal(t, 1, d.held())
	d.ended(3, next)
	require.Zero(t, d.held())
}

// TestTurnsAreCountedOnceOverRestarts ends the process wherever a batch can end without a commit, and starts another,
// which rebuilds the engine: what all of them have counted is what the accounting says, though each began at 0.
func TestTurnsAreCountedOnceOverRestarts(t *testing.T) {
	t.Parallel()
	log := writeLog(t, crashSeed, 12)
	w := newWorld(t, log)
	counted := map[string]map[string]float64{"millrace_turns_total": {}, "millrace_records_total": {}}
	crashed := map[string]bool{}
	processes := 0
	for processes == 0 || w.committed() < w.end {
		processes++
		registry := prometheus.NewRegistry()
		dead := false
		d, err := New(Config{
			Topic: w.cfg.Topic, Owner: fmt.Sprint("process-", processes), LeaseTerm: 30 * time.Second, UnitKey: []byte("unit-key-unit-key"), Compression: "none",
			reached: func(_ *Lease, step string) error {
				at := fmt.Sprint(w.committed(), step)
				if step == "commit: answered" || crashed[at] && !dead {
					return nil
				}
				crashed[at], dead = true, true
				return errCrash
			},
		}, w.pool, w.reader, w.dead, w.store, w.keyring, slog.New(slog.DiscardHandler), registry)
		require.NoError(t, err)
		require.NoError(t, d.prepare(t.Context()))
		_, err = w.pool.Exec(t.Context(), `update partition set lease_until = '-infinity'`)
		require.NoError(t, err)
		lease, err := d.leases.claim(t.Context())
		require.NoError(t, err)
		held := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { d.hold(ctx, lease); close(held) }()
		w.awaitEnd(ctx, held)
		stop()
		<-held
		addCounters(t, registry, counted)
	}
	require.Greater(t, processes, 50)
	for metric, query := range map[string]string{
		"millrace_turns_total":   `select disposition, sum(turns)::float8 from account_turns group by 1`,
		"millrace_records_total": `select class, sum(records)::float8 from account_records group by 1`,
	} {
		want := map[string]float64{}
		var label string
		var n float64
		rows, err := w.pool.Query(t.Context(), query)
		require.NoError(t, err)
		_, err = pgx.ForEachRow(rows, []any{&label, &n}, func() error { want[label] = n; return nil })
		require.NoError(t, err)
		require.Greater(t, len(want), 2)
		require.Equal(t, want, counted[metric], metric)
	}
}

// addCounters adds a registry's counters to those of processes before, by disposition or class.
func addCounters(t *testing.T, registry *prometheus.Registry, counted map[string]map[string]float64) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		sum := counted[family.GetName()]
		if sum == nil {
			continue
		}
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == "disposition" || label.GetName() == "class" {
					sum[label.GetValue()] += series.GetCounter().GetValue()
				}
			}
		}
	}
}

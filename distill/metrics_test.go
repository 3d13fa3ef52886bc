package distill

import (
	"testing"

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

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/gatepolicy"
)

func TestGateSimulate(t *testing.T) {
	t.Parallel()
	traffic := GateTraffic{Units: 500, TurnsPerUnit: 2, TurnsCV: 1, ICC: .1, EditShare: .6}
	c := &GateSimulate{Policy: "default", GateTraffic: traffic, Experiments: 4, Seed: 1, Every: 30, Only: []string{"unchanged", "lost events"}}
	out, err := runGate(t, c, false)
	require.NoError(t, err)
	require.Contains(t, out, "policy default version 1, 500 units, 4 tests of each candidate")
	require.Contains(t, out, "SHIP at most 2.5%")
	out, err = runGate(t, c, true)
	require.NoError(t, err)
	var report simulated
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Candidates, 2)

	c.Only = []string{"brave"}
	_, err = runGate(t, c, false)
	require.ErrorContains(t, err, `there is no candidate "brave"`)
	c.Only, c.Policy = nil, "nowhere.yaml"
	_, err = runGate(t, c, false)
	require.ErrorContains(t, err, "nowhere.yaml")
	c.Policy, c.Experiments = "default", 0
	_, err = runGate(t, c, false)
	require.ErrorContains(t, err, "at least 1")
}

// The proposed policy can be used as it was written, and nothing is overwritten.
func TestGatePlanWritesTheProposedPolicy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ours.yaml")
	c := &GatePlan{Policy: "default", Write: file, GateTraffic: GateTraffic{Units: 300, Minutes: 300, Pool: 1000, TurnsPerUnit: 4, TurnsCV: 1, ICC: .1, EditShare: .6}}
	out, err := runGate(t, c, false)
	require.NoError(t, err)
	require.Contains(t, out, "and mode do_no_harm")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "- {metric: edit_rate, margin: 0.08}")
	policy, err := gatepolicy.Parse(text)
	require.NoError(t, err)
	require.Equal(t, gatepolicy.DoNoHarm, policy.Mode)
	_, err = runGate(t, c, false)
	require.ErrorIs(t, err, os.ErrExist)
}

func TestGatePolicyLints(t *testing.T) {
	t.Parallel()
	for _, name := range gatepolicy.Shipped {
		out, err := runGate(t, &GatePolicy{Policy: name}, false)
		require.NoError(t, err)
		require.Contains(t, out, "name: "+name)
	}
	file := writeGateFile(t, []byte("kind: GatePolicy\nname: x\nversion: 1\nsuccess: [edit_rate]\nguardrails:\n  - {metric: edit_rate, margin: 0.02}\n"))
	out, err := runGate(t, &GatePolicy{Policy: file}, false)
	require.NoError(t, err)
	require.Contains(t, out, "gate policy line 4: success[0]: edit_rate is also a guardrail")
	_, err = runGate(t, &GatePolicy{Policy: file, Lint: true}, false)
	require.ErrorContains(t, err, "warnings: 1")
	_, err = runGate(t, &GatePolicy{Policy: "tiny"}, false)
	require.ErrorContains(t, err, "those are default, large, small")
	out, err = runGate(t, &GatePolicy{Schema: true}, false)
	require.NoError(t, err)
	require.Contains(t, out, "early_guardrail")
}

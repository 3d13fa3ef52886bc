package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/gate"
	"millrace/schemas/gatepolicy"
)

// runGate runs a gate command and gives what it printed.
func runGate(t *testing.T, c interface {
	Run(ctx context.Context, out *Output) error
}, asJSON bool,
) (string, error) {
	t.Helper()
	var b bytes.Buffer
	err := c.Run(context.Background(), &Output{Out: &b, Err: &b, JSON: asJSON})
	return b.String(), err
}

func writeGateFile(t *testing.T, text []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

func TestGateCheckTurnsRedOnOneWrongNumber(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../checkpoint/stats/testdata/abgate.json")
	require.NoError(t, err)
	out, err := runGate(t, &GateCheck{File: writeGateFile(t, text)}, false)
	require.NoError(t, err)
	require.Contains(t, out, "+ 0 off +")
	require.Contains(t, out, "kayenta_mw_ci_small")

	wrong := bytes.Replace(text, []byte("0.205903211"), []byte("0.205903219"), 1)
	require.NotEqual(t, text, wrong)
	out, err = runGate(t, &GateCheck{File: writeGateFile(t, wrong)}, false)
	require.ErrorContains(t, err, "1 of 55 cases are off")
	require.Contains(t, out, "p[0] is 0.2059032107, expected 0.205903219 ± 6e-10")

	_, err = runGate(t, &GateCheck{File: writeGateFile(t, []byte(`[{"name":"x","input":{},"expected":{"y":1}}]`))}, false)
	require.ErrorContains(t, err, "no case is one that the gate computes")

	out, err = runGate(t, &GateCheck{File: "../../internal/unithash/testdata/hash.json"}, false)
	require.NoError(t, err)
	require.Contains(t, out, "cases 55 = 55 agree + 0 off + 0 skipped")
}

func TestGateEvaluateMakesTheVerdictAgain(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 5, 1, 15, 0, 0, time.UTC)
	record := gate.Freeze(gatepolicy.Default(), gate.Evidence{
		Experiment: "exp-1", Candidate: "ckpt-2", StartsAt: start, EndsAt: start.Add(time.Hour), CommittedThrough: start.Add(time.Hour),
		ExposedUnits: gate.Arms{Control: 3000, Candidate: 2000},
	})
	text, err := json.Marshal(record)
	require.NoError(t, err)
	out, err := runGate(t, &GateEvaluate{File: writeGateFile(t, text)}, false)
	require.NoError(t, err)
	require.Contains(t, out, "INVALID ckpt-2")
	require.Contains(t, out, "the same to the bit")

	out, err = runGate(t, &GateEvaluate{File: writeGateFile(t, text)}, true)
	require.NoError(t, err)
	var again gate.Verdict
	require.NoError(t, json.Unmarshal([]byte(out), &again))
	require.Equal(t, record.Verdict, again)

	_, err = runGate(t, &GateEvaluate{File: writeGateFile(t, []byte(strings.Replace(string(text), `"candidate":2000`, `"candidate":3000`, 1)))}, false)
	require.ErrorContains(t, err, "the evidence gives HOLD, the stored verdict says INVALID")
	_, err = runGate(t, &GateEvaluate{File: writeGateFile(t, []byte(`{}`))}, false)
	require.ErrorContains(t, err, "this is no record of a test")
}

func TestGatePlanAndPolicy(t *testing.T) {
	t.Parallel()
	plan := &GatePlan{GateTraffic: GateTraffic{Units: 4000, TurnsPerUnit: 4, TurnsCV: 1, ICC: .1, EditShare: .6, Base: map[string]string{"tokens": "900:850"}, Effect: map[string]float64{"kept_edits": .09}}}
	out, err := runGate(t, plan, false)
	require.NoError(t, err)
	require.Contains(t, out, "kept edits: the smallest win is a change of")
	plan.Base["tokens"] = "many"
	_, err = runGate(t, plan, false)
	require.ErrorContains(t, err, "--base tokens=many")

	shipped, err := runGate(t, &GatePolicy{Policy: "default"}, false)
	require.NoError(t, err)
	out, err = runGate(t, &GatePolicy{Policy: writeGateFile(t, []byte(shipped))}, false)
	require.NoError(t, err)
	require.Contains(t, out, "gate policy default version 1, mode improve")
	_, err = runGate(t, &GatePolicy{Policy: writeGateFile(t, []byte("kind: GatePolicy\nname: x\n"))}, false)
	require.ErrorContains(t, err, "version: is 0")
}

// A frozen verdict is told as it stands; a running test as the gate would decide now.
func TestGateExplainAsksTheServer(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 5, 1, 15, 0, 0, time.UTC)
	evidence := gate.Evidence{Experiment: "exp-1", Candidate: "ckpt-2", StartsAt: start, EndsAt: start.Add(time.Hour), CommittedThrough: start.Add(time.Hour)}
	ended := gate.Freeze(gatepolicy.Default(), evidence)
	evidence.CommittedThrough = start
	running := gate.Freeze(gatepolicy.Default(), evidence)
	answers := map[string]any{
		"/v1/candidates/cand-1/verdict":  map[string]any{"candidate": "cand-1", "record": ended},
		"/v1/experiments/exp-2/evidence": running,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]string{"code": "not_found", "message": "there is no verdict"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	explain := func(candidate string) (string, error) {
		return runGate(t, &GateExplain{Remote: Remote{Server: server.URL}, Candidate: candidate}, false)
	}
	out, err := explain("cand-1")
	require.NoError(t, err)
	require.Contains(t, out, "HOLD ckpt-2")
	out, err = explain("cand-2")
	require.NoError(t, err)
	require.Contains(t, out, "RUNNING ckpt-2")
	_, err = explain("cand-3")
	require.ErrorContains(t, err, "there is no verdict")
}

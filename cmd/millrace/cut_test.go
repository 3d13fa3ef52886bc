package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
)

// TestCutSaysWhatItWaitsFor: the words that a release manager reads.
func TestCutSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	at := func(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }
	next := &checkpoint.Deadline{Step: "submit", By: at(8, 0), Left: 23 * 60}
	absent := []cut.Absence{{Partition: 3, Who: "ann", Why: "its disk is gone", At: at(7, 20)}}
	one := cut.Cut{
		ID: "cut-1", State: cut.Skipped, Reason: "20 rows of 20 units", DueAt: at(7, 0), Cause: "schedule, 2 missed before it", Base: "base", Without: absent,
	}
	report := checkpoint.CutReport{
		Cut: &one, Candidate: "cand-1", CandidateState: candidate.Training, Next: next,
		Ladder: &candidate.Ladder{SubmitBy: at(8, 0), EvalsBy: at(8, 15), StartsAt: at(8, 15), EndsAt: at(11, 40), VerdictBy: at(11, 45)},
	}
	var decided map[string]any
	mux := http.NewServeMux()
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&decided) != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	mux.Handle("GET /v1/cuts", answer(map[string]any{"cuts": []cut.Cut{one}}))
	mux.Handle("GET /v1/cuts/cut-1", answer(report))
	mux.Handle("POST /v1/cuts/last/without", answer(report))
	mux.Handle("GET /v1/release", answer(checkpoint.Status{Next: next, NextCut: &next.By, ByRows: &checkpoint.ByRows{Waiting: 312, At: 2000, Earliest: at(7, 30)}}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	remote := Remote{Server: server.URL}
	for name, c := range map[string]struct {
		run  func(context.Context, *Output) error
		says string
	}{
		"list": {
			func(ctx context.Context, out *Output) error {
				return (&CutList{}).Run(ctx, out, &CutCommand{Remote: remote})
			},
			"cut-1  skipped  2026-03-01 07:00  base  0 rows  schedule, 2 missed before it  20 rows of 20 units (without partition 3: ann, its disk is gone)\n",
		},
		"show": {
			func(ctx context.Context, out *Output) error {
				return (&CutShow{ID: "cut-1"}).Run(ctx, out, &CutCommand{Remote: remote})
			},
			`cut-1  skipped  due 2026-03-01 07:00 (schedule, 2 missed before it)  base base
20 rows of 20 units
without partition 3, by decision of ann at 2026-03-01 07:20: its disk is gone; its rows go to the next cut
cand-1 training: submit by 2026-03-01 08:00 · evaluated by 2026-03-01 08:15 · test 2026-03-01 08:15 to 2026-03-01 11:40 · verdict by 2026-03-01 11:45
next: submit by 08:00, 23 min left
`,
		},
		"go on without": {
			func(ctx context.Context, out *Output) error {
				return (&CutGoOnWithout{Partition: 3, Why: "its disk is gone", Cut: "last"}).Run(ctx, out, &CutCommand{Remote: remote})
			},
			"cut-1 goes on without partition 3; its rows go to the next cut: millrace cut show cut-1\n",
		},
		"status": {
			func(ctx context.Context, out *Output) error {
				return (&ReleaseStatus{}).Run(ctx, out, &ReleaseCommand{Remote: remote})
			},
			`no checkpoint is live yet: name the one that serves now with ` + "`millrace release init VERSION`" + `
next       submit by 08:00, 23 min left
next cut   at 2000 rows (312 wait), not before 2026-03-01 07:30, at the latest 2026-03-01 08:00
`,
		},
	} {
		var text bytes.Buffer
		require.NoError(t, c.run(t.Context(), &Output{Out: &text}), name)
		require.Equal(t, c.says, text.String(), name)
	}
	require.Equal(t, map[string]any{"partition": 3., "why": "its disk is gone"}, decided)
}

// TestCycleOfASmallTeam: what docs/checkpoints.md shows fits, and what doesn't fit is said before anything is opened.
func TestCycleOfASmallTeam(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(filepath.Join("..", "..", "schemas", "gatepolicy", "default.yaml"))
	require.NoError(t, err)
	week := bytes.ReplaceAll(whole, []byte("test_minutes: 205"), []byte("test_minutes: 10080"))
	require.NotEqual(t, whole, week)
	policy := filepath.Join(t.TempDir(), "small.yaml")
	require.NoError(t, os.WriteFile(policy, week, 0o600))
	c := Cycle{
		Every: 180 * time.Hour, CutAtRows: 2400, SubmitBy: 8 * time.Hour, EvalsBy: 11 * time.Hour, MinRows: 1000, MinUnits: 20, OnOpen: "wait", Policy: policy,
	}
	cfg, err := c.config()
	require.NoError(t, err)
	require.Equal(t, 360*time.Hour, cfg.MaxPeriod)
	c.EvalsBy = 13 * time.Hour
	_, err = c.config()
	require.ErrorContains(t, err, "make the period at least 181h5m0s, or the test 1h5m0s shorter")
	var usage *usageError
	require.ErrorAs(t, err, &usage)
}

package checkpoint

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
)

func TestDeadlines(t *testing.T) {
	t.Parallel()
	l := candidate.Ladder{SubmitBy: at(1, 0), EvalsBy: at(1, 15), StartsAt: at(1, 15), EndsAt: at(4, 40), VerdictBy: at(4, 45)}
	for _, c := range []struct {
		state candidate.State
		now   time.Time
		says  string
	}{
		{candidate.Training, at(0, 37), "submit by 08:00, 23 min left"},
		{candidate.Refused, at(0, 59).Add(30 * time.Second), "submit a corrected one by 08:00, 30 s left"},
		{candidate.Submitted, at(0, 59), "verify its files by 08:15, 16 min left"},
		{candidate.Verified, at(0, 59), "evaluate by 08:15, 16 min left"},
		{candidate.Evaluating, at(0, 59), "start the test by 08:15, 16 min left"},
		{candidate.Testing, at(1, 30), "test ends by 11:40, 3 h 10 min left"},
		{candidate.Testing, at(4, 41), "verdict by 11:45, 4 min left"},
		{candidate.Testing, at(4, 47), "verdict by 11:45, late by 2 min"},
		{candidate.Training, at(-10, 0), "submit by 2026-03-01 08:00, 11 h 0 min left"},
		{candidate.Training, at(-100, 0), "submit by 2026-03-01 08:00, 4.2 days left"},
	} {
		require.Equal(t, c.says, NextOf(&candidate.Candidate{State: c.state, Ladder: l}, c.now).String())
	}
	require.Nil(t, NextOf(&candidate.Candidate{State: candidate.Held, Ladder: l}, at(1, 0)))
	k := &cut.Cut{State: cut.Marking, MarkBy: at(0, 10), SubmitBy: at(1, 0)}
	require.Equal(t, "every partition past the mark by 07:10, 5 min left", nextOfCut(k, at(0, 5)).String())
	require.Equal(t, "every partition past the mark, or a person's decision, by 08:00, 40 min left", nextOfCut(k, at(0, 20)).String())
}

// TestTheClockOverHTTP: what a person decides, and what the answers say of it.
func TestTheClockOverHTTP(t *testing.T) {
	t.Parallel()
	w := setup(t)
	now := at(0, 0)
	call := w.serve(&now)
	c := w.control()
	without := func(id string, body any) (int, string) {
		code, _, answer := call("POST", "/v1/cuts/"+id+"/without", "releases:write", body)
		return code, string(answer)
	}
	code, said := without("last", map[string]any{"partition": 1, "why": "x"})
	require.Equal(t, 409, code)
	require.Contains(t, said, "there is no cut yet")
	w.interval()
	w.frozen[1] = true
	w.step(c, 0, 0)
	now = at(0, 20)
	_, _, body := call("GET", "/v1/cuts/cut-1", "shards:read", nil)
	require.Equal(t, Deadline{Step: "every partition past the mark, or a person's decision,", By: at(1, 0), Left: 2400}, *decode[CutReport](t, body).Next)
	code, said = without("last", map[string]any{"why": "x"})
	require.Equal(t, 400, code)
	require.Contains(t, said, "partition and why: both are needed")
	code, said = without("last", map[string]any{"partition": 0, "why": "x"})
	require.Equal(t, 409, code)
	require.Contains(t, said, "partition 0 has passed the mark of cut-1")
	code, _ = without("cut-9", map[string]any{"partition": 0, "why": "x"})
	require.Equal(t, 404, code)
	code, said = without("last", map[string]any{"partition": 1, "why": "its disk is gone"})
	require.Equal(t, 200, code)
	require.Equal(t, []cut.Absence{{Partition: 1, Who: "unknown", Why: "its disk is gone", At: now}}, decode[CutReport](t, []byte(said)).Without)
	code, _, _ = call("POST", "/v1/cuts/last/without", "shards:read", nil)
	require.Equal(t, 403, code)

	w.step(c, 0, 21)
	now = at(0, 37)
	_, _, body = call("GET", "/v1/cuts/cut-1", "shards:read", nil)
	report := decode[CutReport](t, body)
	require.Equal(t, cut.Packed, report.Cut.State)
	require.Equal(t, []any{"cand-1", candidate.Training, at(1, 0)}, []any{report.Candidate, report.CandidateState, report.Ladder.SubmitBy})
	require.Equal(t, "submit by 08:00, 23 min left", report.Next.String())
	_, _, body = call("GET", "/v1/candidates/cand-1", "gates:read", nil)
	require.Equal(t, "submit by 08:00, 23 min left", decode[CandidateReport](t, body).Next.String())
	_, _, body = call("GET", "/v1/release", "gates:read", nil)
	require.Equal(t, "submit by 08:00, 23 min left", decode[Status](t, body).Next.String())
}

// TestNobodyAsksForACutThatNeverComes: before the first release there is nothing to cut.
func TestNobodyAsksForACutThatNeverComes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	now := at(0, 0)
	call := w.serve(&now)
	w.step(w.control(), -1, 0)
	w.exec(`alter table release disable trigger append_only`)
	w.exec(`truncate publication, live, release, policy_version cascade`)
	code, _, body := call("POST", "/v1/cuts", "releases:write", nil)
	require.Equal(t, 409, code)
	require.Contains(t, string(body), "millrace release init VERSION")
}

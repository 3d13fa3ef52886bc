package web

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	t.Parallel()
	s := example()
	s.StartedAt, s.CycleHours = s.LogTime.Add(-4*time.Hour-45*time.Minute), 5
	s.Cuts, s.Candidates = s.Cuts[:1], s.Candidates[:1]
	require.Equal(t, strings.TrimSpace(`
postgres 15 (local) · kafka (embedded)                                  log time 04:45 of a 5 h cycle
sessions 4,112  turns 15,230 = 14,604 settled + 626 open                balanced
records 309,812 · shards 38 · reward +0.21 (base-0) +0.27 (cand-1)
cut-1 done → cand-1 promoted → A/B 2,051 | 2,047 units
kept edits +8.6 % [+5.2, +12.0]   edit rate +3.6 % [+1.4, +5.8]   latency +10.4 % [+7.0, +14.0]   SRM p .713
SHIP → live = cand-1                                                    next: millrace gate explain cand-1
`), strings.Join(s.Lines(), "\n"))

	s.Records.Read++
	require.Contains(t, s.Lines()[1], "NOT BALANCED")
}

func TestLinesOfAnEmptyStart(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"",
		"turns 0 = 0 settled + 0 open                                            balanced",
		"records 0 · shards 0",
		"no cut yet",
		"",
		"nothing is live",
	}, Status{}.Lines())
}

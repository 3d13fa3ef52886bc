package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// lineWidth is where what stands at the right end of a line begins.
const lineWidth = 72

// Lines are the status as a handful of lines for a terminal, the same facts as the page's. They are always six, so
// that they can be written over one another.
func (s Status) Lines() []string {
	return []string{
		atRight(strings.Join(s.Parts, " · "), s.logTime()),
		s.traffic(),
		s.output(),
		s.cycle(),
		s.evidence(),
		s.verdict(),
	}
}

func atRight(left, right string) string {
	if right == "" {
		return left
	}
	return left + strings.Repeat(" ", max(2, lineWidth-utf8.RuneCountInString(left))) + right
}

func (s Status) logTime() string {
	if s.LogTime.IsZero() {
		return ""
	}
	if s.StartedAt.IsZero() || s.CycleHours == 0 {
		return "log time " + when(s.LogTime)
	}
	minutes := int(s.LogTime.Sub(s.StartedAt) / time.Minute)
	return fmt.Sprintf("log time %02d:%02d of a %s h cycle", minutes/60, minutes%60, strconv.FormatFloat(s.CycleHours, 'f', -1, 64))
}

func (s Status) traffic() string {
	balanced := "balanced"
	if !s.Balanced() {
		balanced = "NOT BALANCED"
	}
	line := fmt.Sprintf("turns %s = %s settled + %s open", count(s.Turns.Opened), count(s.Turns.SettledInAll()), count(s.Turns.Open))
	if s.Turns.Sessions != nil {
		line = "sessions " + count(*s.Turns.Sessions) + "  " + line
	}
	return atRight(line, balanced)
}

func (s Status) output() string {
	parts := []string{"records " + count(s.Records.Read), "shards " + count(s.Shards.Count)}
	var rewards []string
	for _, r := range s.Rewards {
		if r.Mean != nil {
			rewards = append(rewards, signed(r.Mean)+" ("+r.Version+")")
		}
	}
	if len(rewards) > 0 {
		parts = append(parts, "reward "+strings.Join(rewards, " "))
	}
	return strings.Join(parts, " · ")
}

// cycle is how far the last cut has come: cut-1 packed → cand-1 testing → A/B 2,051 | 2,047 units.
func (s Status) cycle() string {
	if len(s.Cuts) == 0 {
		if s.NextCutAt.IsZero() {
			return "no cut yet"
		}
		return "no cut yet; the first one at " + clock(s.NextCutAt)
	}
	cut := s.Cuts[len(s.Cuts)-1]
	parts := []string{cut.ID + " " + cut.State}
	if cut.Reason != "" {
		parts[0] += " (" + cut.Reason + ")"
	}
	for _, c := range s.Candidates {
		if c.Cut == cut.ID {
			parts = append(parts, c.ID+" "+spaced(c.State))
		}
	}
	if e := s.Experiment; e != nil {
		parts = append(parts, fmt.Sprintf("A/B %s | %s units", count(e.Control.Units), count(e.Candidate.Units)))
	}
	return strings.Join(parts, " → ")
}

// mostMetrics are shown in a line.
const mostMetrics = 3

func (s Status) evidence() string {
	if s.Experiment == nil {
		return ""
	}
	var parts []string
	for _, m := range s.Experiment.Metrics {
		if m.Lift != nil && len(parts) < mostMetrics {
			parts = append(parts, m.Title+" "+lift(m))
		}
	}
	if s.Experiment.SRM != nil {
		parts = append(parts, "SRM p "+probability(s.Experiment.SRM))
	}
	return strings.Join(parts, "   ")
}

func (s Status) verdict() string {
	live := "nothing is live"
	if s.Live != nil {
		live = "live = " + s.Live.Version
	}
	if s.Verdict == nil {
		return live
	}
	return atRight(s.Verdict.Decision+" → "+live, "next: millrace gate explain "+s.Verdict.Candidate)
}

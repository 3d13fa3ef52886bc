package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

// digests of all events of a run, in the order in which they came.
func digests(t *testing.T, cfg Config, length, step time.Duration) [][32]byte {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	var out [][32]byte
	for at := cfg.Start; at.Before(cfg.Start.Add(length)); {
		at = at.Add(step)
		for _, ev := range s.Next(at) {
			raw, err := ev.MarshalVT()
			require.NoError(t, err)
			out = append(out, sha256.Sum256(raw))
		}
	}
	return out
}

func TestSameSeedSameEvents(t *testing.T) {
	t.Parallel()
	cfg := Config{Seed: 11, Units: 300, Start: testStart, Assign: halves}
	want := digests(t, cfg, 2*time.Hour, 5*time.Second)
	require.Greater(t, len(want), 4000)
	require.Equal(t, want, digests(t, cfg, 2*time.Hour, 5*time.Second))
	require.Equal(t, want, digests(t, cfg, 2*time.Hour, 12*time.Minute), "the step changes nothing")

	other := cfg
	other.Seed = 12
	require.NotEqual(t, want, digests(t, other, 2*time.Hour, 5*time.Second))
}

// TestEvents reads one long run as a careful consumer would.
func TestEvents(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Seed: 5, Units: 1000, Start: testStart, Assign: halves})
	require.NoError(t, err)
	type key struct{ session, source string }
	seen := map[string][32]byte{}
	highest, numbered := map[key]uint64{}, map[key]uint64{}
	first := map[string]time.Time{}
	var events, repeated, late, veryLate, unordered int
	started, ended, sequences := map[string]bool{}, map[string]bool{}, map[string]map[uint32]*event.StepCompleted{}
	for at := testStart; at.Before(testStart.Add(cycle)); {
		at = at.Add(5 * time.Second)
		for _, ev := range s.Next(at) {
			if bad := event.Validate(ev); bad != nil {
				t.Fatalf("%v: %v", bad, ev)
			}
			events++
			raw, err := ev.MarshalVT()
			require.NoError(t, err)
			sum, id := sha256.Sum256(raw), ev.Source+"/"+ev.EventId
			if before, ok := seen[id]; ok {
				require.Equal(t, before, sum, "a repeat has the same body")
				repeated++
				continue
			}
			seen[id] = sum
			switch delay := ev.SentAt.AsTime().Sub(ev.OccurredAt.AsTime()); {
			case delay > 2*time.Hour:
				veryLate++
			case delay > time.Minute:
				late++
			}
			k := key{ev.SessionId, ev.Source}
			if ev.Sequence < highest[k] {
				unordered++
			}
			highest[k] = max(highest[k], ev.Sequence)
			numbered[k]++
			if _, ok := first[ev.SessionId]; !ok {
				first[ev.SessionId] = at
			}
			switch b := ev.Body.(type) {
			case *event.SessionEvent_TurnStarted:
				started[ev.TurnId] = true
				require.Equal(t, ToolSchemaDigest, b.TurnStarted.Context.ToolSchemaDigest)
			case *event.SessionEvent_TurnEnded:
				ended[ev.TurnId] = true
			case *event.SessionEvent_StepCompleted:
				if sequences[ev.TurnId] == nil {
					sequences[ev.TurnId] = map[uint32]*event.StepCompleted{}
				}
				sequences[ev.TurnId][b.StepCompleted.Step] = b.StepCompleted
			}
		}
	}
	lost := 0
	for k, n := range numbered {
		// Sessions whose last events are still to come are not judged.
		if first[k.session].Before(testStart.Add(cycle - 3*time.Hour)) {
			lost += int(highest[k] - n)
		}
	}
	unending := 0
	for id := range started {
		if !ended[id] {
			unending++
		}
	}
	branches := checkSteps(t, sequences)
	share := func(n int) float64 { return float64(n) / float64(events) }
	require.InDelta(t, shareRepeated, share(repeated), .001)
	require.InDelta(t, shareLate, share(late), .001)
	require.Positive(t, veryLate)
	require.Positive(t, lost)
	require.Greater(t, share(unordered), .05, "the network changes the order within seconds")
	require.Positive(t, unending)
	require.Less(t, unending, len(started)/50)
	require.Positive(t, branches)
	require.InDelta(t, 15.5, float64(events)/float64(len(started)), 1, "events per turn")
}

// checkSteps follows the token sequences, and counts branches.
func checkSteps(t *testing.T, turns map[string]map[uint32]*event.StepCompleted) (branches int) {
	t.Helper()
	base := newTokenPolicy(1)
	for _, steps := range turns {
		length := uint32(0)
		for n := uint32(1); ; n++ {
			st := steps[n]
			if st == nil {
				break // the end, or a lost step
			}
			require.LessOrEqual(t, st.PromptPrefixLen, length)
			if st.PromptPrefixLen < length {
				branches++
			}
			require.Len(t, st.OutputLogprobs, len(st.OutputTokenIds))
			require.Zero(t, len(st.OutputTokenIds)%4)
			length = st.PromptPrefixLen + uint32(len(st.PromptTokenIds)+len(st.OutputTokenIds))/4
			c := st.Tokens
			require.EqualValues(t, len(st.OutputTokenIds)/4, c.GetThinking()+c.GetToolArgument()+c.GetFinal())
			if st.PolicyVersion != "base-0" {
				continue
			}
			for i := 0; i < len(st.OutputTokenIds); i += 4 {
				class := binary.LittleEndian.Uint32(st.OutputTokenIds[i:]) % classes
				if base.logprob[class] != binary.LittleEndian.Uint32(st.OutputLogprobs[i:]) {
					t.Fatalf("token %d of class %d has another log-prob than its policy gives it", i/4, class)
				}
			}
		}
	}
	return branches
}

func TestTokenPolicyIsADistribution(t *testing.T) {
	t.Parallel()
	for _, skill := range []float64{.9, 1, 1.1} {
		p, sum := newTokenPolicy(skill), 0.
		for _, bits := range p.logprob {
			sum += math.Exp(float64(math.Float32frombits(bits)))
		}
		require.InDelta(t, 1, sum, 1e-6)
	}
	require.Greater(t, newTokenPolicy(1.1).skill, newTokenPolicy(1).skill)
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"Start is missing":          {},
		"Units is -1":               {Start: testStart, Units: -1},
		"TurnsPerUnitHour is 99":    {Start: testStart, TurnsPerUnitHour: 99},
		`kind "bestest" is unknown`: {Start: testStart, Kind: "bestest"},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestServeFixesABehaviour(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Start: testStart, Units: 1, Kind: Worse})
	require.NoError(t, err)
	worse, err := Candidate(Worse)
	require.NoError(t, err)
	require.Equal(t, Base(), s.behaviour("base-0"))
	require.Equal(t, worse, s.behaviour("cand-1"))
	s.Serve("cand-1", Base())
	require.Equal(t, Base(), s.behaviour("cand-1"))
}

func BenchmarkNext(b *testing.B) {
	events := 0
	for b.Loop() {
		s, err := New(Config{Seed: 1, Start: testStart})
		require.NoError(b, err)
		for at := testStart; at.Before(testStart.Add(time.Hour)); {
			at = at.Add(5 * time.Second)
			events += len(s.Next(at))
		}
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

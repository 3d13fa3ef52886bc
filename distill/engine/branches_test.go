package engine_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/sample"
)

// tokens are one turn's generations as the engine of a backend reports them. Every token that it generates has an id of its
// own, so that its places can be counted; those of the requests and of tools have 0.
type tokens struct {
	*rehearsal.Stream
	history []uint32 // the sequence so far
	next    uint32
}

// generate is a step that keeps so much of the history, reads the prompt, and generates n tokens, which it gives.
func (x *tokens) generate(keep int, prompt []uint32, n int) []uint32 {
	output := make([]uint32, n)
	for i := range output {
		x.next++
		output[i] = x.next
	}
	x.Step(1, time.Second)
	step := x.Events[len(x.Events)-1].GetStepCompleted()
	step.PromptPrefixLen, step.PromptTokenIds, step.OutputTokenIds, step.OutputLogprobs = uint32(keep), packIDs(prompt), packIDs(output), nil
	for _, id := range output {
		step.OutputLogprobs = binary.LittleEndian.AppendUint32(step.OutputLogprobs, math.Float32bits(logprobOf(id)))
	}
	*step.Tokens.Final = uint32(n)
	x.history = slices.Concat(x.history[:keep], prompt, output)
	return output
}

func logprobOf(id uint32) float32 { return -float32(id) / 1024 }

func packIDs(tokens []uint32) []byte {
	var b []byte
	for _, id := range tokens {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

// finish is the rest of a good turn, and what came of it all.
func (x *tokens) finish(t *testing.T) engine.Settled {
	t.Helper()
	edit := x.Edit(400)
	x.End(event.EndReason_COMPLETED, false).Wait(5*time.Second).Decide(edit, event.Decision_ACCEPTED)
	x.Wait(10*time.Minute).Observe(edit, 600, 1)
	_, settled := rehearsal.Run(rehearsal.Records(x.Stream))
	require.Len(t, settled, 1)
	require.Equal(t, ledger.Rewarded, settled[0].Row.Disposition, settled[0].Row.Reason)
	return settled[0]
}

func newTokens(session string) *tokens {
	x := &tokens{Stream: rehearsal.NewStream(session, "ann", rehearsal.Epoch)}
	x.Start(event.Intent_EDIT, 0, "make the parser faster")
	return x
}

// trainedOnce says that each of the generated tokens 1…n is trained in exactly one place, with its own log-prob, and that
// nothing else is.
func trainedOnce(t *testing.T, samples []sample.Row, n uint32) {
	t.Helper()
	times := make([]int, n+1)
	for i, s := range samples {
		for p, trained := range s.LossMask {
			id := binary.LittleEndian.Uint32(s.InputIDs[4*p:])
			logprob := math.Float32frombits(binary.LittleEndian.Uint32(s.BehaviorLogprobs[4*p:]))
			if trained == 0 {
				require.Zero(t, logprob, "branch %d, token %d", i, p)
				continue
			}
			times[id]++
			require.Equal(t, logprobOf(id), logprob, "branch %d, token %d", i, p)
		}
	}
	require.Zero(t, times[0], "a token of a prompt is trained")
	for id := 1; id < len(times); id++ {
		require.Equal(t, 1, times[id], "token %d", id)
	}
}

// A turn whose context ran full goes on from its own summary, in a new sequence: all of them are one turn, with one
// reward. The summary was generated, and is trained, where it was written; where it is read it is context.
func TestSelfSummariesShareTheFinalReward(t *testing.T) {
	t.Parallel()
	x := newTokens("s1")
	x.generate(0, make([]uint32, 8), 5)
	x.Call("read_file", event.ToolKind_READ, `{"path":"a.go"}`, event.ToolOutcome_OK)
	summary := x.generate(13, make([]uint32, 4), 6)
	x.generate(0, append(make([]uint32, 3), summary...), 7)
	x.Call("edit_file", event.ToolKind_EDIT_FILE, `{"path": `, event.ToolOutcome_EXECUTION_FAILED) // of the third step
	again := x.generate(16, make([]uint32, 2), 4)
	x.generate(0, append(make([]uint32, 3), again...), 9)

	s := x.finish(t)
	require.Positive(t, s.Row.Advantage.Number)
	require.Len(t, s.Samples, 3)
	require.EqualValues(t, 3, s.Row.Branches)
	trainedOnce(t, s.Samples, x.next)
	for i, row := range s.Samples {
		require.EqualValues(t, i, row.Branch)
		require.EqualValues(t, 3, row.BranchesInTurn, "so that a turn in three parts counts no more than another")
		require.Equal(t, s.Row.Reward.Number, row.Reward)
		require.Equal(t, s.Row.Advantage.Number, row.Advantage)
		require.Equal(t, s.Samples[0].RewardComponents, row.RewardComponents)
	}
	require.Equal(t, []int32{8, 9, 7}, []int32{s.Samples[0].PromptLength, s.Samples[1].PromptLength, s.Samples[2].PromptLength})

	// The malformed call is blamed once: in the branch and on the step that issued it, and nowhere else.
	require.Nil(t, s.Samples[0].TokenAdvantages)
	require.Nil(t, s.Samples[2].TokenAdvantages)
	blamed := 0
	for p, a := range s.Samples[1].TokenAdvantages {
		if a < 0 {
			blamed++
			require.True(t, 9 <= p && p < 16, "token %d", p)
		}
	}
	require.Equal(t, 7, blamed)
}

// However a turn's history is cut back, summarised or rewritten, and whatever arrives twice, no token is trained twice
// and none is forgotten.
func TestNoTokenIsTrainedTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		x := newTokens(fmt.Sprintf("s%d", seed))
		output := x.generate(0, make([]uint32, 1+r.IntN(5)), 1+r.IntN(6))
		branches := int32(1)
		for range r.IntN(12) {
			keep, prompt := len(x.history), make([]uint32, r.IntN(4))
			switch r.IntN(5) {
			case 0:
				keep = r.IntN(len(x.history)) // rewritten from there on
			case 1:
				keep, prompt = 0, append(make([]uint32, 2), output...) // a summary of its own
			}
			if keep < len(x.history) {
				branches++
			}
			output = x.generate(keep, prompt, 1+r.IntN(6))
			if r.IntN(4) == 0 {
				x.Events = append(x.Events, x.Events[len(x.Events)-1])
			}
		}
		s := x.finish(t)
		require.Equal(t, branches, s.Row.Branches, "seed %d", seed)
		require.Len(t, s.Samples, int(branches), "seed %d", seed)
		trainedOnce(t, s.Samples, x.next)
		for _, row := range s.Samples {
			require.Equal(t, s.Row.Reward.Number, row.Reward, "seed %d", seed)
		}
	}
}

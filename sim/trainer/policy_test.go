package trainer

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/sample"
)

// tokens packs ids of the classes with the log-probs of a policy over them.
func tokens(p map[uint32]float64, prompt int, generated ...uint32) sample.Row {
	r := sample.Row{PromptLength: int32(prompt), PolicyVersion: "base-0", BranchesInTurn: 1}
	add := func(id uint32, mask uint8, logprob float64) {
		r.InputIDs = binary.LittleEndian.AppendUint32(r.InputIDs, id)
		r.LossMask = append(r.LossMask, mask)
		r.BehaviorLogprobs = binary.LittleEndian.AppendUint32(r.BehaviorLogprobs, math.Float32bits(float32(logprob)))
	}
	for range prompt {
		add(7, 0, 0)
	}
	for i, class := range generated {
		add(class+classes*uint32(i), 1, math.Log(p[class]))
	}
	return r
}

// drawn are rows of a policy over four classes, in which tokens of class 1 are good and those of class 3 are bad.
func drawn(n int) []sample.Row {
	policy := map[uint32]float64{0: .4, 1: .3, 2: .2, 3: .1}
	random := rand.New(rand.NewPCG(4, 4))
	rows := make([]sample.Row, n)
	for i := range rows {
		ids := make([]uint32, 12)
		advantage := .3 * random.NormFloat64()
		for j := range ids {
			switch u := random.Float64(); {
			case u < .4:
				ids[j] = 0
			case u < .7:
				ids[j] = 1
				advantage += .05
			case u < .9:
				ids[j] = 2
			default:
				ids[j] = 3
				advantage -= .05
			}
		}
		rows[i] = tokens(policy, 5, ids...)
		rows[i].Advantage = advantage
	}
	return rows
}

func TestTrainingFindsWhatIsGood(t *testing.T) {
	t.Parallel()
	var s statistics
	for _, r := range drawn(2000) {
		require.Empty(t, s.add(&r, 100))
	}
	require.EqualValues(t, 24_000, s.seen)
	out, err := s.train(30, .5, .1)
	require.NoError(t, err)
	var logits [classes]float64
	for c, x := range out.logits {
		logits[c] = float64(x)
	}
	p := softmax(logits)
	require.Greater(t, p[1], .31)
	require.Less(t, p[3], .095)
	require.Positive(t, out.gain)
	require.Positive(t, out.kl)
	require.Less(t, out.kl, .05, "the clip keeps it near the base")
	again, err := s.train(30, .5, .1)
	require.NoError(t, err)
	require.Equal(t, out, again)

	still, err := s.train(1, 0, .1)
	require.NoError(t, err)
	require.Zero(t, still.gain)
	require.Zero(t, still.kl)
}

func TestATurnCountsOnceHoweverManyBranches(t *testing.T) {
	t.Parallel()
	policy := map[uint32]float64{1: .5, 2: .5}
	var one, three statistics
	whole := tokens(policy, 1, 1, 2)
	whole.Advantage = .6
	require.Empty(t, one.add(&whole, 10))
	whole.BranchesInTurn = 3
	for range 3 {
		require.Empty(t, three.add(&whole, 10))
	}
	require.InDeltaSlice(t, one.advantage[:], three.advantage[:], 1e-12)
	require.InDeltaSlice(t, one.tokens[:], three.tokens[:], 1e-12)
}

func TestBlamedTokensTakeTheirOwnAdvantage(t *testing.T) {
	t.Parallel()
	r := tokens(map[uint32]float64{1: .5, 2: .5}, 1, 1, 2)
	r.Advantage, r.TokenAdvantages = .6, []float32{0, .5, -.25}
	var s statistics
	require.Empty(t, s.add(&r, 10))
	require.InDelta(t, .5, s.advantage[1], 1e-9)
	require.InDelta(t, -.25, s.advantage[2], 1e-9)
}

func TestRowsThatAreNotTrainedOn(t *testing.T) {
	t.Parallel()
	var s statistics
	long := tokens(map[uint32]float64{1: 1}, 5, 1)
	require.Equal(t, "longer than the context of 5 tokens", s.add(&long, 5))
	prompt := tokens(nil, 5)
	require.Equal(t, "no token to train on", s.add(&prompt, 10))
	_, err := s.train(1, 1, 1)
	require.ErrorIs(t, err, errNothing)

	a, b := tokens(map[uint32]float64{1: .5}, 0, 1), tokens(map[uint32]float64{1: .25}, 0, 1)
	require.Empty(t, s.add(&a, 10))
	require.Empty(t, s.add(&b, 10))
	_, err = s.train(1, 1, 1)
	require.ErrorContains(t, err, "not of one tabular policy")
}

func TestSafetensors(t *testing.T) {
	t.Parallel()
	logits := [classes]float32{0: -1.5, 63: 2}
	raw, err := safetensors(logits, "base-0", "cut-1")
	require.NoError(t, err)
	again, err := safetensors(logits, "base-0", "cut-1")
	require.NoError(t, err)
	require.Equal(t, raw, again)

	n := binary.LittleEndian.Uint64(raw)
	require.Zero(t, n%8)
	var header map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw[8:8+n], &header))
	require.JSONEq(t, `{"dtype":"F32","shape":[64],"data_offsets":[0,256]}`, string(header["policy.logits"]))
	data := raw[8+n:]
	require.Len(t, data, 256)
	require.Equal(t, math.Float32bits(-1.5), binary.LittleEndian.Uint32(data))
	require.Equal(t, math.Float32bits(2), binary.LittleEndian.Uint32(data[252:]))
}

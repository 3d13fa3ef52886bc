package turn_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/sample"
)

func ids(tokens ...int) []byte {
	var b []byte
	for _, x := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

// logprobs are −1, −2, … for so many tokens.
func logprobs(n int) []byte {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(-float32(i+1)))
	}
	return b
}

func unpack(b []byte) []int {
	out := []int{}
	for ; len(b) >= 4; b = b[4:] {
		out = append(out, int(binary.LittleEndian.Uint32(b)))
	}
	return out
}

func floats(b []byte) []float32 {
	out := []float32{}
	for ; len(b) >= 4; b = b[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return out
}

// step is a generation of version a.
func step(n uint32, prefix int, prompt, output []int) *event.StepCompleted {
	return &event.StepCompleted{
		Step: n, PolicyVersion: "a", PromptPrefixLen: uint32(prefix), PromptTokenIds: ids(prompt...),
		OutputTokenIds: ids(output...), OutputLogprobs: logprobs(len(output)), StopReason: "stop",
	}
}

func sequences(t *testing.T, blamed map[uint32]bool, steps ...*event.StepCompleted) ([]turn.Sequence, string) {
	t.Helper()
	var events []*event.SessionEvent
	for i, s := range steps {
		events = append(events, at(i, stepped(s)))
	}
	return fold(events...).Sequences(blamed)
}

func TestOneSequence(t *testing.T) {
	t.Parallel()
	rows, why := sequences(t, map[uint32]bool{2: true}, step(1, 0, []int{1, 2}, []int{3, 4}), step(2, 4, []int{5}, []int{6, 7}))
	require.Empty(t, why)
	require.Len(t, rows, 1)
	s := rows[0]
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7}, unpack(s.InputIDs))
	require.Equal(t, []uint8{0, 0, 1, 1, 0, 1, 1}, s.Mask)
	require.Equal(t, []float32{0, 0, -1, -2, 0, -1, -2}, floats(s.Logprobs))
	require.EqualValues(t, 2, s.PromptLength)
	require.Equal(t, []sample.Span{{Version: "a", Start: 2, End: 4}, {Version: "a", Start: 5, End: 7}}, s.Spans)
	require.Equal(t, []turn.Range{{Start: 5, End: 7}}, s.Blamed)
	require.Len(t, s.Steps, 2)
	require.EqualValues(t, 5, s.Steps[1].Start)
	require.Equal(t, 4, s.Trained)
}

// Compaction and rewritten history begin a branch; what it shares with the one before is not trained again.
func TestBranches(t *testing.T) {
	t.Parallel()
	rows, _ := sequences(t, nil,
		step(1, 0, []int{1, 2}, []int{3, 4}),
		step(2, 3, []int{5}, []int{6}), // shares 1 2 3, of which 3 was generated
		step(3, 0, []int{7}, []int{8}),
		step(4, 2, nil, []int{9}),
	)
	require.Len(t, rows, 3)
	require.Equal(t, []int{1, 2, 3, 4}, unpack(rows[0].InputIDs))
	require.Equal(t, []int{1, 2, 3, 5, 6}, unpack(rows[1].InputIDs))
	require.Equal(t, []uint8{0, 0, 0, 0, 1}, rows[1].Mask)
	require.Equal(t, []float32{0, 0, 0, 0, -1}, floats(rows[1].Logprobs))
	require.EqualValues(t, 4, rows[1].PromptLength)
	require.Equal(t, []int{7, 8, 9}, unpack(rows[2].InputIDs))
	trained := 0
	for _, r := range rows {
		trained += r.Trained
	}
	require.Equal(t, 5, trained, "each generated token once")
}

func TestABranchOwnsItsBytes(t *testing.T) {
	t.Parallel()
	rows, _ := sequences(t, nil, step(1, 0, []int{1}, []int{2, 3}), step(2, 1, nil, []int{4, 5}))
	require.Equal(t, []int{1, 2, 3}, unpack(rows[0].InputIDs))
	require.Equal(t, []int{1, 4, 5}, unpack(rows[1].InputIDs))
}

func TestMasks(t *testing.T) {
	t.Parallel()
	mixed := step(2, 3, nil, []int{5, 6, 7, 8})
	mixed.PolicyVersion = "b"
	mixed.VersionSpans = []*event.VersionSpan{{Version: "a", Start: 0, End: 1}, {Version: "b", Start: 1, End: 2}, {Version: "a", Start: 2, End: 3}}
	other := step(2, 3, nil, []int{5, 6})
	other.PolicyVersion = "b"
	forced := step(2, 3, nil, []int{5, 6, 7})
	forced.OutputMask = []byte{1, 0, 1}
	uncaptured := step(2, 3, nil, []int{5, 6})
	uncaptured.OutputLogprobs = nil
	for name, c := range map[string]struct {
		second *event.StepCompleted
		mask   []uint8
	}{
		"another version's step":                 {other, []uint8{0, 0}},
		"weights that moved, and a hole at last": {mixed, []uint8{1, 0, 1, 0}},
		"forced tokens":                          {forced, []uint8{1, 0, 1}},
		"no log-probs":                           {uncaptured, []uint8{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, why := sequences(t, nil, step(1, 0, []int{1}, []int{2, 3}), c.second)
			require.Empty(t, why)
			require.Len(t, rows, 1)
			require.Equal(t, append([]uint8{0, 1, 1}, c.mask...), rows[0].Mask)
			for i, p := range floats(rows[0].Logprobs) {
				require.Equal(t, rows[0].Mask[i] == 1, p != 0, "a log-prob stands exactly where a token is trained")
			}
		})
	}
}

// A step that became a stub leaves a hole: what follows can be placed again where a step carries its whole prompt.
func TestAStubbedStepInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps []*event.StepCompleted
		want  [][]int
		why   string
	}{
		"the rest continues it": {[]*event.StepCompleted{step(1, 0, []int{1}, []int{2}), step(3, 4, nil, []int{5})}, [][]int{{1, 2}}, ""},
		"the rest seems to fit": {[]*event.StepCompleted{step(1, 0, []int{1, 2}, []int{3, 4}), step(3, 4, nil, []int{5}), step(4, 5, nil, []int{6})}, [][]int{{1, 2, 3, 4}}, ""},
		"a whole prompt after":  {[]*event.StepCompleted{step(1, 0, []int{1}, []int{2}), step(3, 4, nil, []int{5}), step(4, 0, []int{6}, []int{7}), step(5, 2, nil, []int{8})}, [][]int{{1, 2}, {6, 7, 8}}, ""},
		"the first is missing":  {[]*event.StepCompleted{step(2, 3, nil, []int{4})}, nil, "step 2 continues a sequence that did not arrive"},
		"the first was empty":   {[]*event.StepCompleted{step(1, 0, nil, nil), step(2, 3, nil, []int{4})}, nil, "step 2 continues a sequence that did not arrive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, why := sequences(t, nil, c.steps...)
			require.Equal(t, c.why, why)
			require.Len(t, rows, len(c.want))
			for i := range rows {
				require.Equal(t, c.want[i], unpack(rows[i].InputIDs))
			}
		})
	}
}

func TestNothingToTrain(t *testing.T) {
	t.Parallel()
	uncaptured := step(1, 0, []int{1}, []int{2})
	uncaptured.OutputLogprobs = nil
	for name, c := range map[string]struct {
		events []*event.SessionEvent
		why    string
	}{
		"no step":      {[]*event.SessionEvent{at(0, started(&event.TurnStarted{}))}, "no step arrived"},
		"no tokens":    {[]*event.SessionEvent{at(0, stepped(step(1, 0, nil, nil)))}, "no token ids"},
		"no log-probs": {[]*event.SessionEvent{at(0, stepped(uncaptured))}, "no log-probs were captured"},
		"prompt only":  {[]*event.SessionEvent{at(0, stepped(step(1, 0, []int{1}, nil)))}, "no token ids"},
		"privacy": {[]*event.SessionEvent{
			at(0, stepped(step(1, 0, []int{1}, []int{2}))),
			at(1, &event.SessionEvent{Privacy: event.Privacy_NO_CONTENT, Body: &event.SessionEvent_FeedbackGiven{}}),
		}, "privacy NO_CONTENT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, why := fold(c.events...).Sequences(nil)
			require.Empty(t, rows)
			require.Equal(t, c.why, why)
		})
	}
}

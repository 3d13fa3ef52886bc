package arrowfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/stretchr/testify/require"

	"millrace/schemas/sample"
)

var compressions = []Compression{None, LZ4, Zstd}

// sampleRow is a row with every field set, some null, of a length drawn from the source.
func sampleRow(random *rand.Rand, i int) sample.Row {
	length := 1 + random.IntN(200)
	r := sample.Row{
		SampleID: fmt.Sprintf("s-%d", i), SessionID: "session-ü", TurnID: fmt.Sprintf("t-%d", i/2),
		Branch: int32(i % 2), BranchesInTurn: 2, Origin: "live",
		PromptLength:  int32(length / 3),
		PolicyVersion: "base-1", PolicyOrdinal: int64(i % 3), UnitHash: "00ff",
		Reward: random.NormFloat64(), Advantage: random.NormFloat64(),
		RewardComponents: []sample.Component{
			{Name: "retention", Value: 0, Known: true, Weight: 0.7}, {Name: "thumb", Weight: 0.5},
		},
		Steps: []sample.Step{{
			Start: int32(length / 3), End: int32(length), StopReason: "tool_use", LatencyMs: 12.5, Temperature: 1, TopP: 0.95, TopK: -1,
			LogprobsMode: "raw",
		}},
		PolicyVersionSpans: []sample.Span{{Version: "base-1", Start: 0, End: int32(length)}},
		Outcome:            "completed", HarnessVersion: "h1", ToolSchemaDigest: "sha256:1", RewardSpec: "composer@1",
		ClassifierVersion: "rules@1", BaselineVersion: "v0", TokenizerDigest: "sha256:2", ChatTemplateDigest: "sha256:3",
		SettledAt: time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC).Add(time.Duration(i) * time.Second),
	}
	for range length {
		r.InputIDs = binary.LittleEndian.AppendUint32(r.InputIDs, random.Uint32N(150_000))
		r.LossMask = append(r.LossMask, uint8(random.IntN(2)))
		r.BehaviorLogprobs = binary.LittleEndian.AppendUint32(r.BehaviorLogprobs, math.Float32bits(-random.Float32()))
	}
	switch i % 3 {
	case 0:
		r.PolicyOrdinal = -1
	case 1:
		r.Origin, r.GroupID, r.GroupIndex, r.GroupSize = "simulated", "g", int32(i), 8
		r.TokenAdvantages = make([]float32, length)
		r.TokenAdvantages[length-1] = -0.3
	case 2:
		r.Sidecar = "s3://routes/1"
		r.Steps, r.RewardComponents, r.PolicyVersionSpans = nil, nil, nil
	}
	return r
}

func sampleRows(seed uint64, n int) []sample.Row {
	random := rand.New(rand.NewPCG(seed, 1))
	rows := make([]sample.Row, n)
	for i := range rows {
		rows[i] = sampleRow(random, i)
	}
	return rows
}

var testMeta = ShardMeta{
	ShardID: "events-3-100-199-ab", PolicyVersion: "base-1", RewardSpec: "composer@1", Topic: "events", Partition: 3, FirstOffset: 100, LastOffset: 199,
}

func TestShardRoundTrip(t *testing.T) {
	t.Parallel()
	for _, compression := range compressions {
		for _, n := range []int{0, 1, 2, 57} {
			t.Run(fmt.Sprintf("%s/%d", compression, n), func(t *testing.T) {
				t.Parallel()
				rows := sampleRows(uint64(n), n)
				file, err := WriteShard(testMeta, rows, compression)
				require.NoError(t, err)
				again, err := WriteShard(testMeta, rows, compression)
				require.NoError(t, err)
				require.Equal(t, SHA256(file), SHA256(again), "the same rows give the same bytes")

				meta, got, err := ReadShard(file)
				require.NoError(t, err)
				require.Equal(t, testMeta, meta)
				require.Len(t, got, n)
				for i := range rows {
					require.Equal(t, rows[i], got[i])
				}
			})
		}
	}
}

// Arrow's own file and stream readers see the same, so that the file isn't only good for this package.
func TestShardIsAFileAndAStream(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 5} {
		file, err := WriteShard(testMeta, sampleRows(1, n), LZ4)
		require.NoError(t, err)
		f, err := ipc.NewFileReader(bytes.NewReader(file))
		require.NoError(t, err)
		require.Equal(t, 1, f.NumRecords())
		record, err := f.Record(0)
		require.NoError(t, err)
		require.EqualValues(t, n, record.NumRows())
		s, err := ipc.NewReader(bytes.NewReader(file[8:]))
		require.NoError(t, err)
		require.True(t, s.Next())
		require.EqualValues(t, n, s.Record().NumRows())
		require.False(t, s.Next())
		require.NoError(t, s.Err())
	}
}

func TestShardInManyBatches(t *testing.T) {
	t.Parallel()
	rows := sampleRows(2, 3)
	for i := range rows {
		const length = 2_000_000
		rows[i].InputIDs = make([]byte, 4*length)
		rows[i].BehaviorLogprobs = make([]byte, 4*length)
		rows[i].LossMask = make([]byte, length)
		rows[i].TokenAdvantages = nil
	}
	file, err := WriteShard(testMeta, rows, LZ4)
	require.NoError(t, err)
	f, err := ipc.NewFileReader(bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, 3, f.NumRecords())
	_, got, err := ReadShard(file)
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.True(t, bytes.Equal(rows[2].InputIDs, got[2].InputIDs))
}

func TestShardColumnsAreDocumented(t *testing.T) {
	t.Parallel()
	require.Len(t, shardColumns, len(sample.Columns))
	for i, c := range sample.Columns {
		require.Equal(t, c.Name, shardColumns[i].name)
		require.Equal(t, c.Type, words(shardColumns[i].typ), c.Name)
		require.Equal(t, c.Nullable, shardColumns[i].nullable, c.Name)
	}
}

// words is a type in the words of the documentation: items are never null, nullable fields have a question mark.
func words(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.ListType:
		return "list<" + words(t.Elem()) + ">"
	case *arrow.StructType:
		var fields []string
		for _, f := range t.Fields() {
			field := f.Name + ": " + words(f.Type)
			if f.Nullable {
				field += "?"
			}
			fields = append(fields, field)
		}
		return "struct<" + strings.Join(fields, ", ") + ">"
	case *arrow.TimestampType:
		return fmt.Sprintf("timestamp[%s, %s]", t.Unit, t.TimeZone)
	}
	return t.Name()
}

func TestShardRefusesBrokenRows(t *testing.T) {
	t.Parallel()
	for want, breakIt := range map[string]func(*sample.Row){
		"mask values":      func(r *sample.Row) { r.LossMask = r.LossMask[1:] },
		"token ids":        func(r *sample.Row) { r.InputIDs = r.InputIDs[:len(r.InputIDs)-1] },
		"log-probs":        func(r *sample.Row) { r.BehaviorLogprobs = nil },
		"token advantages": func(r *sample.Row) { r.TokenAdvantages = []float32{} },
		"prompt_length":    func(r *sample.Row) { r.PromptLength = int32(r.Length()) + 1 },
		"must be finite":   func(r *sample.Row) { r.Reward = math.NaN() },
		"Inf":              func(r *sample.Row) { r.Advantage = math.Inf(1) },
		"in a shard of":    func(r *sample.Row) { r.PolicyVersion = "other" },
		"step 0 covers":    func(r *sample.Row) { r.Steps = []sample.Step{{Start: 3, End: 2}} },
		"policy span 0":    func(r *sample.Row) { r.PolicyVersionSpans = []sample.Span{{End: int32(r.Length()) + 1}} },
	} {
		rows := sampleRows(3, 4)
		breakIt(&rows[2])
		_, err := WriteShard(testMeta, rows, None)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "row 2 (s-2)")
	}
	_, err := WriteShard(testMeta, nil, "gzip")
	require.ErrorContains(t, err, `unknown compression "gzip"`)
	mixed := testMeta
	mixed.PolicyVersion = ""
	rows := sampleRows(3, 2)
	rows[1].PolicyVersion = "other"
	_, err = WriteShard(mixed, rows, None)
	require.NoError(t, err, "a cut's part may mix versions")
}

// Whatever is done to the bytes, reading gives an error or rows, and neither panics nor asks for terabytes.
func TestReadShardSurvivesCorruption(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	for _, compression := range compressions {
		file, err := WriteShard(testMeta, sampleRows(4, 6), compression)
		require.NoError(t, err)
		for n := 0; n < len(file); n += 1 + random.IntN(60) {
			_, _, err := ReadShard(file[:n])
			require.Error(t, err, "cut at %d", n)
		}
		for range 1000 {
			broken := bytes.Clone(file)
			for range 1 + random.IntN(3) {
				at := random.IntN(len(broken))
				switch random.IntN(3) {
				case 0:
					broken[at] ^= 1 << random.IntN(8)
				case 1:
					copy(broken[at:], "\xff\xff\xff\xff\xff\xff\xff\x7f")
				case 2:
					copy(broken[at:], "\x00\x00\x00\x00\x00\x01\x00\x00")
				}
			}
			_, _, _ = ReadShard(broken)
		}
	}
	for _, junk := range [][]byte{nil, []byte("ARROW1"), bytes.Repeat([]byte("ARROW1"), 9), make([]byte, 4096)} {
		_, _, err := ReadShard(junk)
		require.Error(t, err)
	}
}

// A stream cut at a message boundary is a clean end to Arrow's reader; here it isn't.
func TestReadShardNoticesMissingBatches(t *testing.T) {
	t.Parallel()
	file, err := WriteShard(testMeta, sampleRows(5, 3), None)
	require.NoError(t, err)
	m, err := newMessages(file)
	require.NoError(t, err)
	before := len(m.rest)
	_, err = m.Message()
	require.NoError(t, err)
	schemaEnd := streamStart + before - len(m.rest)
	tail := file[streamStart+before-len(endOfStream):]
	cut := append(bytes.Clone(file[:schemaEnd]), tail...)
	_, _, err = ReadShard(cut)
	require.ErrorContains(t, err, "0 rows, and its metadata says 3")
}

func FuzzReadShard(f *testing.F) {
	for _, compression := range compressions {
		for _, n := range []int{0, 3} {
			file, err := WriteShard(testMeta, sampleRows(6, n), compression)
			require.NoError(f, err)
			f.Add(file)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		meta, rows, err := ReadShard(file)
		if err != nil {
			return
		}
		again, err := WriteShard(meta, rows, None)
		require.NoError(t, err, "what was read can be written")
		_, twice, err := ReadShard(again)
		require.NoError(t, err)
		require.Len(t, twice, len(rows))
	})
}

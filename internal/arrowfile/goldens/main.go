package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
	"millrace/schemas/sample"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/arrowfile/goldens FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write makes FOLDER/shard-*.arrow, FOLDER/ledger/*.parquet, FOLDER/large.parquet, FOLDER/questions/ledger/*.parquet and
// FOLDER/columns.json.
func write(folder string) error {
	if err := os.MkdirAll(filepath.Join(folder, "ledger"), 0o755); err != nil {
		return err
	}
	meta := arrowfile.ShardMeta{
		ShardID: "events-3-100-199-abcd", PolicyVersion: "base-1", RewardSpec: "composer@1", Topic: "events", Partition: 3, FirstOffset: 100, LastOffset: 199,
	}
	for _, compression := range []arrowfile.Compression{arrowfile.None, arrowfile.LZ4, arrowfile.Zstd} {
		file, err := arrowfile.WriteShard(meta, samples(), compression)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "shard-"+string(compression)+".arrow"), file, 0o644); err != nil {
			return err
		}
	}
	empty, err := arrowfile.WriteShard(meta, nil, arrowfile.LZ4)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "empty.arrow"), empty, 0o644); err != nil {
		return err
	}
	rows := turns()
	for i, part := range [][]ledger.Row{rows[:4], rows[4:], nil} {
		file, err := arrowfile.WriteLedger(part)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "ledger", fmt.Sprintf("part-%d.parquet", i)), file, 0o644); err != nil {
			return err
		}
	}
	large := make([]ledger.Row, 20_000) // enough for zstd
	for i := range large {
		large[i] = ledger.Row{Kind: ledger.Turn, TurnID: fmt.Sprintf("turn-%d", i), Disposition: ledger.Censored, Components: []ledger.Component{{Name: "thumb"}}}
	}
	file, err := arrowfile.WriteLedger(large)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "large.parquet"), file, 0o644); err != nil {
		return err
	}
	if err := writeQuestions(filepath.Join(folder, "questions")); err != nil {
		return err
	}
	columns, err := json.MarshalIndent(map[string]any{"shard": sample.Columns, "ledger": ledger.Columns}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "columns.json"), columns, 0o644)
}

// samples are four rows: row i has 5+i tokens 10·i, 10·i+1, …, two of them the prompt, and log-probs −0.25·position where the mask is 1.
func samples() []sample.Row {
	rows := make([]sample.Row, 4)
	for i := range rows {
		r := &rows[i]
		*r = sample.Row{
			SampleID: fmt.Sprintf("sample-%d", i), SessionID: "session-ü", TurnID: fmt.Sprintf("turn-%d", i/2), Branch: int32(i % 2), BranchesInTurn: 2,
			Origin: "live", PromptLength: 2, PolicyVersion: "base-1", PolicyOrdinal: -1, UnitHash: "00ff",
			Reward: 0.5 - float64(i), Advantage: 0.25, Outcome: "completed",
			RewardComponents: []sample.Component{{Name: "retention", Value: 0, Known: true, Weight: 0.7}, {Name: "thumb", Weight: 0.5}},
			HarnessVersion:   "h1", ToolSchemaDigest: "sha256:1", RewardSpec: "composer@1", ClassifierVersion: "rules@1", BaselineVersion: "v0",
			TokenizerDigest: "sha256:2", ChatTemplateDigest: "sha256:3", SettledAt: time.Date(2026, 3, 1, 12, 0, i, 123_456_000, time.UTC),
		}
		length := 5 + i
		r.Steps = []sample.Step{{Start: 2, End: int32(length), StopReason: "end_turn", LatencyMs: 12.5, Temperature: 1, TopP: 0.5, TopK: -1, LogprobsMode: "raw"}}
		r.PolicyVersionSpans = []sample.Span{{Version: "base-1", Start: 2, End: int32(length)}}
		for p := range length {
			r.InputIDs = binary.LittleEndian.AppendUint32(r.InputIDs, uint32(10*i+p))
			mask, logprob := uint8(0), float32(0)
			if p >= 2 {
				mask, logprob = 1, -0.25*float32(p)
			}
			r.LossMask = append(r.LossMask, mask)
			r.BehaviorLogprobs = binary.LittleEndian.AppendUint32(r.BehaviorLogprobs, math.Float32bits(logprob))
		}
		if i == 1 {
			r.Origin, r.GroupID, r.GroupIndex, r.GroupSize, r.PolicyOrdinal, r.Sidecar = "simulated", "g", 0, 8, 7, "s3://routes/1"
			r.TokenAdvantages = make([]float32, length)
			r.TokenAdvantages[length-1] = -0.5
		}
	}
	return rows
}

// turns are five turns and one amendment: three rewarded (−1, 0, 1), one censored, one faulted.
func turns() []ledger.Row {
	var rows []ledger.Row
	for i, disposition := range []ledger.Disposition{ledger.Rewarded, ledger.Rewarded, ledger.Rewarded, ledger.Censored, ledger.Faulted} {
		r := ledger.Row{
			Kind: ledger.Turn, SessionID: "session-ü", TurnID: fmt.Sprintf("turn-%d", i), PolicyVersion: "base-1", PolicyVersions: []string{"base-1"},
			Disposition: disposition, Chain: 1, Topic: "events", Partition: 3, FirstOffset: int64(100 + i), LastOffset: int64(110 + i),
			Signals:   make([]ledger.Value, len(ledger.Signals)),
			StartedAt: time.Date(2026, 3, 1, 12, 0, i, 0, time.UTC), SettledAt: time.Date(2026, 3, 1, 12, 20, i, 123_456_000, time.UTC),
		}
		if disposition == ledger.Rewarded {
			r.Reward, r.Advantage = ledger.Of(float64(i-1)), ledger.Of(float64(i-1))
			r.Signals[ledger.SignalIndex["edits.retention"]] = ledger.Of(0)
			r.Components = []ledger.Component{{Name: "retention", Value: ledger.Of(0)}, {Name: "thumb"}}
			r.EndedAt = r.StartedAt.Add(time.Minute)
		}
		rows = append(rows, r)
	}
	return append(rows, ledger.Row{
		Kind: ledger.Amendment, Source: "ide", EventID: "e-1", EventBody: "thumb", SessionID: "session-ü", TurnID: "turn-0", Topic: "events", Partition: 3,
		SettledAt: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC),
	})
}

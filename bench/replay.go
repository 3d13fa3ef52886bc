package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"millrace/distill/rehearsal"
	"millrace/distill/replay"
	"millrace/distill/reward"
	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// rescoring is what it takes to score a ledger again, against decoding it.
type rescoring struct {
	Rows   int    `json:"rows"`
	Bytes  int    `json:"bytes"`  // of the Parquet file
	Rounds int    `json:"rounds"` // of each pass
	Decode spread `json:"decode"` // Parquet → rows, thrown away: the peer; seconds of CPU
	Replay spread `json:"replay"` // the same, scored and counted; seconds of CPU
	Wall   spread `json:"wall"`   // seconds that the replay took by the clock
	// Of each round by itself: CPU of the replay over CPU of decoding.
	ReplayPerDecode spread `json:"replay_per_decode"`
}

// measureReplay decodes a ledger file, and replays it under another spec, round by round, after one that doesn't count.
func measureReplay(rows, rounds int) (rescoring, error) {
	m := rescoring{Rows: rows, Rounds: rounds}
	body, err := ledgerFile(rows)
	if err != nil {
		return m, err
	}
	m.Bytes = len(body)
	_, document := rewardspec.Default()
	document = bytes.Replace(document, []byte("0.7 * (1.5"), []byte("0.9 * (1.5"), 1)
	spec, err := rewardspec.Parse(document)
	if err != nil {
		return m, err
	}
	scorer, err := reward.Compile(spec, arrowfile.SHA256(document), nil)
	if err != nil {
		return m, err
	}
	var decode, replayed, wall, ratio []float64
	for round := range rounds + 1 {
		seen, failed := 0, error(nil)
		d := timed(func() {
			failed = eachRow(body, func(some []ledger.Row) error { seen += len(some); return nil })
		})
		if failed != nil || seen != rows {
			return m, fmt.Errorf("decoded %d of %d rows: %w", seen, rows, failed)
		}
		tally, began := replay.NewTally(scorer), time.Time{}
		r := timed(func() {
			began = time.Now()
			failed = replayFile(scorer, body, tally)
			wall = append(wall, time.Since(began).Seconds())
		})
		if got := tally.Report(); failed != nil || got.Turns != int64(rows) || got.Unchanged == got.Turns {
			return m, fmt.Errorf("replayed %d of %d rows, %d unchanged: %w", got.Turns, rows, got.Unchanged, failed)
		}
		if round == 0 {
			wall = nil
			continue
		}
		decode, replayed, ratio = append(decode, d), append(replayed, r), append(ratio, r/d)
	}
	m.Decode, m.Replay, m.Wall, m.ReplayPerDecode = spreadOf(decode), spreadOf(replayed), spreadOf(wall), spreadOf(ratio)
	return m, nil
}

func eachRow(body []byte, visit func([]ledger.Row) error) error {
	file, err := arrowfile.OpenLedger(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return file.Each(visit)
}

func replayFile(r *reward.Reward, body []byte, tally *replay.Tally) error {
	file, err := arrowfile.OpenLedger(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return replay.File(r, file, func(*ledger.Row) bool { return true }, func(before, after []ledger.Row) error {
		tally.Add(before, after)
		return nil
	})
}

// ledgerFile is the ledger of the shipped behaviours, as the engine made it, over and over, with other ids, strata, effort and
// retention each time.
func ledgerFile(n int) ([]byte, error) {
	shipped, _ := rewardspec.DefaultScenarios()
	byName := map[string]rewardspec.Behaviour{}
	for _, b := range shipped.Behaviours {
		byName[b.Name] = b
	}
	var streams []*rehearsal.Stream
	for _, group := range shipped.Order {
		for _, name := range group {
			stream := rehearsal.NewStream(name, name, rehearsal.Epoch)
			rehearsal.Play(stream, byName[name].Acts, rehearsal.Variation{})
			streams = append(streams, stream)
		}
	}
	_, settled, err := rehearsal.Shipped().Run(rehearsal.Records(streams...))
	if err != nil {
		return nil, err
	}
	var alone []ledger.Row // turns that no question chained to others
	for _, s := range settled {
		if s.Row.Kind == ledger.Turn && s.Row.Chain == 1 {
			alone = append(alone, s.Row)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	languages := []string{"go", "typescript", "python", "rust", "java"}
	rows := make([]ledger.Row, n)
	for i := range rows {
		row := alone[rng.IntN(len(alone))]
		row.SessionID, row.TurnID, row.UnitHash = fmt.Sprintf("%032x", i/5), fmt.Sprintf("%032x", i), fmt.Sprintf("%032x", rng.IntN(20_000))
		row.Stratum = "edit/" + languages[rng.IntN(len(languages))] + "/medium/live"
		row.Signals = append([]ledger.Value(nil), row.Signals...)
		for name, value := range map[string]float64{"edits.retention": rng.Float64(), "effort.wall_s": rng.ExpFloat64() * 100, "effort.final_tokens": float64(rng.IntN(5000))} {
			if at := ledger.SignalIndex[name]; row.Signals[at].Known {
				row.Signals[at] = ledger.Of(value)
			}
		}
		rows[i] = row
	}
	return arrowfile.WriteLedger(rows)
}

package main

import (
	"testing"

	"millrace/distill/replay"
	"millrace/distill/reward"
	"millrace/schemas/rewardspec"
)

// For profiles: go test ./bench -run - -bench Replay -cpuprofile cpu.out.
func BenchmarkReplay(b *testing.B) {
	body, err := ledgerFile(50_000)
	if err != nil {
		b.Fatal(err)
	}
	spec, _ := rewardspec.Default()
	scorer, err := reward.Compile(spec, "shipped", nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := replayFile(scorer, body, replay.NewTally(scorer)); err != nil {
			b.Fatal(err)
		}
	}
}

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == serveFlag {
		exitOn(serveAssignments())
		return
	}
	sessions := flag.Int("sessions", 1000, "sessions of three turns for the speed, and open turns for the memory")
	rows := flag.Int("rows", 100_000, "rows of the ledger that is scored again")
	assignments := flag.Int("assignments", 0, "measure assignment instead, with so many requests of each kind in each round; 20000 is enough")
	rounds := flag.Int("rounds", 5, "times that each pass is taken; the median counts")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	if flag.NArg() > 0 || *sessions < 1 || *rounds < 1 || *rows < 1 || *assignments < 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./bench [-sessions N] [-rows N] [-rounds N] [-json], or [-assignments N] [-rounds N] [-json]; each at least 1")
		os.Exit(2)
	}
	if *assignments > 0 {
		exitOn(runAssigning(os.Stdout, *assignments, *rounds, *asJSON))
		return
	}
	exitOn(run(os.Stdout, *sessions, *rows, *rounds, *asJSON))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// report is everything that a run measured.
type report struct {
	Go     string    `json:"go"`
	Cores  int       `json:"cores"`
	Speed  speed     `json:"speed"`
	Memory memory    `json:"memory"`
	Replay rescoring `json:"replay"`
}

func run(out io.Writer, sessions, rows, rounds int, asJSON bool) error {
	r := report{Go: runtime.Version(), Cores: runtime.GOMAXPROCS(0)}
	open, err := unended(sessions)
	if err != nil {
		return err
	}
	if r.Memory, err = measureMemory(open, sessions); err != nil {
		return err
	}
	log, err := ordinary(sessions)
	if err != nil {
		return err
	}
	if r.Speed, err = measureSpeed(log, sessions, rounds); err != nil {
		return err
	}
	if r.Replay, err = measureReplay(rows, rounds); err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.print(out)
}

func (r report) print(out io.Writer) error {
	s, m := r.Speed, r.Memory
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s, %d cores; %d events of %d turns, %.1f MB; %d rounds: median (min … max); seconds are of CPU\n\n", r.Go, r.Cores, s.Events, s.Turns, float64(s.Bytes)/1e6, s.Rounds)
	fmt.Fprintln(w, "\tevents/s\tturns/s\tMB/s\ttime of a pass\t")
	for _, pass := range []struct {
		name string
		took spread
	}{{"decode only", s.Decode}, {"Apply alone", s.Apply}, {"decode, then Apply", s.Both}} {
		t := pass.took.Median
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.1f\t%.3f s (%.3f … %.3f)\t\n", pass.name, float64(s.Events)/t, float64(s.Turns)/t, float64(s.Bytes)/1e6/t, t, pass.took.Min, pass.took.Max)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	p := r.Replay
	_, err := fmt.Fprintf(out, `
Apply takes %.2f (%.2f … %.2f) of the time of decoding the same events; both together reach %.2f (%.2f … %.2f) of decode only's speed.
An open turn (%d events) takes %.0f bytes: %.2f of its decoded events alone (%.0f), %.2f of its bytes in the log (%.0f); %.0f bytes in the state object.
A replay of %d ledger rows (%.1f MB of Parquet) takes %.2f s by the clock (%.2f … %.2f), %.0f rows/s, and %.2f (%.2f … %.2f) of the CPU that decoding them takes.
`,
		s.ApplyPerDecode.Median, s.ApplyPerDecode.Min, s.ApplyPerDecode.Max, s.DecodePerBoth.Median, s.DecodePerBoth.Min, s.DecodePerBoth.Max,
		m.Events/m.Turns, m.Engine, m.Engine/m.Held, m.Held, m.Engine/m.Wire, m.Wire, m.State,
		p.Rows, float64(p.Bytes)/1e6, p.Wall.Median, p.Wall.Min, p.Wall.Max, float64(p.Rows)/p.Wall.Median, p.ReplayPerDecode.Median, p.ReplayPerDecode.Min, p.ReplayPerDecode.Max)
	return err
}

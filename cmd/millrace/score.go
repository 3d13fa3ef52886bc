package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"millrace/cmd/millrace/internal/scorecard"
	"millrace/distill/judge"
	"millrace/schemas/event"
)

// ScoreCommand scores agent transcripts on this machine, through the engine that the pipeline runs on.
type ScoreCommand struct {
	Paths  []string `arg:"" optional:"" name:"path" help:"Transcript files and folders. Without one: where Claude Code keeps its sessions (~/.claude/projects)."`
	Format string   `default:"auto" enum:"auto,claude-code" help:"Format of the files; auto takes each for what it looks like."`
	Spec   string   `placeholder:"FILE" help:"Reward spec to score by, instead of the shipped one."`
	Out    string   `placeholder:"DIR" help:"Write the ledger (Parquet), and shards (Arrow) if there are tokens, into this folder."`
	Turn   string   `placeholder:"ID" help:"Explain one turn, named as in the report, instead of the report."`

	JudgeURL string `name:"judge-url" group:"judge" placeholder:"URL" help:"OpenAI-compatible API up to and including /v1. Pairs of requests are sent there; the report says how many."`
	Judge    `embed:"" group:"judge"`
}

// Help is what 'millrace score --help' adds.
func (c *ScoreCommand) Help() string {
	return `Nothing leaves this machine and nothing is started: the transcripts are read, run through the engine in memory, and reported.
With --judge-url, and only then, pairs of requests are sent there, where structure can't tell what the second shows of the
turn between them: what the user wrote or pasted, secrets of known shapes taken out, and seven facts of the turn, such as
whether it delivered an edit. No file that the agent read or wrote is, no tool output, no word of the agent.

  millrace score                                   your own sessions
  millrace score ~/logs --out scored               with the ledger: duckdb -c "select * from 'scored/ledger/*.parquet'"
  millrace score --turn '7f3a…#4'                  why that turn got its reward
  millrace score --judge-url http://127.0.0.1:8000/v1 --judge-model Qwen/Qwen3-8B`
}

// Run scores and reports. It fails if no turn could be read.
func (c *ScoreCommand) Run(ctx context.Context, out *Output) error {
	paths, err := c.paths()
	if err != nil {
		return err
	}
	cfg := scorecard.Config{Paths: paths, Format: c.Format, Spec: c.Spec}
	var judged *scorecard.Judged
	if c.JudgeURL != "" {
		model, err := c.at(c.JudgeURL)
		if err != nil {
			return err
		}
		judged = &scorecard.Judged{URL: c.JudgeURL, Version: model.Version(), Abstained: map[string]int{}}
		cfg.Judge = func(asks []*judge.Ask, notAsked map[string]int) ([]*event.SessionEvent, error) {
			judged.NotAsked = notAsked
			return c.ask(ctx, out, model, asks, judged)
		}
	}
	scored, err := scorecard.Score(cfg)
	if judged != nil {
		out.Print("%s", sentence(judged))
		if out.JSON && (err != nil || c.Turn != "") { // else the report has it in itself
			fmt.Fprintln(out.Err, sentence(judged))
		}
	}
	if err != nil {
		return err
	}
	if c.Turn != "" {
		explanation, err := scored.Explain(c.Turn)
		if err != nil {
			return err
		}
		return report(out, explanation, explanation.Write)
	}
	card, err := scored.Card()
	if err != nil {
		return err
	}
	card.Judged = judged
	card.Command = strings.Join(append([]string{"millrace score"}, c.Paths...), " ")
	if c.Out != "" && card.Turns > 0 {
		if card.Written, err = scored.WriteFiles(ctx, c.Out); err != nil {
			return err
		}
	}
	if err := report(out, card, card.Write); err != nil {
		return err
	}
	switch {
	case !card.Balanced:
		return fmt.Errorf("the account doesn't balance: %s", card.Unbal)
	case card.Turns == 0:
		return errors.New("nothing was scored: no turn could be read")
	}
	return nil
}

// paths are those that were named, or where the known agents keep their sessions.
func (c *ScoreCommand) paths() ([]string, error) {
	if len(c.Paths) > 0 {
		return c.Paths, nil
	}
	base := os.Getenv("CLAUDE_CONFIG_DIR")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("no transcripts: %w; name a file or folder: millrace score PATH", err)
		}
		base = filepath.Join(home, ".claude")
	}
	dir := filepath.Join(base, "projects")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no transcripts: there is no %s; name a file or folder: millrace score PATH", dir)
	}
	return []string{dir}, nil
}

// report writes a value as JSON or as text.
func report(out *Output, value any, text func(io.Writer) error) error {
	if out.JSON {
		return out.Object(value)
	}
	return text(out.Out)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"millrace/checkpoint/experiment"
	"millrace/distill"
	"millrace/distill/judge"
	"millrace/ingest/privacy"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

// Judge is how a model is asked what users' next requests show. Where it is, each command says by a flag of its own.
type Judge struct {
	Model       string        `name:"judge-model" env:"MILLRACE_JUDGE_MODEL" placeholder:"MODEL" help:"The model, as its API calls it."`
	Key         string        `name:"judge-key" env:"MILLRACE_JUDGE_KEY" placeholder:"KEY" help:"Bearer token of the API, if it wants one."`
	Votes       int           `name:"judge-votes" default:"3" help:"Calls for each pair of requests, up to 9; more than half of them must agree."`
	Temperature float64       `name:"judge-temperature" default:"0.7" help:"Of the votes; with one vote, 0 is best."`
	MaxTokens   int           `name:"judge-max-tokens" default:"512" help:"Tokens of one answer; a model that thinks first needs more."`
	Characters  int           `name:"judge-characters" default:"8000" help:"Of both requests together; longer ones lose their middle."`
	Timeout     time.Duration `name:"judge-timeout" default:"10s" help:"Of one vote."`
	Calls       int           `name:"judge-calls" default:"6" help:"Calls at once."`
}

// at is the model behind an URL.
func (j *Judge) at(url string) (*judge.OpenAI, error) {
	if j.Model == "" {
		return nil, usagef("--judge-url needs --judge-model")
	}
	model, err := judge.NewOpenAI(judge.Endpoint{
		URL: url, Model: j.Model, Key: j.Key, Votes: j.Votes, Temperature: j.Temperature, MaxTokens: j.MaxTokens,
		Characters: j.Characters, VoteTimeout: j.Timeout, Deadline: 3 * j.Timeout, Calls: j.Calls,
	}, http.DefaultTransport)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return model, nil
}

// atOnce is how many pairs are judged at once, so that no vote waits for another.
func (j *Judge) atOnce() int { return max(1, j.Calls/max(1, j.Votes)) }

// RunJudge is run judge.
type RunJudge struct {
	Database   `embed:""`
	Brokers    `embed:""`
	Objects    `embed:""`
	ControlKey `embed:""`
	UnitKey    `embed:""`
	Serving    `embed:""`
	URL        string `name:"judge-url" group:"judge" required:"" env:"MILLRACE_JUDGE_URL" placeholder:"URL" help:"OpenAI-compatible API up to and including /v1. Requests of users are sent there."`
	Judge      `embed:"" group:"judge"`
}

// Help is what 'millrace run judge --help' adds.
func (c *RunJudge) Help() string {
	return `Where the structural rules can't tell what a user's next request shows of the turn before it, both requests are sent to
--judge-url: what the user wrote or pasted, of FULL privacy only, secrets of known shapes taken out, and seven facts of
the turn, such as whether it delivered an edit. Nothing else is: no file that the agent read or wrote, no tool output, no
word of the agent. The verdicts go into the log as evidence events. Nothing waits for them. One process works at a time:
start a second one as a spare. docs/judge.md says more.
Answers /healthz, /readyz and /metrics only.

  millrace run judge --postgres postgres://millrace@db/millrace --kafka kafka:9092 --objects s3://millrace \
    --judge-url http://vllm:8000/v1 --judge-model Qwen/Qwen3-8B`
}

// Run implements the command.
func (c *RunJudge) Run(ctx context.Context, out *Output) error {
	model, err := c.at(c.URL)
	if err != nil {
		return err
	}
	places := []place{c.ControlKey, c.UnitKey, c.Brokers, c.Objects, c.Database}
	return runRole(ctx, out, c.Serving, "judge", places, func(p *parts) (role, error) {
		return newJudge(p, model, c.atOnce(), time.Now)
	})
}

// newJudge reads the log, asks the model, and writes what it says into the log.
func newJudge(p *parts, model judge.Judge, atOnce int, clock func() time.Time) (role, error) {
	reader, err := p.reader()
	if err != nil {
		return role{}, err
	}
	writer, err := p.writer(p.cfg.Topic)
	if err != nil {
		return role{}, err
	}
	j, err := judge.New(judge.Config{AtOnce: atOnce}, judge.Deps{
		Judge: model, Log: reader, Evidence: writer,
		LowWatermark: func(ctx context.Context, partition int32) (int64, error) {
			return distill.LowWatermark(ctx, p.pool, p.cfg.Topic, partition)
		},
		Windows: p.windows, Keyring: p.keyring, UnitKey: p.unitKey, Redact: withoutSecrets, Clock: clock,
		Logger: p.logger, Registerer: p.registry,
	})
	if err != nil {
		return role{}, err
	}
	leader, err := postgres.NewLeader(postgres.LeaderConfig{Name: "judge", Owner: p.owner}, p.pool)
	if err != nil {
		return role{}, err
	}
	return role{
		name: "judge", reads: true,
		run: func(ctx context.Context) error {
			return leader.Run(ctx, func(ctx context.Context, _ int64) error { return j.Run(ctx) })
		},
		ready: func(ctx context.Context) error {
			if err := reader.Reachable(ctx); err != nil {
				return err
			}
			return p.answers(ctx)
		},
	}, nil
}

// windows are those of the configuration that was adopted last.
func (p *parts) windows(ctx context.Context) (judge.Windows, error) {
	config, err := experiment.Config(ctx, p.pool)
	if err != nil {
		return judge.Windows{}, err
	}
	if config == nil {
		return judge.Windows{}, errors.New("there is no configuration yet; `millrace migrate` writes the first one")
	}
	document, err := p.store.Get(ctx, objstore.DocumentKey(config.GetRewardSpecDigest()))
	if err != nil {
		return judge.Windows{}, fmt.Errorf("the reward spec in force: %w", err)
	}
	spec, err := rewardspec.Parse(document)
	if err != nil {
		return judge.Windows{}, fmt.Errorf("the reward spec in force: %w", err)
	}
	return windowsOf(config, spec), nil
}

func windowsOf(c *event.ConfigAdopted, spec *rewardspec.Spec) judge.Windows {
	millis := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return judge.Windows{SettleAfter: spec.SettleAfter, MaxTurn: millis(c.GetMaxTurnMs()), Lateness: millis(c.GetLatenessMs())}
}

func withoutSecrets(text string) string {
	clean, _ := privacy.Text(text)
	return clean
}

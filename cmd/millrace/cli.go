package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

const description = "Real-time RL feedback for a coding agent: live sessions in, on-policy reward shards and tested checkpoints out."

var groups = []kong.Group{
	{Key: "start", Title: "Start here:"},
	{Key: "train", Title: "Rewards, shards and candidates:"},
	{Key: "release", Title: "Gates and releases:"},
	{Key: "operate", Title: "Operation:"},
	{Key: "places", Title: "Where things are:"},
	{Key: "first", Title: "At the first time:"},
	{Key: "windows", Title: "Windows and schedule:"},
	{Key: "judge", Title: "The judge, off unless --judge-url is given:"},
	{Key: "demo", Title: "The demo:"},
}

// CLI is the command line: one field for each command or group of commands, each in a file of its own.
type CLI struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"How results are printed: ${enum}." env:"MILLRACE_OUTPUT"`

	Up    UpCommand    `cmd:"" group:"start" help:"Everything in one process: broker, Postgres, objects, all roles, the page. With --demo, simulated traffic through a whole cycle."`
	Score ScoreCommand `cmd:"" group:"start" help:"Score agent transcripts on this machine; nothing leaves it unless --judge-url says where to."`

	Reward    RewardCommand    `cmd:"" group:"train" help:"Change the reward: show, lint, test, stress, replay, baseline, adopt, status, history."`
	Shards    ShardsCommand    `cmd:"" group:"train" help:"What trainers pull: list, verify, cat, pull."`
	Ledger    LedgerCommand    `cmd:"" group:"train" help:"The table of all settled turns: its files, a copy of them, its columns, what it says of the reward."`
	Cut       CutCommand       `cmd:"" group:"train" help:"The training set of an interval."`
	Candidate CandidateCommand `cmd:"" group:"train" help:"Hand in a checkpoint, and see what came of it."`

	Gate       GateCommand       `cmd:"" group:"release" help:"What the evidence says, what would change it, what traffic can detect."`
	Experiment ExperimentCommand `cmd:"" group:"release" help:"The A/B tests."`
	Release    ReleaseCommand    `cmd:"" group:"release" help:"What is live, promote, roll back, pause, history."`
	Evals      EvalsCommand      `cmd:"" group:"release" help:"Offline suites: run one on a candidate, report, list."`
	Audit      AuditCommand      `cmd:"" group:"release" help:"Who did what, when and why, and what was seen."`
	Webhook    WebhookCommand    `cmd:"" group:"release" help:"What endpoints were told, and deliver again."`
	Assignment AssignmentCommand `cmd:"" group:"release" help:"Which checkpoint serves a unit, and why; the key and ruleset for backends that decide it themselves."`

	Run         RunCommand         `cmd:"" group:"operate" help:"One role as a process: ingest, distill, feed, checkpoint or judge."`
	Migrate     MigrateCommand     `cmd:"" group:"operate" help:"Make or update topics and tables, and write the first configuration."`
	Account     AccountCommand     `cmd:"" group:"operate" help:"The no-seam table: every record read and every turn opened, and what became of it."`
	Partition   PartitionCommand   `cmd:"" group:"operate" help:"Show the partitions, or resume a halted one."`
	DeadLetters DeadLettersCommand `cmd:"" name:"deadletters" group:"operate" help:"Records that could not be taken: list, show, replay."`
	Doctor      DoctorCommand      `cmd:"" group:"operate" help:"Look at Postgres, Kafka, the object store and the partitions, and say what is wrong."`
	Token       TokenCommand       `cmd:"" group:"operate" help:"Bearer tokens: create, list, revoke."`
	Version     VersionCommand     `cmd:"" group:"operate" help:"The version of this build."`
}

// Output is where a command prints, and how.
type Output struct {
	Out, Err io.Writer
	JSON     bool
}

// Print writes a line of text; nothing if JSON is wanted.
func (o *Output) Print(format string, args ...any) {
	if !o.JSON {
		fmt.Fprintf(o.Out, format+"\n", args...)
	}
}

// Object writes a value as one line of JSON.
func (o *Output) Object(v any) error { return json.NewEncoder(o.Out).Encode(v) }

// usageError is a wrong call rather than a failure: exit code 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes: a contract.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cli CLI
	exited := -1
	parser, err := kong.New(&cli, kong.Name("millrace"), kong.Description(description), kong.UsageOnError(),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { exited = code }), kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.ExplicitGroups(groups), kong.Vars{"default_topic": defaultTopic})
	if err != nil {
		fmt.Fprintln(stderr, "millrace:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "millrace: %v\ntry: millrace --help\n", err)
		return exitUsage
	}
	err = command.Run(&Output{Out: stdout, Err: stderr, JSON: cli.Output == "json"})
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "millrace:", err)
		return exitUsage
	case err != nil:
		fmt.Fprintln(stderr, "millrace:", err)
		return exitFailed
	}
	return exitDone
}

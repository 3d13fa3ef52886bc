//go:build unix

package checkpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/event"
)

// What the second process of TestALeaderThatStandsStill is told.
const (
	frozenDatabase = "MILLRACE_TEST_FROZEN_DATABASE"
	frozenObjects  = "MILLRACE_TEST_FROZEN_OBJECTS"
)

// TestALeaderThatStandsStill stops a real process with SIGSTOP in the middle of a cut, lets another one take over and
// finish the cycle, and wakes the first one: it goes on where it stood, and can't write anything.
func TestALeaderThatStandsStill(t *testing.T) {
	t.Parallel()
	if database := os.Getenv(frozenDatabase); database != "" {
		standStill(t, database, os.Getenv(frozenObjects))
		return
	}
	w := setup(t)
	w.interval()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestALeaderThatStandsStill$")
	child.Env = append(os.Environ(), frozenDatabase+"="+w.pool.Config().ConnString(), frozenObjects+"="+t.TempDir())
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	require.NoError(t, err)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(output)
	said := func() string {
		for lines.Scan() {
			if line, ours := ourLine(lines.Text()); ours {
				return line
			}
		}
		t.Fatalf("the other process has ended: %v", lines.Err())
		return ""
	}
	require.Equal(t, "marks cut-1", said())
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	require.Nil(t, w.cut("cut-1").MarkedAt)

	w.exec(`update leader set lease_until = now() - interval '1 s'`) // as time would
	c := w.control()
	w.step(c, 0, 2)
	require.Equal(t, cut.Packed, w.cut("cut-1").State, "one cut, not a second one")
	w.step(c, 1, 1)
	require.Equal(t, candidate.TimedOut, w.state("cand-1"))
	before := w.whole()

	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	_, err = io.WriteString(input, "go on\n")
	require.NoError(t, err)
	require.Equal(t, "fenced", said())
	require.Equal(t, "stands by", said())
	require.NoError(t, child.Wait())
	require.Equal(t, before, w.whole())
}

// tag tells the process's own lines from the test framework's.
const tag = "frozen: "

func ourLine(line string) (string, bool) {
	if len(line) < len(tag) || line[:len(tag)] != tag {
		return "", false
	}
	return line[len(tag):], true
}

// standStill is the first process: it leads, and waits in the middle of marking until it is told to go on.
func standStill(t *testing.T, database, objects string) {
	pool, err := postgres.Open(t.Context(), database, "frozen")
	require.NoError(t, err)
	defer pool.Close()
	store, err := objstore.NewFolder(objects)
	require.NoError(t, err)
	cfg := DefaultConfig()
	cfg.Topic, cfg.Partitions, cfg.Owner, cfg.Anchor = "events", 2, "frozen", start
	cfg.Cut.MinRows, cfg.Cut.MinUnits = 100, 10
	c, err := New(cfg, Deps{
		DB: pool, Store: store, Log: slog.New(slog.DiscardHandler),
		Announce: func(context.Context, string, []byte) error { return nil },
		WriteControl: func(_ context.Context, r *event.ControlRecord) error {
			if r.GetCutMarked() == nil {
				return nil
			}
			fmt.Println(tag + "marks " + r.GetCutMarked().GetCut())
			_, err := bufio.NewReader(os.Stdin).ReadString('\n')
			return err
		},
	})
	require.NoError(t, err)
	if err := c.Step(t.Context(), start.Add(time.Second)); !errors.Is(err, postgres.ErrFenced) {
		t.Fatalf("not fenced: %v", err)
	}
	fmt.Println(tag + "fenced")
	require.NoError(t, c.Step(t.Context(), start.Add(5*time.Hour)))
	fmt.Println(tag + "stands by")
}

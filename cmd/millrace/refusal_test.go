package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// refused runs a command that must end by itself, and gives its exit code and the one sentence that it says.
func refused(t *testing.T, arguments ...string) (code int, sentence string) {
	t.Helper()
	var stdout, stderr transcript
	code = run(t.Context(), arguments, &stdout, &stderr)
	require.Empty(t, stdout.String())
	sentence = strings.TrimSpace(stderr.String())
	require.NotContains(t, sentence, "\n", "one sentence is enough")
	return code, sentence
}

func TestUpRefuses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	const fresh = "FRESH" // a folder of the case's own
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	theirs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(theirs, "thesis.tex"), nil, 0o600))
	withLock := t.TempDir()
	for _, name := range []string{"lock", "thesis.tex"} {
		require.NoError(t, os.WriteFile(filepath.Join(withLock, name), nil, 0o600))
	}
	for name, c := range map[string]struct {
		arguments []string
		code      int
		sentence  string
	}{
		"port taken":         {[]string{"--data", fresh, "--listen", taken.Addr().String()}, exitFailed, taken.Addr().String() + " is taken by another process; say --listen with another port"},
		"port of the broker": {[]string{"--data", fresh, "--listen", "127.0.0.1:0", "--kafka-port", port(taken)}, exitFailed, "port " + port(taken) + " of 127.0.0.1 is taken by another process; choose another port"},
		"no address":         {[]string{"--data", fresh, "--listen", "nonsense"}, exitUsage, "--listen nonsense: want HOST:PORT"},
		"folder is a file":   {[]string{"--data", file, "--listen", "127.0.0.1:0"}, exitFailed, "data folder " + file},
		"folder of others":   {[]string{"--data", theirs, "--listen", "127.0.0.1:0"}, exitUsage, "there is thesis.tex already, so it is no data folder of millrace; choose another one"},
		"reset of others":    {[]string{"--data", theirs, "--listen", "127.0.0.1:0", "--reset"}, exitUsage, "holds thesis.tex, which is not millrace's; choose another --data"},
		"reset of a mixture": {[]string{"--data", withLock, "--listen", "127.0.0.1:0", "--reset"}, exitUsage, "holds thesis.tex, which is not millrace's"},
		"no such spec":       {[]string{"--data", fresh, "--listen", "127.0.0.1:0", "--spec", "/nowhere.yaml"}, exitFailed, "reward spec: open /nowhere.yaml: no such file"},
		"no Postgres URL":    {[]string{"--data", fresh, "--listen", "127.0.0.1:0", "--postgres", "nonsense"}, exitUsage, "--postgres: cannot parse"},
		"units alone":        {[]string{"--units", "9"}, exitUsage, "--candidate, --seed and --units go with --demo"},
		"no partitions":      {[]string{"--data", fresh, "--listen", "127.0.0.1:0", "--partitions=-1"}, exitUsage, "--partitions -1: give at least 1"},
		"once alone":         {[]string{"--once"}, exitUsage, "--once goes with --demo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arguments := []string{"up"}
			for _, a := range c.arguments {
				if a == fresh {
					a = filepath.Join(t.TempDir(), "data")
				}
				arguments = append(arguments, a)
			}
			code, sentence := refused(t, arguments...)
			require.Contains(t, sentence, c.sentence)
			require.Equal(t, c.code, code)
		})
	}
	t.Cleanup(func() {
		require.FileExists(t, filepath.Join(theirs, "thesis.tex"))
		require.FileExists(t, filepath.Join(withLock, "thesis.tex"))
	})
}

func port(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // it came from there
	return port
}

func TestUpOnAFolderInUse(t *testing.T) {
	t.Parallel()
	i := newInstance(t)
	i.start()
	i.ready()
	for _, flags := range [][]string{nil, {"--reset"}} {
		code, sentence := refused(t, append([]string{"up", "--data", i.data, "--listen", "127.0.0.1:0"}, flags...)...)
		require.Equal(t, exitFailed, code)
		require.Regexp(t, `^millrace: folder \S+/data is in use by pid \d+; stop that one first, or choose another folder$`, sentence)
		require.Contains(t, sentence, i.pid())
	}
	require.Equal(t, exitDone, i.stop())

	token := i.token()
	i.flags = []string{"--reset"}
	i.start()
	i.ready()
	require.NotEqual(t, token, i.token(), "begun anew")
	require.Equal(t, exitDone, i.stop())
}

// nobody is an ordinary user, where this is root.
func nobody(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}
}

func TestUpAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	i := newInstance(t)
	i.account = nobody(t)
	i.start()
	<-i.exited
	require.Equal(t, exitFailed, i.process.ProcessState.ExitCode())
	require.Contains(t, i.output.String(), "user 65534 may not write there")
	require.Contains(t, i.output.String(), "choose another --data, or give the folder to that user")
	require.Len(t, i.output.lines(""), 1)

	require.NoError(t, os.Chown(filepath.Dir(i.data), 65534, 65534))
	i.start()
	i.ready()
	require.Equal(t, exitDone, i.stop())

	i.account = nil // root may go on with it, and the user after him
	i.start()
	i.ready()
	require.Equal(t, exitDone, i.stop())
	i.account = nobody(t)
	i.start()
	i.ready()
	require.Equal(t, exitDone, i.stop())
	i.output.requireClean(t)
}

// Postgres is away when up starts: it waits and says so, alive and not ready, until it is told to stop.
func TestUpWaitsForAGivenPostgres(t *testing.T) {
	t.Parallel()
	listen := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	var output transcript
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"up", "--data", filepath.Join(t.TempDir(), "data"), "--listen", listen, "--postgres", "postgres://x@" + freeAddress(t) + "/x"}, &output, &output)
	}()
	i := &instance{t: t, listen: listen, output: &output}
	i.awaitReadiness(http.StatusServiceUnavailable, "waiting for Postgres")
	i.await(waitMost, "it says so", func() bool { return len(output.lines("waiting: Postgres does not answer")) == 1 })
	require.NoError(t, pause(t.Context(), waitSome))
	stop()
	require.Equal(t, exitDone, <-ended)
	require.Len(t, output.lines(""), 2, output.String())
	require.Contains(t, output.String(), "connection refused")
	require.Len(t, output.lines("stopped"), 1)
}

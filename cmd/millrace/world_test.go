package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	waitMost = time.Minute     // for what must come
	waitSome = 2 * time.Second // for what must not come
)

// instance is a `millrace up` as a process of its own, on a data folder that outlives it.
type instance struct {
	t       *testing.T
	data    string
	listen  string
	kafka   string // the embedded broker's address
	flags   []string
	account *syscall.Credential // nil: this process's

	process *exec.Cmd
	exited  chan struct{}
	output  *transcript // of every process so far
}

// newInstance makes a data folder's place and chooses ports; nothing runs yet.
func newInstance(t *testing.T, flags ...string) *instance {
	t.Helper()
	i := &instance{t: t, listen: freeAddress(t), kafka: freeAddress(t), flags: flags, output: &transcript{}}
	i.data = filepath.Join(openFolder(t), "data")
	t.Cleanup(func() {
		if i.running() {
			i.stop()
		}
	})
	return i
}

// openFolder is a temporary folder that other users may enter: root's Postgres runs as one.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// freeAddress is one that a process can take again and again: below the ports that systems give to outgoing connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(18_000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	require.Fail(t, "no free port")
	return ""
}

// start begins a process and doesn't wait for it.
func (i *instance) start() {
	i.t.Helper()
	_, port, err := net.SplitHostPort(i.kafka)
	require.NoError(i.t, err)
	arguments := append([]string{"up", "--data", i.data, "--listen", i.listen, "--kafka-port", port}, i.flags...)
	i.process = exec.Command(millraceBinary(i.t), arguments...)
	i.process.Stdout, i.process.Stderr = i.output, i.output
	i.process.SysProcAttr = &syscall.SysProcAttr{Credential: i.account}
	require.NoError(i.t, i.process.Start())
	exited, process := make(chan struct{}), i.process
	i.exited = exited
	go func() {
		_ = process.Wait() // its code is in the process's state
		close(exited)
	}()
}

func (i *instance) running() bool {
	if i.process == nil {
		return false
	}
	select {
	case <-i.exited:
		return false
	default:
		return true
	}
}

// ready waits until the process takes events.
func (i *instance) ready() {
	i.t.Helper()
	i.await(time.Minute, "ready", func() bool {
		require.True(i.t, i.running(), "it ended and said:\n%s", i.output)
		status, _ := i.readiness()
		return status == http.StatusOK || pause(i.t.Context(), 20*time.Millisecond) != nil
	})
}

// readiness asks /readyz; 0 if nobody answers.
func (i *instance) readiness() (status int, body string) {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get("http://" + i.listen + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(i.t, err)
	return answer.StatusCode, string(b)
}

// await polls what no signal tells.
func (i *instance) await(most time.Duration, what string, reached func() bool) {
	i.t.Helper()
	for deadline := time.Now().Add(most); !reached(); time.Sleep(5 * time.Millisecond) {
		require.True(i.t, time.Now().Before(deadline), "waited %s: %s; it said:\n%s", most, what, i.output)
	}
}

// kill ends the process like a lost machine would: without a word.
func (i *instance) kill() {
	i.t.Helper()
	require.NoError(i.t, i.process.Process.Kill(), "it said:\n%s", i.output)
	<-i.exited
}

// stop asks the process to end, and gives its exit code.
func (i *instance) stop() int {
	i.t.Helper()
	if err := i.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		require.NoError(i.t, err)
	}
	select {
	case <-i.exited:
	case <-time.After(time.Minute):
		_ = i.process.Process.Kill()
		<-i.exited
		require.Fail(i.t, "it didn't stop", i.output.String())
	}
	return i.process.ProcessState.ExitCode()
}

// token is the first one, which the process leaves for its user's commands.
func (i *instance) token() string {
	i.t.Helper()
	body, err := os.ReadFile(filepath.Join(i.data, clientFile))
	require.NoError(i.t, err)
	var address clientAddress
	require.NoError(i.t, json.Unmarshal(body, &address))
	require.NotEmpty(i.t, address.Token)
	return address.Token
}

// pid is the process's, as messages name it.
func (i *instance) pid() string { return "pid " + strconv.Itoa(i.process.Process.Pid) }

// postgresURL is where the instance's own Postgres takes connections, as its postmaster.pid tells.
func (i *instance) postgresURL() string {
	i.t.Helper()
	body, err := os.ReadFile(filepath.Join(i.data, "postgres", "data", "postmaster.pid"))
	require.NoError(i.t, err)
	lines := strings.Split(string(body), "\n")
	require.Greater(i.t, len(lines), 5)
	return fmt.Sprintf("postgres://millrace@/millrace?host=%s&port=%s", lines[4], lines[3])
}

// postgresPID is the process id of the instance's own Postgres.
func (i *instance) postgresPID() int {
	i.t.Helper()
	body, err := os.ReadFile(filepath.Join(i.data, "postgres", "data", "postmaster.pid"))
	require.NoError(i.t, err)
	var pid int
	_, err = fmt.Sscan(string(body), &pid)
	require.NoError(i.t, err)
	return pid
}

// transcript collects what processes print.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (x *transcript) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(b)
}

func (x *transcript) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// lines are those that hold a text.
func (x *transcript) lines(text string) []string {
	var found []string
	for line := range strings.Lines(x.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// requireClean fails if a Go program came to grief in what was printed.
func (x *transcript) requireClean(t *testing.T) {
	t.Helper()
	for _, grief := range []string{"panic", "goroutine ", "fatal error", "runtime error", "SIGSEGV", ".go:"} {
		require.Empty(t, x.lines(grief), "in:\n%s", x)
	}
}

// pause waits a moment of real time, which is what a running process has.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

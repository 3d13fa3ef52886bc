//go:build kafka4

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

// world is a Millrace of processes: the real broker, a database and a folder of its own.
type world struct {
	t       *testing.T
	binary  string
	root    string
	topic   string
	brokers string
	objects string
	url     string // of the database
	pool    *pgxpool.Pool
	env     []string
}

func setupWorld(t *testing.T) *world {
	t.Helper()
	brokers := os.Getenv("MILLRACE_TEST_KAFKA")
	if brokers == "" {
		t.Skip("MILLRACE_TEST_KAFKA names no Kafka; `make test-kafka` starts one")
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	w := &world{
		t: t, root: root, binary: filepath.Join(t.TempDir(), "millrace"), brokers: brokers,
		topic: fmt.Sprintf("roles-%d", time.Now().UnixMilli()), objects: filepath.Join(t.TempDir(), "objects"),
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", w.binary, ".")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	w.url = emptyDatabase(t)
	w.env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MILLRACE_") })
	w.env = append(
		w.env, "MILLRACE_POSTGRES="+w.url, "MILLRACE_KAFKA="+brokers, "MILLRACE_TOPIC="+w.topic, "MILLRACE_OBJECTS="+w.objects,
		"MILLRACE_CONTROL_KEY="+strings.Repeat("5e", 32), "MILLRACE_UNIT_KEY="+strings.Repeat("a7", 32), "MILLRACE_LISTEN=127.0.0.1:0",
	)
	w.pool, err = postgres.Open(t.Context(), w.url, "test")
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	return w
}

// emptyDatabase makes one without any table.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	admin := postgrestest.New(t)
	name := fmt.Sprintf("roles_%d", time.Now().UnixNano())
	_, err := admin.Exec(t.Context(), "create database "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), "drop database "+name+" with (force)")
		if err != nil {
			t.Logf("dropping %s: %v", name, err)
		}
	})
	u, err := url.Parse(admin.Config().ConnString())
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// millrace runs a command to its end.
func (w *world) millrace(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Env = w.env
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(w.t, err, "millrace %v", args)
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

// must runs a command that has to succeed, and gives what it printed.
func (w *world) must(args ...string) string {
	w.t.Helper()
	stdout, stderr, code := w.millrace(args...)
	require.Zero(w.t, code, "millrace %v: %s%s", args, stdout, stderr)
	return strings.TrimSpace(stdout)
}

// kafka4 runs the broker's script with the environment that it was started with.
func (w *world) kafka4(args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(w.root, "deploy", "kafka4.sh"), args...)
	cmd.Dir = w.root
	output, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "kafka4.sh %v: %s", args, output)
}

// process is a role at work.
type process struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	address string // it answers at
	logs    logs
	ended   chan struct{}
	expect  atomic.Bool // its end
}

// start starts a role and waits until it listens.
func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, name: name, ended: make(chan struct{})}
	p.cmd = exec.Command(w.binary, append([]string{"run"}, args...)...)
	p.cmd.Env = w.env
	stderr, err := p.cmd.StderrPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, p.cmd.Start())
	listening := make(chan string, 1)
	go func() {
		p.logs.follow(stderr, listening)
		_ = p.cmd.Wait()
		if !p.expect.Load() {
			w.t.Errorf("%s ended by itself: %s", name, p.cmd.ProcessState)
		}
		close(p.ended)
	}()
	w.t.Cleanup(func() {
		p.kill()
		if w.t.Failed() {
			w.t.Logf("---- %s\n%s", name, p.logs.tail(40))
		}
	})
	select {
	case p.address = <-listening:
	case <-p.ended:
		w.t.Fatalf("%s does not start:\n%s", name, p.logs.tail(40))
	case <-time.After(30 * time.Second):
		w.t.Fatalf("%s does not listen:\n%s", name, p.logs.tail(40))
	}
	return p
}

// kill is kill -9.
func (p *process) kill() {
	p.expect.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// stop is SIGTERM: the process must drain and exit 0.
func (p *process) stop() {
	p.t.Helper()
	p.expect.Store(true)
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM), p.name)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%s does not stop:\n%s", p.name, p.logs.tail(40))
	}
	require.Zero(p.t, p.cmd.ProcessState.ExitCode(), "%s:\n%s", p.name, p.logs.tail(40))
}

// get asks a process without a token.
func (p *process) get(path string) (status int, body string) {
	p.t.Helper()
	res, err := http.Get("http://" + p.address + path)
	require.NoError(p.t, err, p.name)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return res.StatusCode, string(b)
}

// awaitReady waits until the process may take work.
func (p *process) awaitReady(within time.Duration) {
	p.t.Helper()
	await(p.t, within, p.name+" is ready", func() bool {
		status, _ := p.get("/readyz")
		return status == http.StatusOK
	})
}

func await(t *testing.T, within time.Duration, what string, ready func() bool) {
	t.Helper()
	require.Eventually(t, ready, within, 100*time.Millisecond, "within %s: %s", within, what)
}

// logs is what a process said, a line each.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) follow(r io.Reader, listening chan<- string) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Msg == "listening" {
			listening <- line.Address
		}
		l.mu.Lock()
		l.lines = append(l.lines, scanner.Text())
		l.mu.Unlock()
	}
}

func (l *logs) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "\n")
}

// gateways sends each request to the next of several gateways: an emitter behind a load balancer.
type gateways struct {
	mu        sync.Mutex
	addresses []string
	next      int
	statuses  map[int]int
	failed    int
}

// RoundTrip implements http.RoundTripper.
func (g *gateways) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	address := g.addresses[g.next%len(g.addresses)]
	g.next++
	g.mu.Unlock()
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = address, address
	res, err := http.DefaultTransport.RoundTrip(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.failed++
		return nil, err
	}
	g.statuses[res.StatusCode]++
	return res, nil
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/assignment"
	"millrace/ingest"
	"millrace/internal/auth"
)

// assigning is how many evaluations one core answers: over HTTP by a process of its own with GOMAXPROCS=1, and in this
// process. Rates are for a second of the server's CPU, in kernel and user mode, so that neither the client nor a neighbour
// is in them.
type assigning struct {
	Connections int    `json:"connections"`
	Requests    int    `json:"requests"` // of each kind, in each round
	Rounds      int    `json:"rounds"`
	Bare        spread `json:"bare"`         // the peer: net/http itself, reading the same body and answering {}
	Single      spread `json:"single"`       // OFREP, one flag, a session under way
	Bulk        spread `json:"bulk"`         // OFREP, all flags
	NotModified spread `json:"not_modified"` // the same with its ETag: 304
	Local       spread `json:"local"`        // in the caller's process, by a ruleset
	// By the clock, with the client on another core: what the loopback shows from outside.
	SingleWall spread `json:"single_wall"`
}

func runAssigning(out io.Writer, requests, rounds int, asJSON bool) error {
	a, err := measureAssigning(requests, rounds)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(a)
	}
	return a.print(out)
}

func (a assigning) print(out io.Writer) error {
	fmt.Fprintf(out, "%s, GOMAXPROCS=1, everything else down; %d requests a round over %d connections, %d rounds: median (min … max)\n\n", runtime.Version(), a.Requests, a.Connections, a.Rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tevaluations/s of CPU\t\t")
	for _, kind := range []struct {
		name string
		rate spread
	}{
		{"Go's HTTP server, answering {}", a.Bare},
		{"OFREP, single, with a session", a.Single},
		{"OFREP, bulk", a.Bulk},
		{"OFREP, bulk, not modified", a.NotModified},
		{"by a ruleset, in the backend", a.Local},
		{"OFREP, single, by the clock", a.SingleWall},
	} {
		fmt.Fprintf(w, "%s\t%.0f\t(%.0f … %.0f)\t\n", kind.name, kind.rate.Median, kind.rate.Min, kind.rate.Max)
	}
	return w.Flush()
}

// serveFlag makes the process the server of the measurement.
const serveFlag = "-serve-assignments"

const barePath = "/bare"

const benchToken = "mr_bench"

func benchRules() assignment.Ruleset {
	now := time.Now().UTC().Truncate(time.Second)
	return assignment.Ruleset{
		Live: "composer-41", Kept: []string{"composer-40", "composer-39"}, ValidUntil: now.Add(time.Hour),
		HoldBack: &assignment.HoldBack{ID: "anchor-1", Salt: "anchor-1-ba9876543210", Buckets: 500, Version: "composer-8"},
		Experiment: &assignment.Experiment{
			ID: "exp-42", Salt: "exp-42-0123456789ab", Coverage: assignment.Buckets, Control: "composer-41", Candidate: "composer-42",
			StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
		},
	}
}

// serveAssignments is what a gateway serves, token check and metrics included, with nothing behind it: its ruleset was
// read once. It prints its address, and its CPU time so far for every line that it reads.
func serveAssignments() error {
	ctx := context.Background()
	runtime.GOMAXPROCS(1)
	read := false
	assigner, err := ingest.NewAssigner(ingest.AssignConfig{Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))},
		func(context.Context) (assignment.Ruleset, error) {
			if read {
				return assignment.Ruleset{}, errors.New("connection refused")
			}
			read = true
			return benchRules(), nil
		}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	if err := assigner.Refresh(ctx); err != nil {
		return err
	}
	go assigner.Run(ctx) //nolint:errcheck // it goes on without a control plane
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	guard := auth.NewFixedGuard(map[string]auth.Token{benchToken: {ID: "bench", Scopes: []auth.Scope{auth.AssignRead}}})
	mux := http.NewServeMux()
	mux.Handle("/", assigner.Handler(guard))
	mux.HandleFunc("POST "+barePath, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = io.WriteString(w, "{}")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with the process
	fmt.Fprintln(os.Stdout, listener.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Fprintln(os.Stdout, cpu().Seconds())
	}
	return nil
}

// measureAssigning starts the server and asks it, kind by kind and round by round, after one round that doesn't count.
func measureAssigning(requests, rounds int) (a assigning, err error) {
	a = assigning{Connections: 32, Requests: requests, Rounds: rounds}
	self, err := os.Executable()
	if err != nil {
		return a, err
	}
	server := exec.CommandContext(context.Background(), self, serveFlag)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return a, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return a, err
	}
	if err := server.Start(); err != nil {
		return a, fmt.Errorf("start the server: %w", err)
	}
	defer func() { err = errors.Join(err, in.Close(), server.Wait()) }()
	lines := bufio.NewScanner(out)
	ask := func() string {
		lines.Scan()
		return lines.Text()
	}
	address := ask()
	spent := func() (float64, error) {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return 0, err
		}
		return strconv.ParseFloat(ask(), 64)
	}
	rates := map[string][]float64{}
	tag, err := tagOfBulk(address)
	if err != nil {
		return a, err
	}
	for round := range rounds + 1 {
		for _, kind := range []struct {
			name, path, header string
			session            bool
			status             string
		}{
			{"bare", barePath, "", true, "200"},
			{"single", "/ofrep/v1/evaluate/flags/" + ingest.FlagKey, "", true, "200"},
			{"bulk", "/ofrep/v1/evaluate/flags", "", false, "200"},
			{"not modified", "/ofrep/v1/evaluate/flags", "If-None-Match: " + tag + "\r\n", false, "304"},
		} {
			before, err := spent()
			if err != nil {
				return a, err
			}
			began := time.Now()
			if err := drive(address, kind.path, kind.header, kind.session, kind.status, requests, a.Connections); err != nil {
				return a, fmt.Errorf("%s: %w", kind.name, err)
			}
			wall := time.Since(began).Seconds()
			after, err := spent()
			if err != nil {
				return a, err
			}
			if round > 0 {
				rates[kind.name] = append(rates[kind.name], float64(requests)/(after-before))
				rates[kind.name+", wall"] = append(rates[kind.name+", wall"], float64(requests)/wall)
			}
		}
		local, err := measureLocal(20 * requests)
		if err != nil {
			return a, err
		}
		if round > 0 {
			rates["local"] = append(rates["local"], local)
		}
	}
	a.Bare = spreadOf(rates["bare"])
	a.Single, a.Bulk, a.NotModified = spreadOf(rates["single"]), spreadOf(rates["bulk"]), spreadOf(rates["not modified"])
	a.Local, a.SingleWall = spreadOf(rates["local"]), spreadOf(rates["single, wall"])
	return a, nil
}

// benchUnit is as long as a pseudonym; the bulk call asks for it alone, so that its answer has one ETag.
const benchUnit = "5bdcc146bf60754e6a042426089575c7"

func bodyOf(i int, session bool) string {
	if session {
		return fmt.Sprintf(`{"context":{"targetingKey":"%s%06d","sessionId":"s%06d"}}`, benchUnit[:26], i%100_000, i%100_000)
	}
	return `{"context":{"targetingKey":"` + benchUnit + `"}}`
}

func request(path, header, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: millrace\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		path, benchToken, header, len(body), body)
}

func tagOfBulk(address string) (string, error) {
	connection, err := dial(address)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if _, err := connection.Write(request("/ofrep/v1/evaluate/flags", "", bodyOf(0, false))); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct{ Flags []json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Flags) != 1 {
		return "", fmt.Errorf("the bulk call answers %s: %w", response.Status, err)
	}
	return response.Header.Get("ETag"), nil
}

func dial(address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(context.Background(), "tcp", address)
}

// drive sends the requests over some connections, each waiting for its answer before the next, and checks every status.
func drive(address, path, header string, session bool, status string, requests, connections int) error {
	failed := make([]error, connections)
	var group sync.WaitGroup
	for c := range connections {
		group.Go(func() {
			share := requests / connections
			if c < requests%connections {
				share++
			}
			failed[c] = converse(address, status, share, func(i int) []byte { return request(path, header, bodyOf(c+i*connections, session)) })
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// converse is a client as thin as can be, so that the server has its core for itself.
func converse(address, status string, n int, ask func(i int) []byte) error {
	connection, err := dial(address)
	if err != nil {
		return err
	}
	defer connection.Close()
	from := bufio.NewReader(connection)
	for i := range n {
		if _, err := connection.Write(ask(i)); err != nil {
			return err
		}
		if err := skipAnswer(from, status); err != nil {
			return fmt.Errorf("request %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

func skipAnswer(from *bufio.Reader, status string) error {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 "+status)) {
		return fmt.Errorf("answered %q, want %s", strings.TrimSpace(string(line)), status)
	}
	length := 0
	for {
		if line, err = from.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	_, err = from.Discard(length)
	return err
}

// measureLocal evaluates by a verified ruleset, unit after unit, as a backend does.
func measureLocal(n int) (rate float64, err error) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	document, err := assignment.Sign(benchRules(), key)
	if err != nil {
		return 0, err
	}
	public, _ := key.Public().(ed25519.PublicKey)
	rules, err := assignment.Verify(document, public)
	if err != nil {
		return 0, err
	}
	units := make([]string, 1000)
	for i := range units {
		units[i] = fmt.Sprintf("%s%06d", benchUnit[:26], i)
	}
	arms, now := map[string]int{}, time.Now()
	took := timed(func() {
		for i := range n {
			var a assignment.Assignment
			if a, err = rules.Assign(assignment.Query{Unit: units[i%len(units)]}, now); err != nil {
				return
			}
			arms[a.Arm]++
		}
	})
	if err == nil && (arms[assignment.ArmControl] == 0 || arms[assignment.ArmCandidate] == 0) {
		err = fmt.Errorf("units per arm are %v, want some in each", arms)
	}
	return float64(n) / took, err
}

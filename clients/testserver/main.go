// Command testserver serves assignments from memory, on a loopback port, for the tests of clients in other languages. It
// needs no Postgres, Kafka or control plane. Its first line on standard output says where it is, as JSON; it ends with
// its standard input. A line there changes what is served: "live VERSION" promotes, "away" answers 503 from then on.
package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/assignment"
	"millrace/ingest"
	"millrace/internal/auth"
)

// token is what clients have to send.
const token = "mr_test"

// door checks the one token, and can be shut.
type door struct{ away atomic.Bool }

func (d *door) Middleware(auth.Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case d.away.Load():
				w.WriteHeader(http.StatusServiceUnavailable)
			case r.Header.Get("Authorization") != "Bearer "+token:
				w.WriteHeader(http.StatusUnauthorized)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := context.Background()
	now := time.Now().UTC().Truncate(time.Second)
	var live atomic.Pointer[string]
	base := "base-8"
	live.Store(&base)
	load := func(context.Context) (assignment.Ruleset, error) {
		return assignment.Ruleset{
			Live: *live.Load(), Kept: []string{"base-7", "base-8"},
			HoldBack: &assignment.HoldBack{ID: "anchor-1", Salt: "anchor-1-ba9876543210", Buckets: 500, Version: "base-1"},
			Experiment: &assignment.Experiment{
				ID: "exp-9", Salt: "exp-9-0123456789ab", Coverage: 9000, Control: "base-8", Candidate: "cand-9",
				StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
			},
		}, nil
	}
	key := ed25519.NewKeyFromSeed([]byte("the key of the clients' own tests"[:ed25519.SeedSize]))
	assigner, err := ingest.NewAssigner(ingest.AssignConfig{Key: key}, load, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	if err := assigner.Refresh(ctx); err != nil {
		return err
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var d door
	server := &http.Server{Handler: assigner.Handler(&d), ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with the process
	public, _ := key.Public().(ed25519.PublicKey)
	err = json.NewEncoder(os.Stdout).Encode(map[string]string{
		"url": "http://" + listener.Addr().String(), "token": token, "key": base64.StdEncoding.EncodeToString(public),
	})
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch command, version, _ := strings.Cut(lines.Text(), " "); command {
		case "live":
			live.Store(&version)
			err = assigner.Refresh(ctx)
		case "away":
			d.away.Store(true)
		default:
			err = fmt.Errorf("unknown command %q", command)
		}
		if err != nil {
			return err
		}
		fmt.Println("done")
	}
	return server.Close()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/internal/telemetry"
)

// drain is how long a stopping process may finish what it has begun.
const drain = 15 * time.Second

// serve runs roles and answers for them until ctx is done. The door closes first, so that whoever was let in gets an
// answer; then the roles finish their unit of work.
func serve(ctx context.Context, p *parts, listen string, roles []role) error {
	listener, err := listenOn(listen)
	if err != nil {
		return err
	}
	return serveOn(ctx, p, listener, roles)
}

func listenOn(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another process; say --listen with another port", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return listener, nil
}

func serveOn(ctx context.Context, p *parts, listener net.Listener, roles []role) error {
	server := &http.Server{Handler: routes(p, roles), ReadHeaderTimeout: 10 * time.Second}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, failed := errgroup.WithContext(work)
	for _, r := range roles {
		group.Go(func() error {
			if err := r.run(failed); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			return nil
		})
	}
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		_ = server.Close()
	}
	stop()
	return group.Wait()
}

// routes is the one table of everything that is answered.
func routes(p *parts, roles []role) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", telemetry.MetricsHandler(p.registry))
	health := true
	for _, r := range roles {
		for prefix, handler := range r.handler {
			mux.Handle(prefix, handler)
			health = health && prefix != "/healthz"
		}
	}
	if health {
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
		mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
			if err := p.pool.Ping(r.Context()); err != nil {
				http.Error(w, "Postgres does not answer", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
	return mux
}

func readFile(what, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return b, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"millrace/internal/telemetry"
)

const (
	// drain is how long a stopping process may finish what it has begun.
	drain = 15 * time.Second
	// readyTimeout is how long one look at what a role needs may take.
	readyTimeout = 3 * time.Second
)

// What a connection may take. Bodies are bounded in bytes by whoever reads them; without a bound in time a few slow
// senders would hold the memory of all.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = time.Minute
	writeTimeout  = 15 * time.Minute // from the headers on: a long-poll of the feed waits a minute, and large shards take time
	idleTimeout   = 2 * time.Minute
)

func listenOn(address string) (net.Listener, error) {
	if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
		return nil, usagef("--listen %s: want HOST:PORT, as in 127.0.0.1:8080 (%v)", address, err)
	}
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another process; say --listen with another port", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return listener, nil
}

// door is the process's HTTP server. It answers from the start: what isn't there yet is said to be starting.
type door struct {
	server *http.Server
	inside atomic.Pointer[http.Handler]
	served chan error
}

func openDoor(ctx context.Context, listener net.Listener) *door {
	d := &door{served: make(chan error, 1)}
	d.admit(starting())
	d.server = &http.Server{
		Handler:           bodiesWithin(bodyTimeout, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*d.inside.Load()).ServeHTTP(w, r) })),
		ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	go func() {
		err := d.server.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		d.served <- err
	}()
	return d
}

// bodiesWithin bounds the time in which a request's body must have come. The server's ReadTimeout would also break off
// requests without one that are answered slowly: what waits for news, or is large.
func bodiesWithin(most time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(most)); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (d *door) admit(h http.Handler) { d.inside.Store(&h) }

// close lets nobody in any more, and waits for those who are inside.
func (d *door) close(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := d.server.Shutdown(bounded); err != nil {
		_ = d.server.Close()
	}
}

// work runs roles until ctx is done or one fails. The door closes first, so that whoever was let in gets an answer; then
// the roles finish their unit of work.
func (d *door) work(ctx context.Context, p *parts, roles []role) error {
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
	d.admit(routes(p, roles))
	group.Go(func() error {
		if err := <-d.served; err != nil {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	close(p.stopping)
	d.close(ctx)
	stop()
	return group.Wait()
}

// routes is the one table of everything that is answered.
func routes(p *parts, roles []role) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", telemetry.MetricsHandler(p.registry))
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		for _, one := range roles {
			if err := one.ready(ctx); err != nil {
				notReady(w, fmt.Sprintf("%s: %v", one.name, err))
				return
			}
		}
		answer(w, http.StatusOK, map[string]bool{"ready": true})
	})
	for _, r := range roles {
		for prefix, handler := range r.handler {
			mux.Handle(prefix, handler)
		}
	}
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_http_requests_in_flight", Help: "Requests that are being answered."})
	p.registry.MustRegister(inFlight)
	return promhttp.InstrumentHandlerInFlight(inFlight, mux)
}

// starting is what a process answers before its roles are there.
func starting() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { notReady(w, "starting: waiting for Postgres") })
	return mux
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]bool{"alive": true})
}

func notReady(w http.ResponseWriter, reason string) {
	w.Header().Set("Retry-After", "2")
	answer(w, http.StatusServiceUnavailable, map[string]any{"ready": false, "reason": reason})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) //nolint:errcheck // the client is gone
}

func readFile(what, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return b, nil
}

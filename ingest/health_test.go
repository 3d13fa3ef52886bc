package ingest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/ingest"
	"millrace/internal/eventlog"
)

func TestLogAway(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	refused := errors.New("connection refused")
	b.log.fail = func(m eventlog.Message) error {
		if string(m.Key) == "s2" {
			return refused
		}
		return nil
	}
	elsewhere := strings.Replace(ended("b"), `"s1"`, `"s2"`, 1)
	w, answer := b.send(t, "application/x-ndjson", ended("a")+"\n"+elsewhere)
	require.Equal(t, http.StatusMultiStatus, w.Code, "one partition is away")
	require.Equal(t, "accepted retry", statuses(answer))
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, http.StatusOK, b.do(t, http.MethodGet, "/readyz", nil).Code)

	b.log.fail, b.probe = func(eventlog.Message) error { return refused }, refused
	bad := strings.Replace(ended("c"), "COMPLETED", "BORED", 1)
	for range 3 {
		w, answer = b.send(t, "application/x-ndjson", ended("a")+"\n"+bad+"\n"+`"x"`)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Equal(t, "retry retry rejected", statuses(answer), "an item whose stub isn't durable is not done with")
	}
	require.Equal(t, 2, b.log.writes, "what is known to be away is not tried by every request")
	require.Equal(t, 1, strings.Count(b.logged.String(), "level=ERROR"), "an outage is logged once: %s", b.logged)
	require.Equal(t, http.StatusServiceUnavailable, b.do(t, http.MethodGet, "/readyz", nil).Code)
	require.Equal(t, http.StatusOK, b.do(t, http.MethodGet, "/healthz", nil).Code)
	require.ErrorIs(t, b.gateway.Tick(t.Context()), refused)

	b.log.fail, b.probe = nil, nil
	require.Eventually(t, func() bool { return b.do(t, http.MethodGet, "/readyz", nil).Code == http.StatusOK }, 10*time.Second, 50*time.Millisecond)
	_, answer = b.send(t, "application/x-ndjson", ended("a")+"\n"+bad)
	require.Equal(t, "accepted rejected", statuses(answer))
	require.Contains(t, b.logged.String(), "the log is back")
}

// Whoever asks and goes away, or stops the process, says nothing about the log.
func TestACallerThatGoesAwayIsNoOutage(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	b.gateway.Handler().ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, "/readyz", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.ErrorIs(t, b.gateway.Tick(gone), context.Canceled)
	require.Equal(t, http.StatusOK, b.do(t, http.MethodGet, "/readyz", nil).Code)
	require.Empty(t, b.logged.String())
}

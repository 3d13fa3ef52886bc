package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever sends slowly holds memory; whoever waits for an answer holds none.
func TestSlowBodiesAreBrokenOff(t *testing.T) {
	t.Parallel()
	const most = 50 * time.Millisecond
	read := make(chan error, 1)
	server := httptest.NewServer(bodiesWithin(most, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, err := io.ReadAll(r.Body)
			read <- err
			return
		}
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusInternalServerError)
		case <-time.After(4 * most):
		}
	})))
	defer server.Close()
	slow, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer slow.Close()
	_, err = io.WriteString(slow, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx")
	require.NoError(t, err)
	require.ErrorIs(t, <-read, os.ErrDeadlineExceeded)

	answer, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode, "a long-poll is no slow body")
}

func TestTheDoorIsBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := openDoor(t.Context(), listener)
	defer d.close(t.Context())
	require.Positive(t, d.server.ReadHeaderTimeout)
	require.Positive(t, d.server.IdleTimeout)
	require.Greater(t, d.server.WriteTimeout, 2*time.Minute, "the feed's long-polls wait for one")
	require.Zero(t, d.server.ReadTimeout, "it would break off long-polls")

	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode, "starting")
}

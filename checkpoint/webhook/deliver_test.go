package webhook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/release"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

// endpoint answers what it is told to, and keeps what it was sent.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	answer int
	got    []Message
	ids    []string
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{answer: http.StatusOK}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		again := http.Header{}
		at := r.Header.Get("Webhook-Timestamp")
		var seconds int64
		if json.Unmarshal([]byte(at), &seconds) != nil || sign(again, secret, r.Header.Get("Webhook-Id"), time.Unix(seconds, 0), body) != nil ||
			again.Get("Webhook-Signature") != r.Header.Get("Webhook-Signature") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var m Message
		if json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		e.got, e.ids = append(e.got, m), append(e.ids, r.Header.Get("Webhook-Id"))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(e.answer)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) says(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = status
}

func (e *endpoint) heard() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var types []string
	for _, m := range e.got {
		types = append(types, m.Type+" "+m.Data.Object)
	}
	return types
}

var start = time.Date(2026, 3, 1, 7, 0, 0, 0, time.UTC)

func sender(pool *pgxpool.Pool, endpoints ...Endpoint) *Sender {
	return &Sender{DB: pool, Endpoints: endpoints, Write: func(ctx context.Context, fn func(pgx.Tx) error) error {
		return postgres.InTx(ctx, pool, fn)
	}}
}

func pass(t *testing.T, s *Sender, at time.Time) {
	t.Helper()
	_, err := s.Pass(t.Context(), at)
	require.NoError(t, err)
}

func pause(t *testing.T, pool *pgxpool.Pool, paused bool, at time.Time) {
	t.Helper()
	require.NoError(t, postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		return release.SetPause(t.Context(), tx, release.Pause{Paused: paused, At: at, Who: "eva", Why: "a look"})
	}))
}

// Everything since an endpoint was first seen is delivered once, also by another process; what it doesn't want is not.
func TestEachEntryIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	pool, e := postgrestest.New(t), newEndpoint(t)
	pause(t, pool, true, start.Add(-time.Hour)) // before it was configured
	all := Endpoint{Name: "all", URL: e.URL, Secret: secret}
	pass(t, sender(pool, all), start)
	require.Empty(t, e.heard())
	pause(t, pool, false, start.Add(time.Minute))
	require.NoError(t, postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		return release.Init(t.Context(), tx, "base", "eva", start.Add(2*time.Minute))
	}))
	other := newEndpoint(t)
	for i := range 3 {
		pass(t, sender(pool, all, Endpoint{Name: "releases", URL: other.URL, Secret: secret, Types: []string{"release.*"}}), start.Add(time.Duration(3+i)*time.Minute))
	}
	require.Equal(t, []string{"loop.resumed loop", "release.init base"}, e.heard())
	require.Equal(t, []string{"pause/2", "release/1"}, e.ids)
	require.Equal(t, "eva", e.got[0].Data.Who)
	require.Empty(t, other.heard(), "what happened before it was configured")
	pause(t, pool, true, start.Add(time.Hour))
	pass(t, sender(pool, all), start.Add(time.Hour))
	require.Len(t, e.heard(), 3)
}

// A delivery that fails is tried again after ever longer waits, then given up; it can be asked for again.
func TestAFailedDeliveryIsTriedAgain(t *testing.T) {
	t.Parallel()
	pool, e := postgrestest.New(t), newEndpoint(t)
	s := sender(pool, Endpoint{Name: "a", URL: e.URL, Secret: secret})
	pass(t, s, start)
	e.says(http.StatusFound) // a redirect is not followed
	pause(t, pool, true, start)
	now, tries := start, 0
	for range len(waits) + 3 {
		pass(t, s, now)
		d, err := Deliveries(t.Context(), pool, "a", 10)
		require.NoError(t, err)
		require.Len(t, d, 1)
		tries++
		require.Equal(t, tries, d[0].Attempts)
		require.Equal(t, http.StatusFound, *d[0].Status)
		require.Contains(t, d[0].Error, "302")
		pass(t, s, now.Add(time.Second)) // not due yet
		if d[0].NextAt == nil {
			break
		}
		require.Equal(t, waits[tries-1], d[0].NextAt.Sub(now))
		now = *d[0].NextAt
	}
	require.Equal(t, len(waits)+1, tries)
	require.Len(t, e.heard(), tries)

	e.says(http.StatusNoContent)
	require.NoError(t, postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		there, err := Redeliver(t.Context(), tx, "a", "pause/1", now)
		require.True(t, there)
		if err == nil {
			there, err = Redeliver(t.Context(), tx, "a", "pause/9", now)
			require.False(t, there)
		}
		return err
	}))
	pass(t, s, now)
	d, err := Deliveries(t.Context(), pool, "", 10)
	require.NoError(t, err)
	require.NotNil(t, d[0].DeliveredAt)
	require.Nil(t, d[0].NextAt)
	require.Empty(t, d[0].Error)
}

// An endpoint that isn't there is no error of the pass, and holds up no other.
func TestAnEndpointThatIsAway(t *testing.T) {
	t.Parallel()
	pool, e := postgrestest.New(t), newEndpoint(t)
	away := newEndpoint(t)
	away.Close()
	s := sender(pool, Endpoint{Name: "away", URL: away.URL, Secret: secret}, Endpoint{Name: "here", URL: e.URL, Secret: secret})
	pass(t, s, start)
	pause(t, pool, true, start)
	pass(t, s, start)
	require.Equal(t, []string{"loop.paused loop"}, e.heard())
	d, err := Deliveries(t.Context(), pool, "away", 10)
	require.NoError(t, err)
	require.Contains(t, d[0].Error, "refused")
	require.Nil(t, d[0].Status)
	require.NotNil(t, d[0].NextAt)
}

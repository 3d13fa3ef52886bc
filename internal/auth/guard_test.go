package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// table stands for the database: what it holds, whether it answers, how often it was asked.
type table struct {
	mu    sync.Mutex
	rows  []stored
	away  bool
	asked atomic.Int64
}

func (t *table) load(context.Context) ([]stored, error) {
	t.asked.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away {
		return nil, errors.New("connection refused")
	}
	return append([]stored(nil), t.rows...), nil
}

func (t *table) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

func row(secret string, scopes ...Scope) stored {
	sum := Digest(secret)
	return stored{Token: Token{ID: sum[:12], Name: secret, Scopes: scopes}, sha256: sum}
}

func setup(rows ...stored) (*Guard, *table, *time.Time) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	t := &table{rows: rows}
	return &Guard{load: t.load, now: func() time.Time { return now }, ttl: DefaultTTL}, t, &now
}

func TestGuardKnowsFromMemory(t *testing.T) {
	t.Parallel()
	g, table, now := setup(row("mr_a", EventsWrite))
	for range 100 {
		token, err := g.Check(t.Context(), "mr_a")
		require.NoError(t, err)
		require.Equal(t, "mr_a", token.Name)
	}
	require.EqualValues(t, 1, table.asked.Load(), "no query per request")

	table.change(func() { table.away = true })
	*now = now.Add(time.Hour)
	_, err := g.Check(t.Context(), "mr_a")
	require.NoError(t, err, "the last known good copy serves while the database is away")
	_, err = g.Check(t.Context(), "mr_b")
	require.ErrorIs(t, err, ErrUnknownToken)

	revoked := now.Add(-time.Minute)
	table.change(func() { table.away, table.rows[0].RevokedAt = false, &revoked })
	_, err = g.Check(t.Context(), "mr_a")
	require.NoError(t, err, "believed until the copy is older than its life")
	*now = now.Add(DefaultTTL)
	require.Eventually(t, func() bool {
		_, err := g.Check(t.Context(), "mr_a")
		return errors.Is(err, ErrUnknownToken)
	}, time.Minute, time.Millisecond, "after an outage it is read again in the background")
	table.change(func() { table.rows[0].RevokedAt = nil })
	*now = now.Add(DefaultTTL)
	_, err = g.Check(t.Context(), "mr_a")
	require.NoError(t, err)
	table.change(func() { table.rows[0].RevokedAt = &revoked })
	*now = now.Add(DefaultTTL)
	_, err = g.Check(t.Context(), "mr_a")
	require.ErrorIs(t, err, ErrUnknownToken, "at once, where the database answers")
}

// TestNobodyKnownWaitsForADatabaseThatHangs: once a read has failed, whoever is known is let in while the next one is
// under way.
func TestNobodyKnownWaitsForADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	g, table, now := setup(row("mr_a", EventsWrite))
	_, err := g.Check(t.Context(), "mr_a")
	require.NoError(t, err)
	table.change(func() { table.away = true })
	*now = now.Add(DefaultTTL)
	_, err = g.Check(t.Context(), "mr_a")
	require.NoError(t, err)
	*now = now.Add(DefaultTTL)
	answer, ended := make(chan struct{}), make(chan struct{})
	g.load = func(context.Context) ([]stored, error) {
		defer close(ended)
		<-answer
		return nil, errors.New("deadline exceeded")
	}
	for range 100 {
		_, err = g.Check(t.Context(), "mr_a")
		require.NoError(t, err)
	}
	close(answer)
	<-ended
}

func TestFixedGuard(t *testing.T) {
	t.Parallel()
	g := NewFixedGuard(map[string]Token{"mr_a": {ID: "a", Scopes: []Scope{AssignRead}}})
	token, err := g.Check(t.Context(), "mr_a")
	require.NoError(t, err)
	require.True(t, token.Allows(AssignRead))
	_, err = g.Check(t.Context(), "mr_b")
	require.ErrorIs(t, err, ErrUnknownToken)
}

func TestGuardLooksAgainForAStranger(t *testing.T) {
	t.Parallel()
	g, table, now := setup()
	_, err := g.Check(t.Context(), "mr_new")
	require.ErrorIs(t, err, ErrUnknownToken)
	table.change(func() { table.rows = append(table.rows, row("mr_new", Admin)) })
	for range 50 {
		_, err = g.Check(t.Context(), "mr_new")
		require.ErrorIs(t, err, ErrUnknownToken)
	}
	require.EqualValues(t, 1, table.asked.Load(), "strangers can't hammer the database")
	*now = now.Add(strangerPause)
	_, err = g.Check(t.Context(), "mr_new")
	require.NoError(t, err)
	_, err = g.Check(t.Context(), "not ours")
	require.ErrorIs(t, err, ErrUnknownToken)
	require.EqualValues(t, 2, table.asked.Load())
}

func TestCheckByDigest(t *testing.T) {
	t.Parallel()
	g, table, now := setup(row("mr_a", GatesRead))
	token, err := g.CheckDigest(t.Context(), Digest("mr_a"))
	require.NoError(t, err)
	require.True(t, token.Allows(GatesRead))
	_, err = g.CheckDigest(t.Context(), "mr_a")
	require.ErrorIs(t, err, ErrUnknownToken)
	table.change(func() { table.rows = nil })
	*now = now.Add(DefaultTTL)
	_, err = g.CheckDigest(t.Context(), Digest("mr_a"))
	require.ErrorIs(t, err, ErrUnknownToken)
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	g, table, _ := setup(row("mr_events", EventsWrite), row("mr_admin", Admin))
	handler := g.Middleware(EventsWrite)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := FromContext(r.Context())
		require.True(t, ok)
		_, err := w.Write([]byte(token.Name))
		require.NoError(t, err)
	}))
	shards := g.Middleware(ShardsRead)(handler)
	ask := func(h http.Handler, authorization string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	table.change(func() { table.away = true })
	w := ask(handler, "Bearer mr_events")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	table.change(func() { table.away = false })
	g.strange = time.Time{}

	for name, c := range map[string]struct {
		handler       http.Handler
		authorization string
		status        int
	}{
		"the scope":     {handler, "Bearer mr_events", 200},
		"lower case":    {handler, "bearer mr_events", 200},
		"admin":         {shards, "Bearer mr_admin", 200},
		"none":          {handler, "", 401},
		"basic":         {handler, "Basic mr_events", 401},
		"no scheme":     {handler, "mr_events", 401},
		"unknown":       {handler, "Bearer mr_other", 401},
		"another scope": {shards, "Bearer mr_events", 403},
	} {
		w := ask(c.handler, c.authorization)
		require.Equal(t, c.status, w.Code, name)
		if c.status == 401 {
			require.Contains(t, w.Header().Get("WWW-Authenticate"), "Bearer", name)
		}
		require.NotContains(t, w.Body.String(), "mr_other")
	}
}

func TestGuardIsShared(t *testing.T) {
	t.Parallel()
	g, table, _ := setup(row("mr_a", Admin))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := g.Check(context.Background(), "mr_a")
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.EqualValues(t, 1, table.asked.Load())
}

func TestParseScopes(t *testing.T) {
	t.Parallel()
	scopes, err := ParseScopes([]string{"events:write", "admin", "admin"})
	require.NoError(t, err)
	require.Equal(t, []Scope{EventsWrite, Admin}, scopes)
	_, err = ParseScopes([]string{"events:read"})
	require.ErrorContains(t, err, `unknown scope "events:read"`)
	_, err = ParseScopes(nil)
	require.ErrorContains(t, err, "events:write")
}

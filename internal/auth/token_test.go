package auth_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/internal/auth"
	"millrace/internal/postgres/postgrestest"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	pool, ctx := postgrestest.New(t), t.Context()
	_, err := auth.EnsureFirst(ctx, pool, func(string) error { return errors.New("no space") })
	require.ErrorContains(t, err, "first token: no space")
	kept := ""
	first, err := auth.EnsureFirst(ctx, pool, func(secret string) error { kept = secret; return nil })
	require.NoError(t, err, "what nobody could keep was not made")
	require.Equal(t, first, kept)
	require.Regexp(t, `^mr_[A-Za-z0-9_-]{43}$`, first)
	again, err := auth.EnsureFirst(ctx, pool, nil)
	require.NoError(t, err)
	require.Empty(t, again, "one is made at first start only")

	secret, err := auth.Create(ctx, pool, "ide", []auth.Scope{auth.EventsWrite, auth.AssignRead})
	require.NoError(t, err)
	_, err = auth.Create(ctx, pool, "", []auth.Scope{auth.Admin})
	require.ErrorContains(t, err, "token name")
	_, err = auth.Create(ctx, pool, "x", []auth.Scope{"everything"})
	require.ErrorContains(t, err, "unknown scope")
	_, err = auth.Create(ctx, pool, "x", nil)
	require.ErrorContains(t, err, "at least one scope")

	tokens, err := auth.List(ctx, pool)
	require.NoError(t, err)
	require.Len(t, tokens, 2)
	require.Equal(t, "ide", tokens[1].Name)
	require.Equal(t, []auth.Scope{auth.EventsWrite, auth.AssignRead}, tokens[1].Scopes)
	listed, err := json.Marshal(tokens)
	require.NoError(t, err)
	require.NotContains(t, string(listed), secret)
	var stored string
	require.NoError(t, pool.QueryRow(ctx, `select string_agg(token::text, '') from token`).Scan(&stored))
	require.NotContains(t, stored, strings.TrimPrefix(secret, auth.Prefix), "only hashes are stored")

	guard := auth.NewGuard(pool, time.Hour)
	token, err := guard.Check(ctx, secret)
	require.NoError(t, err)
	require.True(t, token.Allows(auth.AssignRead))
	require.False(t, token.Allows(auth.ShardsRead))

	_, err = auth.Revoke(ctx, pool, "nobody")
	require.ErrorIs(t, err, auth.ErrNoToken)
	revoked, err := auth.Revoke(ctx, pool, "ide")
	require.NoError(t, err)
	require.NotNil(t, revoked.RevokedAt)
	_, err = auth.Revoke(ctx, pool, "ide")
	require.ErrorIs(t, err, auth.ErrNoToken)
	_, err = auth.NewGuard(pool, 0).Check(ctx, secret)
	require.ErrorIs(t, err, auth.ErrUnknownToken)

	for range 2 {
		_, err = auth.Create(ctx, pool, "twin", []auth.Scope{auth.GatesRead})
		require.NoError(t, err)
	}
	_, err = auth.Revoke(ctx, pool, "twin")
	require.ErrorIs(t, err, auth.ErrAmbiguous)
	tokens, err = auth.List(ctx, pool)
	require.NoError(t, err)
	_, err = auth.Revoke(ctx, pool, tokens[3].ID)
	require.NoError(t, err)
	_, err = auth.Revoke(ctx, pool, "twin")
	require.NoError(t, err)
}

func TestFirstTokenIsMadeOnce(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	var mu sync.Mutex
	var made []string
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			secret, err := auth.EnsureFirst(t.Context(), pool, nil)
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			if secret != "" {
				made = append(made, secret)
			}
		})
	}
	all.Wait()
	require.Len(t, made, 1)
}

func TestTokenAPI(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	admin, err := auth.EnsureFirst(t.Context(), pool, nil)
	require.NoError(t, err)
	guard := auth.NewGuard(pool, 0)
	do := func(secret, method, path, body string) (int, map[string]any) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		auth.Handler(pool, guard).ServeHTTP(w, r)
		var answer map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
		return w.Code, answer
	}
	status, created := do(admin, http.MethodPost, "/v1/tokens", `{"name":"trainer","scopes":["shards:read"]}`)
	require.Equal(t, http.StatusCreated, status)
	for _, bad := range []string{``, `{"name":"x"}`, `{"scopes":["admin"]}`, `{"name":"x","scopes":["root"]}`, `{"name":"x\u0000","scopes":["admin"]}`} {
		status, _ = do(admin, http.MethodPost, "/v1/tokens", bad)
		require.Equal(t, http.StatusBadRequest, status, bad)
	}
	status, listed := do(admin, http.MethodGet, "/v1/tokens", "")
	require.Equal(t, http.StatusOK, status)
	require.Len(t, listed["tokens"], 2)
	status, _ = do(admin, http.MethodDelete, "/v1/tokens/trainer", "")
	require.Equal(t, http.StatusOK, status)
	status, _ = do(admin, http.MethodDelete, "/v1/tokens/trainer", "")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = do(created["token"].(string), http.MethodGet, "/v1/tokens", "")
	require.Equal(t, http.StatusUnauthorized, status)
	secret, err := auth.Create(t.Context(), pool, "ide", []auth.Scope{auth.EventsWrite})
	require.NoError(t, err)
	status, _ = do(secret, http.MethodGet, "/v1/tokens", "")
	require.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, status, "not without the scope admin")
}

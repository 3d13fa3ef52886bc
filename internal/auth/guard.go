package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// DefaultTTL is how long a guard believes what it read: a revoked token may work that long.
	DefaultTTL = 5 * time.Second
	// A stranger's token makes the guard look again, but not more often than this.
	strangerPause = time.Second
	loadTimeout   = time.Second
)

// ErrUnknownToken: there is no such live token. ErrUnavailable: the tokens could never be read so far.
var (
	ErrUnknownToken = errors.New("unknown or revoked token")
	ErrUnavailable  = errors.New("tokens can't be checked: the database is away")
)

// Guard checks tokens against a copy of the table in memory, so that a request costs no query, and goes on with the
// last known good copy while the database is away.
type Guard struct {
	load func(context.Context) ([]stored, error)
	now  func() time.Time
	ttl  time.Duration

	mu       sync.Mutex
	live     map[string]stored // by the secret's digest; nil: never read so far
	tried    time.Time         // when it was last read, or tried
	failed   bool              // it couldn't be read then
	strange  time.Time         // when it was last read because of a stranger
	inFlight chan struct{}     // closed when the read under way is done
}

// NewGuard guards by the table in the pool's database. A ttl of 0 is DefaultTTL.
func NewGuard(pool *pgxpool.Pool, ttl time.Duration) *Guard {
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	return &Guard{
		load: func(ctx context.Context) ([]stored, error) { return load(ctx, pool) },
		now:  time.Now,
		ttl:  ttl,
	}
}

// NewFixedGuard guards by tokens that are given by their secrets, in a process without a database.
func NewFixedGuard(tokens map[string]Token) *Guard {
	all := make([]stored, 0, len(tokens))
	for secret, token := range tokens {
		all = append(all, stored{token, Digest(secret)})
	}
	return &Guard{load: func(context.Context) ([]stored, error) { return all, nil }, now: time.Now, ttl: DefaultTTL}
}

// Check finds the token of a secret: ErrUnknownToken or ErrUnavailable if it can't.
func (g *Guard) Check(ctx context.Context, secret string) (Token, error) {
	if !strings.HasPrefix(secret, Prefix) {
		return Token{}, ErrUnknownToken
	}
	return g.CheckDigest(ctx, Digest(secret))
}

// CheckDigest is Check for whoever keeps a secret's digest instead of the secret, to ask again later.
func (g *Guard) CheckDigest(ctx context.Context, sum string) (Token, error) {
	token, known, fresh, away := g.find(sum)
	switch {
	case known && !fresh && away:
		// Whoever is known doesn't wait for a database that didn't answer the last time.
		g.refresh(ctx, false, false)
	case !known || !fresh:
		g.refresh(ctx, !known, true)
		token, known, _, _ = g.find(sum)
	}
	if !known {
		return Token{}, g.absent()
	}
	return token, nil
}

func (g *Guard) absent() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live == nil {
		return ErrUnavailable
	}
	return ErrUnknownToken
}

func (g *Guard) find(sum string) (token Token, known, fresh, away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.live[sum]
	// The map compares digests, which tell nothing of the secret; compared once more in constant time all the same.
	known = ok && subtle.ConstantTimeCompare([]byte(s.sha256), []byte(sum)) == 1
	return s.Token, known, g.now().Sub(g.tried) < g.ttl, g.failed
}

// refresh reads the table, once for all who ask at the same time; it is bounded how often strangers may cause that.
// When it can't be read, what was read before stays.
func (g *Guard) refresh(ctx context.Context, stranger, wait bool) {
	g.mu.Lock()
	if reading := g.inFlight; reading != nil {
		g.mu.Unlock()
		if wait {
			select {
			case <-reading:
			case <-ctx.Done():
			}
		}
		return
	}
	now := g.now()
	if stranger {
		if now.Sub(g.strange) < strangerPause {
			g.mu.Unlock()
			return
		}
		g.strange = now
	}
	g.tried = now
	done := make(chan struct{})
	g.inFlight = done
	g.mu.Unlock()

	// Not the caller's context: others wait for this result too.
	ctx = context.WithoutCancel(ctx)
	if wait {
		g.read(ctx, done)
	} else {
		go g.read(ctx, done)
	}
}

func (g *Guard) read(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	all, err := g.load(ctx)

	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = err != nil
	if err == nil {
		g.live = make(map[string]stored, len(all))
		for _, s := range all {
			if s.RevokedAt == nil {
				g.live[s.sha256] = s
			}
		}
	}
	g.inFlight = nil
	close(done)
}

type contextKey struct{}

// FromContext is the token with which the request was let in.
func FromContext(ctx context.Context) (Token, bool) {
	t, ok := ctx.Value(contextKey{}).(Token)
	return t, ok
}

// Middleware lets requests through whose bearer token has the scope. The others are answered 401 (no or unknown
// token), 403 (the scope is missing) or 503 (tokens can't be checked), as JSON.
func (g *Guard) Middleware(scope Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			secret, ok := bearer(r)
			if !ok {
				w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`)
				refuse(w, http.StatusUnauthorized, "unauthenticated", "send the header \"Authorization: Bearer mr_…\"; `millrace token create` makes a token")
				return
			}
			token, err := g.Check(r.Context(), secret)
			switch {
			case errors.Is(err, ErrUnavailable):
				w.Header().Set("Retry-After", "2")
				refuse(w, http.StatusServiceUnavailable, "unavailable", ErrUnavailable.Error())
			case err != nil:
				w.Header().Set("WWW-Authenticate", `Bearer realm="millrace", error="invalid_token"`)
				refuse(w, http.StatusUnauthorized, "unauthenticated", ErrUnknownToken.Error())
			case !token.Allows(scope):
				refuse(w, http.StatusForbidden, "forbidden", "token "+token.ID+" lacks the scope "+string(scope))
			default:
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, token)))
			}
		})
	}
}

func bearer(r *http.Request) (string, bool) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret), ok && strings.EqualFold(scheme, "Bearer")
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]string{"error": code, "message": message})
}

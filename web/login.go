package web

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	cookieName  = "millrace"
	loginLasts  = 12 * time.Hour
	mostLogins  = 1000
	longestForm = 4096 // bytes
)

// login is a browser that has shown a token.
type login struct {
	digest string // of the token
	until  time.Time
}

// logins are known by their cookies: random names, never the token itself.
type logins struct {
	mu sync.Mutex
	of map[string]login
}

func (l *logins) add(digest string, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, one := range l.of {
		if now.After(one.until) || len(l.of) >= mostLogins {
			delete(l.of, name)
		}
	}
	name := rand.Text()
	l.of[name] = login{digest, now.Add(loginLasts)}
	return name
}

// find is the digest of the token that the browser has shown.
func (l *logins) find(name string, now time.Time) (digest string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.of[name]
	return one.digest, ok && now.Before(one.until)
}

// may says whether the request comes with a valid token, or from a browser that has shown one which is valid still.
func (p *Page) may(r *http.Request) bool {
	if p.cfg.Admit == nil {
		return true
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		_, ok = p.cfg.Admit(r.Context(), token)
		return ok
	}
	c, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	digest, ok := p.logins.find(c.Value, time.Now())
	return ok && p.cfg.Holds(r.Context(), digest)
}

func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, longestForm)
	token := strings.TrimSpace(r.PostFormValue("token"))
	digest := ""
	if p.cfg.Admit != nil {
		var ok bool
		if digest, ok = p.cfg.Admit(r.Context(), token); !ok {
			render(w, http.StatusUnauthorized, "login.html", "This token is not known, or may not read.")
			return
		}
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever there is TLS; on the loopback there is none
		Name: cookieName, Value: p.logins.add(digest, time.Now()), Path: "/", MaxAge: int(loginLasts.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

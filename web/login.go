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

// logins are the browsers that have shown a token. The cookie is a random name, never the token itself.
type logins struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (l *logins) add(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, until := range l.until {
		if now.After(until) || len(l.until) >= mostLogins {
			delete(l.until, name)
		}
	}
	name := rand.Text()
	l.until[name] = now.Add(loginLasts)
	return name
}

func (l *logins) has(name string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.until[name]
	return ok && now.Before(until)
}

// may says whether the request comes with a valid token, or from a browser that has shown one.
func (p *Page) may(r *http.Request) bool {
	if p.cfg.Check == nil {
		return true
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return p.cfg.Check(r.Context(), token)
	}
	c, err := r.Cookie(cookieName)
	return err == nil && p.logins.has(c.Value, time.Now())
}

func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, longestForm)
	token := strings.TrimSpace(r.PostFormValue("token"))
	if p.cfg.Check != nil && !p.cfg.Check(r.Context(), token) {
		render(w, http.StatusUnauthorized, "login.html", "This token is not known, or may not read.")
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever there is TLS; on the loopback there is none
		Name: cookieName, Value: p.logins.add(time.Now()), Path: "/", MaxAge: int(loginLasts.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

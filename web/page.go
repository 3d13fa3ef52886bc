package web

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"time"
)

//go:embed assets
var assets embed.FS

var pages = template.Must(template.New("").Funcs(words).ParseFS(assets, "assets/*.html"))

// Config is what the page needs.
type Config struct {
	// Status gathers the facts. It is called for every view, so it must be quick; the caller may cache.
	Status func(context.Context) (Status, error)
	// Admit says whether a token may read, and by which digest Holds knows it again. Without it everybody who reaches the
	// page may.
	Admit func(ctx context.Context, token string) (digest string, ok bool)
	// Holds says whether the token of the digest still may read: it is asked for every view. It comes with Admit.
	Holds func(ctx context.Context, digest string) bool
	// Timeout bounds one view; 5 s by default.
	Timeout time.Duration
}

// Page serves the page and its JSON.
type Page struct {
	cfg    Config
	logins logins
}

// New makes the page.
func New(cfg Config) (*Page, error) {
	if cfg.Status == nil {
		return nil, errors.New("web: Status is missing; give the function that gathers the facts")
	}
	if (cfg.Admit == nil) != (cfg.Holds == nil) {
		return nil, errors.New("web: Admit and Holds come together; give both, or neither for a page that everybody may read")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	return &Page{cfg: cfg, logins: logins{of: map[string]login{}}}, nil
}

// Handler serves GET / (the page), GET /v1/status (the same as JSON), POST /login and the page's two assets.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.show)
	mux.HandleFunc("GET /v1/status", p.status)
	mux.HandleFunc("POST /login", p.login)
	mux.Handle("GET /assets/page.css", http.FileServerFS(assets))
	mux.Handle("GET /assets/page.js", http.FileServerFS(assets))
	return strict(mux)
}

// strict sets the headers that keep anything foreign out.
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (p *Page) show(w http.ResponseWriter, r *http.Request) {
	if !p.may(r) {
		render(w, http.StatusUnauthorized, "login.html", "")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.cfg.Timeout)
	defer cancel()
	s, err := p.cfg.Status(ctx)
	if err != nil {
		render(w, http.StatusServiceUnavailable, "away.html", err.Error())
		return
	}
	render(w, http.StatusOK, "page.html", s)
}

func (p *Page) status(w http.ResponseWriter, r *http.Request) {
	if !p.may(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		answer(w, http.StatusUnauthorized, map[string]string{"error": "a token is needed: send it as Authorization: Bearer …"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.cfg.Timeout)
	defer cancel()
	s, err := p.cfg.Status(ctx)
	if err != nil {
		answer(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
		return
	}
	answer(w, http.StatusOK, s.withEmptyLists())
}

func answer(w http.ResponseWriter, code int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(raw, '\n')) // a reader that has gone away needs no answer
}

// render writes a page in one piece, so that a failing template never leaves half of one.
func render(w http.ResponseWriter, code int, page string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, page, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}

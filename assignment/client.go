package assignment

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config says where a client's rulesets come from. The zero value of a field is its default, where it has one.
type Config struct {
	URL   string              // of Millrace, as in https://millrace.example.com
	Token string              // with the scope assign:read
	Keys  []ed25519.PublicKey // whose rulesets are trusted; several while a key is being changed
	Every time.Duration       // how often Run asks. Default 10 s; it is also how late a rollback is heard of
	HTTP  *http.Client        // default: one with a timeout of 5 s
	Clock func() time.Time    // default: the system's
}

// Validate checks the configuration.
func (c Config) Validate() error {
	switch {
	case !strings.HasPrefix(c.URL, "http://") && !strings.HasPrefix(c.URL, "https://"):
		return fmt.Errorf("assignment: URL %q, want http://… or https://…", c.URL)
	case len(c.Keys) == 0:
		return errors.New("assignment: no key to trust; `millrace assignment key` prints it")
	case c.Every < 0:
		return fmt.Errorf("assignment: every %s, want > 0", c.Every)
	}
	for _, key := range c.Keys {
		if len(key) != ed25519.PublicKeySize {
			return fmt.Errorf("assignment: a key of %d bytes, want %d", len(key), ed25519.PublicKeySize)
		}
	}
	return nil
}

// Client evaluates in memory, with a ruleset that it fetches again and again. It is safe for concurrent use.
type Client struct {
	cfg Config

	mu      sync.RWMutex
	rules   *Ruleset // nil: none that could be trusted so far
	tag     string   // its ETag
	trouble error    // of the last Refresh
}

// New makes a client; it knows nothing until Refresh or Run.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Timeout: 5 * time.Second}
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.URL = strings.TrimRight(cfg.URL, "/")
	return &Client{cfg: cfg}, nil
}

// Refresh fetches the ruleset once. When it can't, or can't trust what it got, the one before stays in use until its end,
// and Assign's error says why there is none after it.
func (c *Client) Refresh(ctx context.Context) error {
	c.mu.RLock()
	tag := c.tag
	c.mu.RUnlock()
	rules, tag, err := c.fetch(ctx, tag)
	if err == nil && rules != nil && !c.cfg.Clock().Before(rules.ValidUntil) {
		err = fmt.Errorf("%w on arrival: it was valid until %s; compare the clocks", ErrExpired, rules.ValidUntil.Format(time.RFC3339))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.trouble = fmt.Errorf("fetch the ruleset of %s: %w", c.cfg.URL, err)
		return c.trouble
	}
	c.trouble = nil
	if rules != nil {
		c.rules, c.tag = rules, tag
	}
	return nil
}

// fetch gives nil if the ruleset is still the one with the tag.
func (c *Client) fetch(ctx context.Context, tag string) (*Ruleset, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.URL+"/v1/ruleset", nil)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	response, err := c.cfg.HTTP.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, "", err
	case response.StatusCode == http.StatusNotModified && tag != "":
		return nil, tag, nil
	case response.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("answered %s: %.200s", response.Status, body)
	}
	rules, err := Verify(body, c.cfg.Keys...)
	return rules, response.Header.Get("ETag"), err
}

// Run refreshes at once and then again and again, until ctx ends; report, which may be nil, hears every error.
func (c *Client) Run(ctx context.Context, report func(error)) {
	ticker := time.NewTicker(c.cfg.Every)
	defer ticker.Stop()
	for {
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil && report != nil {
			report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Assign says which checkpoint serves the unit. With an error (ErrNoRuleset, ErrExpired, ErrNoUnit, and why there is no
// newer one: ErrSignature, …) it is the caller's fallback, outside any experiment.
func (c *Client) Assign(q Query, fallback string) (Assignment, error) {
	c.mu.RLock()
	rules, trouble := c.rules, c.trouble
	c.mu.RUnlock()
	err := ErrNoRuleset
	if rules != nil {
		var a Assignment
		if a, err = rules.Assign(q, c.cfg.Clock()); err == nil {
			return a, nil
		}
	}
	if trouble != nil && !errors.Is(err, ErrNoUnit) {
		err = fmt.Errorf("%w: %w", err, trouble)
	}
	return Assignment{Version: fallback, Variant: VariantDefault}, err
}

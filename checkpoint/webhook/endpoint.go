package webhook

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Kind is what a document of webhooks calls itself.
const Kind = "Webhooks"

// Endpoint is where entries go.
type Endpoint struct {
	Name   string   `yaml:"name"`
	URL    string   `yaml:"url"`
	Secret string   `yaml:"-"`     // of the signature; whsec_ and base64 of 24 to 64 bytes
	Types  []string `yaml:"types"` // release.promote, candidate.*, …; none: all

	SecretEnv  string `yaml:"secret_env"`  // the environment variable that holds the secret, or
	SecretFile string `yaml:"secret_file"` // the file
}

// prefix of a secret, as Standard Webhooks writes it.
const prefix = "whsec_"

var nameShape = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Parse reads a document of webhooks (YAML), strictly. env looks up environment variables.
func Parse(data []byte, env func(string) string) ([]Endpoint, error) {
	var doc struct {
		APIVersion string     `yaml:"apiVersion"`
		Kind       string     `yaml:"kind"`
		Webhooks   []Endpoint `yaml:"webhooks"`
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the document is empty")
		}
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	if doc.APIVersion != "millrace/v1" || doc.Kind != Kind {
		return nil, fmt.Errorf("webhooks: apiVersion %q, kind %q; want millrace/v1 and %s", doc.APIVersion, doc.Kind, Kind)
	}
	seen := map[string]bool{}
	for i := range doc.Webhooks {
		e := &doc.Webhooks[i]
		if !nameShape.MatchString(e.Name) || seen[e.Name] {
			return nil, fmt.Errorf("webhooks: webhook %d: name %q: small letters, digits, '_' and '-', and none twice", i+1, e.Name)
		}
		seen[e.Name] = true
		if err := e.check(env); err != nil {
			return nil, fmt.Errorf("webhooks: %s: %w", e.Name, err)
		}
	}
	return doc.Webhooks, nil
}

func (e *Endpoint) check(env func(string) string) error {
	u, err := url.Parse(e.URL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		return fmt.Errorf("url %q: want https://host/path, without a password in it", e.URL)
	}
	switch {
	case (e.SecretEnv == "") == (e.SecretFile == ""):
		return errors.New("give either secret_env or secret_file: what is signed with it can be told from what others send")
	case e.SecretEnv != "":
		if e.Secret = env(e.SecretEnv); e.Secret == "" {
			return fmt.Errorf("the environment variable %s is not set", e.SecretEnv)
		}
	default:
		text, err := os.ReadFile(e.SecretFile)
		if err != nil {
			return fmt.Errorf("secret: %w", err)
		}
		e.Secret = strings.TrimSpace(string(text))
	}
	if _, err := key(e.Secret); err != nil {
		return err
	}
	for _, t := range e.Types {
		if group, _, dot := strings.Cut(t, "."); !dot || !groups[group] {
			return fmt.Errorf("type %q: want candidate.…, release.…, cut.…, config.…, loop.… or evals.…, or one of these with *", t)
		}
	}
	return nil
}

var groups = map[string]bool{"candidate": true, "release": true, "cut": true, "config": true, "loop": true, "evals": true}

// key is the bytes that a secret stands for.
func key(secret string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, prefix))
	if err != nil || len(b) < 24 || len(b) > 64 || !strings.HasPrefix(secret, prefix) {
		return nil, errors.New("the secret is " + prefix + " and base64 of 24 to 64 random bytes: echo " + prefix + "$(openssl rand -base64 32)")
	}
	return b, nil
}

// wants says whether the endpoint is told of entries of that type.
func (e *Endpoint) wants(kind string) bool {
	if len(e.Types) == 0 {
		return true
	}
	for _, t := range e.Types {
		if t == kind || strings.HasSuffix(t, ".*") && strings.HasPrefix(kind, strings.TrimSuffix(t, "*")) {
			return true
		}
	}
	return false
}

package assignment

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Signed is the document that GET /v1/ruleset gives. The ruleset is a text within it, so that what was signed is these very
// bytes, whatever a JSON library would make of them.
type Signed struct {
	Ruleset   string `json:"ruleset"`   // a Ruleset as JSON
	Signature string `json:"signature"` // base64 of Ed25519 over Format, a newline, and the ruleset's bytes
	KeyID     string `json:"key_id"`    // names the key for people; a reader tries all that it trusts
}

// maxDocument bounds a document, in bytes.
const maxDocument = 1 << 20

// Sign makes the document of a ruleset; Format and HashVersion are filled in. Errors are Validate's.
func Sign(r Ruleset, key ed25519.PrivateKey) ([]byte, error) {
	r.Format, r.HashVersion = Format, HashVersion
	if r.Kept == nil {
		r.Kept = []string{}
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the ruleset: %w", err)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return json.Marshal(Signed{
		Ruleset:   string(body),
		Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(key, signedBytes(string(body)))),
		KeyID:     KeyID(public),
	})
}

func signedBytes(ruleset string) []byte { return []byte(Format + "\n" + ruleset) }

// KeyID is a key's short name: the first 16 hex digits of its SHA-256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// ParseKey reads a public key as `millrace assignment key` prints it: base64 of its 32 bytes.
func ParseKey(text string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no public key: want base64 of 32 bytes, as `millrace assignment key` prints it", text)
	}
	return b, nil
}

// Verify reads a document that one of the keys has signed: ErrMalformed, ErrSignature or ErrUnsupported. Whether it has
// expired, Assign says.
func Verify(document []byte, keys ...ed25519.PublicKey) (*Ruleset, error) {
	if len(document) > maxDocument {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrMalformed, len(document), maxDocument)
	}
	var s Signed
	if err := json.Unmarshal(document, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	signature, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil || !signedByAny(keys, s.Ruleset, signature) {
		return nil, fmt.Errorf("%w: it names key %s", ErrSignature, s.KeyID)
	}
	var version struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal([]byte(s.Ruleset), &version); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if version.Format != Format {
		return nil, fmt.Errorf("%w: format %q; this reads %q", ErrUnsupported, version.Format, Format)
	}
	r := &Ruleset{}
	if err := json.Unmarshal([]byte(s.Ruleset), r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return r, r.Validate()
}

func signedByAny(keys []ed25519.PublicKey, ruleset string, signature []byte) bool {
	message := signedBytes(ruleset)
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, signature) {
			return true
		}
	}
	return false
}

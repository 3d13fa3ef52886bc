package ingest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"time"

	"millrace/assignment"
)

// signedRuleset is the document that backends evaluate by themselves, as it was signed last.
type signedRuleset struct {
	of   *assignment.Ruleset
	at   time.Time
	body []byte
	tag  string
}

// document signs the ruleset anew when it has changed, or a quarter of the old document's time has passed: in between,
// its ETag stays, and what backends hold is good for three quarters of the time at least. The last ruleset is signed
// however old it is, as it is answered by OFREP: a gateway that can't read a newer one doesn't know of any.
func (a *Assigner) document() (body []byte, tag string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rules == nil {
		return nil, "", errNothingRead
	}
	now := a.clock().UTC()
	if s := &a.signed; s.of != a.rules || now.Sub(s.at) >= a.cfg.ValidFor/4 || now.Before(s.at) {
		issued := *a.rules
		issued.IssuedAt = now.Truncate(time.Second)
		issued.ValidUntil = issued.IssuedAt.Add(a.cfg.ValidFor)
		body, err := assignment.Sign(issued, a.cfg.Key)
		if err != nil {
			return nil, "", err
		}
		a.signed = signedRuleset{of: a.rules, at: now, body: body, tag: tagOf(body)}
	}
	return a.signed.body, a.signed.tag, nil
}

// tagOf is a document's ETag.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// ruleset is GET /v1/ruleset.
func (a *Assigner) ruleset(w http.ResponseWriter, r *http.Request) {
	body, tag, err := a.document()
	if err != nil {
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "no_ruleset", "message": err.Error()})
		return
	}
	writeTagged(w, r, body, tag)
}

// rulesetKey is GET /v1/ruleset/key.
func (a *Assigner) rulesetKey(w http.ResponseWriter, _ *http.Request) {
	key, _ := a.cfg.Key.Public().(ed25519.PublicKey)
	writeJSON(w, http.StatusOK, map[string]string{
		"key_id": assignment.KeyID(key), "public_key": base64.StdEncoding.EncodeToString(key), "algorithm": "ed25519",
	})
}

// writeTagged answers with a JSON document, or 304 to whoever has it already.
func writeTagged(w http.ResponseWriter, r *http.Request, body []byte, tag string) {
	header := w.Header()
	header["Etag"], header["Cache-Control"] = []string{tag}, noCache
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header["Content-Type"] = contentJSON
	_, _ = w.Write(body) // or the client is gone
}

package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// sign sets the headers of Standard Webhooks (https://www.standardwebhooks.com): the signature is HMAC-SHA256 over id, time and body.
func sign(h http.Header, secret, id string, at time.Time, body []byte) error {
	k, err := key(secret)
	if err != nil {
		return err
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, k)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", stamp)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

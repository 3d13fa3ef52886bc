package ingest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"millrace/ingest"
)

func TestUnreadableEnvelopes(t *testing.T) {
	t.Parallel()
	limits := ingest.Limits{BodyBytes: 2000, DecompressedBytes: 3000, Items: 3, ItemBytes: 1000}
	bomb := func(size int) string {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, err := z.Write(bytes.Repeat([]byte(" "), size))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return out.String()
	}
	for name, c := range map[string]struct {
		contentType, encoding, body string
		status                      int
		code                        string
	}{
		"nothing":           {"application/json", "", ``, 400, "unreadable_envelope"},
		"cut":               {"application/json", "", `[{"source":`, 400, "unreadable_envelope"},
		"form of curl":      {"application/x-www-form-urlencoded", "", `{}`, 415, "unsupported_media_type"},
		"no content type":   {"", "", `{}`, 415, "unsupported_media_type"},
		"brotli":            {"application/json", "br", `{}`, 415, "unsupported_encoding"},
		"not gzip":          {"application/json", "gzip", `{}`, 400, "unreadable_envelope"},
		"not zstd":          {"application/json", "zstd", `{}`, 400, "unreadable_envelope"},
		"not a batch":       {"application/x-protobuf", "", `{}`, 400, "unreadable_envelope"},
		"batch cut short":   {"application/x-protobuf", "", "\x0a\x7fx", 400, "unreadable_envelope"},
		"large":             {"application/json", "", `["` + strings.Repeat("x", 2000) + `"]`, 413, "body_too_large"},
		"bomb":              {"application/json", "gzip", bomb(1 << 20), 413, "body_too_large"},
		"many":              {"application/json", "", `[1,2,3,4]`, 413, "too_many_items"},
		"many lines":        {"application/x-ndjson", "", "1\n2\n3\n4", 413, "too_many_items"},
		"many in protobuf":  {"application/x-protobuf", "", strings.Repeat("\x0a\x00", 4), 413, "too_many_items"},
		"just not too many": {"application/json", "", `[1,2,3]`, 207, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, ingest.Config{Limits: limits})
			w := b.do(t, http.MethodPost, "/v1/events", []byte(c.body), "Content-Type", c.contentType, "Content-Encoding", c.encoding)
			require.Equal(t, c.status, w.Code, w.Body.String())
			var answer struct {
				Error, Message string
				Limits         *ingest.Limits
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			require.Equal(t, c.code, answer.Error)
			require.Equal(t, c.status == 413, answer.Limits != nil)
			require.Empty(t, b.log.messages)
		})
	}
}

// slowBody is what a server's read deadline leaves of a body.
type slowBody struct{}

func (slowBody) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestABodyThatIsTooSlowMayComeAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	r := httptest.NewRequest(http.MethodPost, "/v1/events", slowBody{})
	r.Header.Set("Authorization", "Bearer mr_x")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.gateway.Handler().ServeHTTP(w, r)
	require.Equal(t, http.StatusRequestTimeout, w.Code)
	require.Contains(t, w.Body.String(), "body_too_slow")
}

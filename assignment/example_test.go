package assignment_test

import (
	"context"
	"crypto/ed25519"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/assignment"
)

// ask is the manual's example.
func ask(ctx context.Context, url, token string, key ed25519.PublicKey) (assignment.Assignment, error) {
	client, err := assignment.New(assignment.Config{URL: url, Token: token, Keys: []ed25519.PublicKey{key}})
	if err != nil {
		return assignment.Assignment{}, err
	}
	if err := client.Refresh(ctx); err != nil {
		log.Println(err)
	}
	go client.Run(ctx, func(err error) { log.Println(err) })
	a, err := client.Assign(assignment.Query{Unit: "user-17"}, "base-2026-03") // a.Version; err says why it is the fallback
	return a, err
}

func TestTheExampleOfTheManual(t *testing.T) {
	t.Parallel()
	private := ed25519.NewKeyFromSeed([]byte("the key of the manual's example!"))
	public, ok := private.Public().(ed25519.PublicKey)
	require.True(t, ok)
	now := time.Now().UTC()
	document, err := assignment.Sign(assignment.Ruleset{Live: "cand-4", IssuedAt: now, ValidUntil: now.Add(time.Hour)}, private)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(document) }))
	defer server.Close()
	a, err := ask(t.Context(), server.URL, "mr_x", public)
	require.NoError(t, err)
	require.Equal(t, assignment.Assignment{Version: "cand-4", Variant: assignment.VariantLive}, a)

	// The manual shows these very lines.
	manual, err := os.ReadFile("../docs/assignment.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(manual), -1)
	require.Len(t, examples, 1)
	for line := range strings.Lines(examples[0][1]) {
		line = strings.ReplaceAll(strings.TrimSpace(line), `"https://millrace.example.com", Token`, "url, Token")
		require.Contains(t, string(source), line, "docs/assignment.md shows %q", line)
	}
}

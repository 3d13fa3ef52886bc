package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/internal/arrowfile"
	"millrace/internal/postgres"
	"millrace/schemas/manifest"
)

type client struct {
	*testing.T
	url string
}

func (b *bundle) serve() client {
	server := httptest.NewServer(b.feed.Handler())
	b.t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return client{b.t, server.URL}
}

func (c client) do(method, path string, header ...string) (*http.Response, []byte) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), method, c.url+path, nil)
	require.NoError(c, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(c, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(c, err)
	return answer, body
}

func (c client) shards(path string) Shards {
	c.Helper()
	answer, body := c.do("GET", path)
	require.Equal(c, 200, answer.StatusCode, string(body))
	var s Shards
	require.NoError(c, json.Unmarshal(body, &s))
	return s
}

func TestAPIOfManifests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.serve()
	answer, body := c.do("GET", "/v1/policies")
	require.Equal(t, 200, answer.StatusCode)
	require.JSONEq(t, `{"policies":[]}`, string(body))
	for i := range int64(3) {
		b.commit(0, 10*i, 10*i+9, start.Add(time.Duration(i)*time.Minute), "a/b ü")
	}
	require.NoError(t, b.feed.round(b.ctx, b.term))

	var p Policies
	_, body = c.do("GET", "/v1/policies")
	require.NoError(t, json.Unmarshal(body, &p))
	require.Len(t, p.Policies, 1)
	require.Equal(t, "a/b ü", p.Policies[0].PolicyVersion)
	require.EqualValues(t, 3, p.Policies[0].Shards)
	require.Equal(t, start.Add(2*time.Minute), p.Policies[0].LogTime)

	const path = "/v1/policies/a%2Fb%20%C3%BC/shards"
	s := c.shards(path)
	require.Len(t, s.Shards, 3)
	require.EqualValues(t, 3, s.Next)
	s = c.shards(path + "?after=1&limit=1")
	require.Len(t, s.Shards, 1)
	require.EqualValues(t, 2, s.Next)
	s = c.shards(path + "?after=3")
	require.Empty(t, s.Shards)
	require.EqualValues(t, 3, s.Next)
	require.Empty(t, c.shards("/v1/policies/unknown/shards").Shards, "one may follow a policy before its first shard")

	for _, bad := range []string{"?after=-1", "?after=x", "?limit=0", "?wait=30", "?wait=-1s"} {
		answer, body := c.do("GET", path+bad)
		require.Equal(t, 400, answer.StatusCode)
		require.Contains(t, string(body), "bad_request")
	}
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, postgres.Resign(b.ctx, b.pool, publisher, b.term))
	c := b.serve()
	ctx, stop := context.WithCancel(b.ctx)
	ended := make(chan error)
	go func() { ended <- b.feed.Run(ctx) }()
	got := make(chan Shards)
	begin := time.Now()
	go func() { got <- c.shards("/v1/policies/base/shards?wait=1m") }()
	b.commit(0, 0, 9, start, "base")
	s := <-got
	require.Len(t, s.Shards, 1)
	require.Less(t, time.Since(begin), 50*time.Second)
	require.Empty(t, c.shards("/v1/policies/base/shards?after=1&wait=50ms").Shards)
	stop()
	require.NoError(t, <-ended)
}

func TestAPIOfShards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.serve()
	b.commit(0, 0, 9, start, "base")
	require.NoError(t, b.feed.round(b.ctx, b.term))
	m := c.shards("/v1/policies/base/shards").Shards[0]
	path := "/v1/shards/" + m.ID

	answer, whole := c.do("GET", path)
	require.Equal(t, 200, answer.StatusCode)
	require.Equal(t, m.SHA256, arrowfile.SHA256(whole))
	require.Equal(t, `"`+m.SHA256+`"`, answer.Header.Get("ETag"))
	require.Equal(t, "bytes", answer.Header.Get("Accept-Ranges"))
	require.Equal(t, m.Bytes, answer.ContentLength)
	require.NotEmpty(t, answer.Header.Get("Repr-Digest"))
	etag := answer.Header.Get("ETag")

	answer, body := c.do("HEAD", path)
	require.Equal(t, 200, answer.StatusCode)
	require.Equal(t, m.Bytes, answer.ContentLength)
	require.Empty(t, body)

	for _, r := range []struct {
		name, bytes, ifRange string
		status               int
		want                 []byte
	}{
		{"the stream", "bytes=8-", "", 206, whole[8:]},
		{"a resumed pull", "bytes=1000-", etag, 206, whole[1000:]},
		{"of another file", "bytes=1000-", `"other"`, 200, whole},
		{"the middle", "bytes=10-19", "", 206, whole[10:20]},
		{"the end", "bytes=-6", "", 206, []byte("ARROW1")},
	} {
		header := []string{"Range", r.bytes}
		if r.ifRange != "" {
			header = append(header, "If-Range", r.ifRange)
		}
		answer, body := c.do("GET", path, header...)
		require.Equal(t, r.status, answer.StatusCode, r.name)
		require.True(t, bytes.Equal(r.want, body), r.name)
	}
	answer, _ = c.do("GET", path, "Range", "bytes=99999999-")
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, answer.StatusCode)
	answer, _ = c.do("GET", path, "If-None-Match", etag)
	require.Equal(t, http.StatusNotModified, answer.StatusCode)
	answer, body = c.do("GET", "/v1/shards/none")
	require.Equal(t, 404, answer.StatusCode)
	require.Contains(t, string(body), "not_found")
	answer, _ = c.do("POST", path)
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)

	require.NoError(t, b.store.Replace(b.ctx, m.URI, whole[:100]))
	answer, body = c.do("GET", path)
	require.Equal(t, 500, answer.StatusCode)
	require.Contains(t, string(body), "object_damaged")
	require.NoError(t, b.store.Delete(b.ctx, m.URI))
	answer, body = c.do("GET", path)
	require.Equal(t, 500, answer.StatusCode)
	require.Contains(t, string(body), "object_missing")

	require.NoError(t, b.store.Delete(b.ctx, manifest.Key("base", 1)))
	report, err := Verify(b.ctx, b.pool, b.store)
	require.NoError(t, err)
	require.Len(t, report.Problems, 2)
}

func TestAPIIsGuarded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed.cfg.Guard = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	}
	c := b.serve()
	for _, path := range []string{"/v1/policies", "/v1/policies/x/shards", "/v1/shards/x"} {
		answer, _ := c.do("GET", path)
		require.Equal(t, 401, answer.StatusCode)
	}
}

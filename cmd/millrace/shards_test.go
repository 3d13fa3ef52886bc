package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/feed"
	"millrace/internal/arrowfile"
	"millrace/schemas/manifest"
	"millrace/schemas/sample"
)

// shardServer serves one shard and its manifest, and breaks off in the middle of the first breaks answers.
func shardServer(t *testing.T, breaks int) (Remote, manifest.Shard, []byte, *[]string) {
	t.Helper()
	row := sample.Row{SampleID: "s", PolicyVersion: "base", SettledAt: time.Now()}
	body, err := arrowfile.WriteShard(arrowfile.ShardMeta{ShardID: "x", PolicyVersion: "base"}, []sample.Row{row}, arrowfile.None)
	require.NoError(t, err)
	s := manifest.Shard{PolicyVersion: "base", Number: 1, ID: "events-0-0-9-ab", Bytes: int64(len(body)), SHA256: arrowfile.SHA256(body), Rows: 1}
	ranges := &[]string{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/policies", func(w http.ResponseWriter, _ *http.Request) {
		(&Output{Out: w}).Object(feed.Policies{Policies: []feed.Policy{{PolicyVersion: "base", Shards: 1}}})
	})
	mux.HandleFunc("GET /v1/policies/{version}/shards", func(w http.ResponseWriter, r *http.Request) {
		page := feed.Shards{PolicyVersion: "base"}
		if r.URL.Query().Get("after") == "0" {
			page.Shards = []manifest.Shard{s}
		}
		(&Output{Out: w}).Object(page)
	})
	mux.HandleFunc("GET /v1/shards/{id}", func(w http.ResponseWriter, r *http.Request) {
		*ranges = append(*ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", `"`+s.SHA256+`"`)
		if breaks--; breaks >= 0 {
			w.Header().Set("Content-Length", "100000")
			w.Write(body[:40])
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return Remote{Server: server.URL, Token: "t"}, s, body, ranges
}

func TestShardsPullGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	remote, s, body, ranges := shardServer(t, 1)
	folder := t.TempDir()
	var out bytes.Buffer
	pull := ShardsPull{Remote: remote, Policy: "base", To: folder}
	require.NoError(t, pull.Run(t.Context(), &Output{Out: &out}))
	require.Equal(t, []string{"", "bytes=40-"}, *ranges)
	got, err := os.ReadFile(filepath.Join(folder, s.ID+".arrow"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got))
	require.Contains(t, out.String(), "1 shards, 1 rows")
	require.NoError(t, pull.Run(t.Context(), &Output{Out: &out}))
	require.Len(t, *ranges, 2, "it is there already")
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestShardsPullRefusesOtherBytes(t *testing.T) {
	t.Parallel()
	remote, s, body, _ := shardServer(t, 0)
	folder := t.TempDir()
	part := filepath.Join(folder, s.ID+".arrow.part")
	require.NoError(t, os.WriteFile(part, bytes.Repeat([]byte("x"), len(body)-1), 0o600))
	pull := ShardsPull{Remote: remote, Policy: "base", To: folder}
	require.ErrorContains(t, pull.Run(t.Context(), &Output{Out: &bytes.Buffer{}}), "its manifest says "+s.SHA256)
	require.NoError(t, pull.Run(t.Context(), &Output{Out: &bytes.Buffer{}}), "the wrong part is gone")
}

func TestShardsListAndCat(t *testing.T) {
	t.Parallel()
	remote, s, body, _ := shardServer(t, 0)
	var out bytes.Buffer
	require.NoError(t, (&ShardsList{Remote: remote}).Run(t.Context(), &Output{Out: &out}))
	require.Contains(t, out.String(), "base")
	out.Reset()
	require.NoError(t, (&ShardsList{Remote: remote, Policy: "base"}).Run(t.Context(), &Output{Out: &out, JSON: true}))
	require.Contains(t, out.String(), s.SHA256)
	out.Reset()
	require.NoError(t, (&ShardsCat{Remote: remote, Shard: s.ID}).Run(t.Context(), &Output{Out: &out}))
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	path := filepath.Join(t.TempDir(), "x.arrow")
	require.NoError(t, os.WriteFile(path, body, 0o600))
	local := bytes.Buffer{}
	require.NoError(t, (&ShardsCat{Shard: path}).Run(t.Context(), &Output{Out: &local}))
	require.Equal(t, out.String(), local.String())
}

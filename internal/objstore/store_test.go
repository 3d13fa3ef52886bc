package objstore

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

// fakeS3 is a bucket in memory behind the S3 protocol.
func fakeS3(t *testing.T) *S3 {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("millrace"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	b, err := Open("s3://key:secret@millrace/some/prefix?region=us-east-1&endpoint=" + server.URL)
	require.NoError(t, err)
	return b.(*S3)
}

func TestStores(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) Bucket{
		"folder": func(t *testing.T) Bucket {
			b, err := Open("file://" + t.TempDir())
			require.NoError(t, err)
			return b
		},
		"s3": func(t *testing.T) Bucket { return fakeS3(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conformance(t, open)
		})
	}
}

// conformance is what every store keeps.
func conformance(t *testing.T, open func(*testing.T) Bucket) {
	run := func(name string, test func(t *testing.T, ctx context.Context, b Bucket)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, t.Context(), open(t))
		})
	}

	run("put is once", func(t *testing.T, ctx context.Context, b Bucket) {
		require.NoError(t, b.PutIfAbsent(ctx, "a/b/c.bin", []byte("one")))
		require.NoError(t, b.PutIfAbsent(ctx, "a/b/c.bin", []byte("one")), "an equal body is success")
		for _, other := range []string{"two", "", "one and more"} {
			err := b.PutIfAbsent(ctx, "a/b/c.bin", []byte(other))
			require.ErrorIs(t, err, ErrExists)
			require.False(t, Retryable(err))
			require.ErrorContains(t, err, "a/b/c.bin")
		}
		body, err := b.Get(ctx, "a/b/c.bin")
		require.NoError(t, err)
		require.Equal(t, "one", string(body))
		size, err := b.Stat(ctx, "a/b/c.bin")
		require.NoError(t, err)
		require.EqualValues(t, 3, size)
	})

	run("one of many writers wins", func(t *testing.T, ctx context.Context, b Bucket) {
		var won atomic.Int32
		var winner atomic.Value
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				body := fmt.Sprintf("writer %d", i)
				if b.PutIfAbsent(ctx, "race", []byte(body)) == nil {
					won.Add(1)
					winner.Store(body)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, won.Load())
		body, err := b.Get(ctx, "race")
		require.NoError(t, err)
		require.Equal(t, winner.Load(), string(body))
	})

	run("empty and large bodies", func(t *testing.T, ctx context.Context, b Bucket) {
		large := strings.Repeat("0123456789abcdef", 400_000)
		for key, body := range map[string]string{"empty": "", "large": large} {
			require.NoError(t, b.PutIfAbsent(ctx, key, []byte(body)))
			got, err := b.Get(ctx, key)
			require.NoError(t, err)
			require.Equal(t, body, string(got), key)
		}
	})

	run("missing", func(t *testing.T, ctx context.Context, b Bucket) {
		require.NoError(t, b.PutIfAbsent(ctx, "there/is", []byte("x")))
		for _, key := range []string{"none", "there/none", "there"} {
			_, err := b.Get(ctx, key)
			require.ErrorIs(t, err, ErrNotFound)
			require.False(t, Retryable(err))
			_, err = b.Stat(ctx, key)
			require.ErrorIs(t, err, ErrNotFound)
			_, err = b.Open(ctx, key, 3, 4)
			require.ErrorIs(t, err, ErrNotFound)
			_, err = b.Open(ctx, key, 0, 0)
			require.ErrorIs(t, err, ErrNotFound)
		}
		require.NoError(t, b.Delete(ctx, "none"))
		keys, err := b.List(ctx, "no/such/")
		require.NoError(t, err)
		require.Empty(t, keys)
	})

	run("ranges", func(t *testing.T, ctx context.Context, b Bucket) {
		require.NoError(t, b.PutIfAbsent(ctx, "k", []byte("0123456789")))
		for _, c := range []struct {
			offset, length int64
			want           string
		}{
			{0, -1, "0123456789"},
			{0, 1, "0"},
			{0, 10, "0123456789"},
			{8, -1, "89"},
			{3, 4, "3456"},
			{7, 100, "789"},
			{9, 1, "9"},
			{10, -1, ""},
			{10, 5, ""},
			{2, 0, ""},
			{1, 1<<63 - 1, "123456789"},
		} {
			r, err := b.Open(ctx, "k", c.offset, c.length)
			require.NoError(t, err, "%v", c)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, r.Close())
			require.Equal(t, c.want, string(got), "%v", c)
		}
		for _, c := range [][2]int64{{-1, 2}, {11, -1}, {11, 0}, {11, 3}, {0, -2}} {
			_, err := b.Open(ctx, "k", c[0], c[1])
			require.ErrorIs(t, err, ErrRange, "%v", c)
		}
	})

	run("list", func(t *testing.T, ctx context.Context, b Bucket) {
		for _, key := range []string{"staging/b", "staging/a", "staging/a-1", "staging/a/x", "stagings", "z"} {
			if key == "staging/a" {
				continue // a folder can't hold a file and a folder of one name
			}
			require.NoError(t, b.PutIfAbsent(ctx, key, nil))
		}
		for prefix, want := range map[string][]string{
			"staging/":   {"staging/a-1", "staging/a/x", "staging/b"},
			"staging/a":  {"staging/a-1", "staging/a/x"},
			"staging":    {"staging/a-1", "staging/a/x", "staging/b", "stagings"},
			"":           {"staging/a-1", "staging/a/x", "staging/b", "stagings", "z"},
			"staging/a/": {"staging/a/x"},
		} {
			keys, err := b.List(ctx, prefix)
			require.NoError(t, err)
			require.Equal(t, want, keys, "prefix %q", prefix)
		}
	})

	run("replace and delete", func(t *testing.T, ctx context.Context, b Bucket) {
		require.NoError(t, b.Replace(ctx, "live.json", []byte("1")))
		require.NoError(t, b.Replace(ctx, "live.json", []byte("22")))
		body, err := b.Get(ctx, "live.json")
		require.NoError(t, err)
		require.Equal(t, "22", string(body))
		require.NoError(t, b.Delete(ctx, "live.json"))
		_, err = b.Get(ctx, "live.json")
		require.ErrorIs(t, err, ErrNotFound)
		require.NoError(t, b.PutIfAbsent(ctx, "live.json", []byte("new")))
	})

	run("bad keys", func(t *testing.T, ctx context.Context, b Bucket) {
		for _, key := range []string{
			"", "/abs", "..", "../up", "a/../../b", "a/./b", "a//b", "a/", ".tmp/x", "a\\b", "nul\x00", "line\n", "\xff",
			strings.Repeat("x", 256), strings.Repeat("y/", 600) + "y",
		} {
			require.ErrorIs(t, b.PutIfAbsent(ctx, key, nil), ErrKey, "%q", key)
			require.ErrorIs(t, b.Replace(ctx, key, nil), ErrKey, "%q", key)
			require.ErrorIs(t, b.Delete(ctx, key), ErrKey, "%q", key)
			_, err := b.Get(ctx, key)
			require.ErrorIs(t, err, ErrKey, "%q", key)
			_, err = b.Stat(ctx, key)
			require.ErrorIs(t, err, ErrKey, "%q", key)
			_, err = b.Open(ctx, key, 0, -1)
			require.ErrorIs(t, err, ErrKey, "%q", key)
		}
		for _, key := range []string{"…/ä b%2F?&#+", "a/..b", "x..", ".hidden", "a/.tmp/b"} {
			require.NoError(t, b.PutIfAbsent(ctx, key, []byte(key)), "%q", key)
			got, err := b.Get(ctx, key)
			require.NoError(t, err)
			require.Equal(t, key, string(got))
		}
	})

	run("cancelled", func(t *testing.T, ctx context.Context, b Bucket) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		err := b.PutIfAbsent(ctx, "k", nil)
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, Retryable(err))
		_, err = b.Get(ctx, "k")
		require.ErrorIs(t, err, context.Canceled)
	})

	run("check", func(t *testing.T, ctx context.Context, b Bucket) {
		require.NoError(t, b.Check(ctx))
		keys, err := b.List(ctx, "")
		require.NoError(t, err)
		require.Empty(t, keys, "the probe is gone")
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, location := range []string{dir, "file://" + dir, "file://localhost" + dir} {
		b, err := Open(location)
		require.NoError(t, err)
		require.Equal(t, dir, b.String())
	}
	for location, want := range map[string]string{
		"":                              "no location",
		"gs://bucket":                   `unknown scheme "gs"`,
		"file://data/objects":           "three slashes",
		"s3:///prefix":                  "no bucket",
		"s3://b?endpont=x":              `unknown setting "endpont"`,
		"s3://b?endpoint=localhost:900": "http://host:port",
		"s3://key@b":                    "both an access key and a secret",
		"s3://k:s3cr%zz@b/p":            "not a URL",
	} {
		_, err := Open(location)
		require.ErrorContains(t, err, want, location)
		require.NotContains(t, err.Error(), "s3cr")
	}
	b, err := Open("s3://key:s3cret@bucket/p")
	require.NoError(t, err)
	require.Equal(t, "s3://bucket/p/", b.String())
}

func TestFolderThatVanishes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "objects")
	f, err := NewFolder(dir)
	require.NoError(t, err)
	require.NoError(t, f.PutIfAbsent(t.Context(), "a/b", []byte("x")))
	require.NoError(t, os.Rename(dir, dir+".away"))
	check := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, ErrUnavailable)
		require.True(t, Retryable(err))
		require.ErrorContains(t, err, "is the disk mounted?")
	}
	check(f.PutIfAbsent(t.Context(), "a/b", nil))
	check(f.PutIfAbsent(t.Context(), "c", nil))
	check(f.Delete(t.Context(), "a/b"))
	_, err = f.Get(t.Context(), "a/b")
	check(err)
	_, err = f.List(t.Context(), "")
	check(err)
	_, err = os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "never made again behind the operator's back")
	require.NoError(t, os.Rename(dir+".away", dir))
	require.NoError(t, f.PutIfAbsent(t.Context(), "a/b", []byte("x")))
}

func TestFolderThatIsAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := NewFolder(path)
	require.ErrorContains(t, err, path)
}

func TestFolderThatIsFull(t *testing.T) {
	t.Parallel()
	f, err := NewFolder(t.TempDir())
	require.NoError(t, err)
	for _, reason := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := f.wrap("put", "a/b", &os.PathError{Op: "write", Path: "x", Err: reason})
		require.ErrorIs(t, err, ErrFull)
		require.True(t, Retryable(err))
		require.ErrorContains(t, err, "put a/b in "+f.String())
	}
}

func TestFolderLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := NewFolder(dir)
	require.NoError(t, err)
	require.NoError(t, f.PutIfAbsent(t.Context(), "k", []byte("1")))
	require.ErrorIs(t, f.PutIfAbsent(t.Context(), "k", []byte("2")), ErrExists)
	pieces, err := os.ReadDir(filepath.Join(dir, tempFolder))
	require.NoError(t, err)
	require.Empty(t, pieces)
}

func TestS3Errors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		code   string
		retry  bool
	}{
		{503, "SlowDown", true},
		{500, "InternalError", true},
		{429, "TooManyRequests", true},
		{409, "ConditionalRequestConflict", true},
		{403, "AccessDenied", false},
		{404, "NoSuchBucket", false},
		{507, "InsufficientStorage", true},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(c.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>says the server</Message></Error>", c.code)
			}))
			t.Cleanup(server.Close)
			s, err := NewS3(S3Config{Bucket: "bucket", Endpoint: server.URL, Region: "us-east-1", AccessKey: "k", SecretKey: "s"})
			require.NoError(t, err)
			err = s.PutIfAbsent(t.Context(), "key", []byte("x"))
			require.ErrorContains(t, err, "key in s3://bucket/")
			require.Equal(t, c.retry, Retryable(err), "%v", err)
		})
	}
	s, err := NewS3(S3Config{Bucket: "bucket", Endpoint: "http://127.0.0.1:1", Region: "us-east-1", AccessKey: "k", SecretKey: "s"})
	require.NoError(t, err)
	require.True(t, Retryable(s.PutIfAbsent(t.Context(), "key", nil)), "nobody listens")
}

// A store that ignores If-None-Match is found out.
func TestCheckFindsStoresThatOverwrite(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("millrace"))
	inner := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-None-Match")
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s, err := NewS3(S3Config{Bucket: "millrace", Endpoint: server.URL, Region: "us-east-1", AccessKey: "k", SecretKey: "s"})
	require.NoError(t, err)
	require.ErrorContains(t, s.Check(t.Context()), "overwrites objects")
}

// What a person can mend while the process waits is worth another try.
func TestFolderThatMayNotBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	f, err := NewFolder(t.TempDir())
	require.NoError(t, err)
	for _, reason := range []error{syscall.EACCES, syscall.EPERM, syscall.EROFS} {
		err := f.wrap("put", "key", &fs.PathError{Op: "open", Path: "/somewhere", Err: reason})
		require.ErrorIs(t, err, ErrUnavailable)
		require.True(t, Retryable(err))
		require.ErrorContains(t, err, "give this user the right to write there")
	}
}

package embedded

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder in a Maven repository's layout (or one's URL) at MILLRACE_TEST_MAVEN lets the real archive be tested.
func TestFetchedPostgresRuns(t *testing.T) {
	t.Parallel()
	repository := os.Getenv("MILLRACE_TEST_MAVEN")
	if repository == "" {
		t.Skip("MILLRACE_TEST_MAVEN names no Maven repository")
	}
	if filepath.IsAbs(repository) {
		server := httptest.NewServer(http.FileServer(http.Dir(repository)))
		t.Cleanup(server.Close)
		repository = server.URL
	}
	dir := stateFolder(t)
	cfg, err := PostgresConfig{Dir: dir, Repository: repository, Progress: func(line string) { t.Log(line) }, Volatile: true}.withDefaults()
	require.NoError(t, err)
	bin, err := fetchBinaries(deadline(t), cfg, filepath.Join(cfg.Binaries, "postgres-"+fetchedRelease))
	require.NoError(t, err)
	require.Equal(t, fetchedVersion, bin.version)
	left, err := filepath.Glob(filepath.Join(cfg.Binaries, "*"))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing but the binaries")

	// It is newer than the machine's own, so it is the one that is taken.
	p := start(t, dir)
	require.Equal(t, fetchedVersion, p.Version())
	require.NoError(t, p.Stop())
}

// jarOf wraps a .txz of testdata as the repository does.
func jarOf(t *testing.T, txz string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", txz))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "a.jar")
	file, err := os.Create(path)
	require.NoError(t, err)
	z := zip.NewWriter(file)
	for name, content := range map[string][]byte{"META-INF/MANIFEST.MF": []byte("Manifest-Version: 1.0\n"), "postgres.txz": content} {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = w.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.NoError(t, file.Close())
	return path
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	// bin/tool (0755), bin/alias → tool, share/doc/read.me (0644)
	dir := filepath.Join(t.TempDir(), "unpacked")
	require.NoError(t, unpack(jarOf(t, "tools.txz"), dir))
	info, err := os.Stat(filepath.Join(dir, "bin", "alias"))
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode().Perm())
	content, err := os.ReadFile(filepath.Join(dir, "share", "doc", "read.me"))
	require.NoError(t, err)
	require.Equal(t, "read me\n", string(content))

	// ../outside, which a tar may name
	parent := t.TempDir()
	require.Error(t, unpack(jarOf(t, "escape.txz"), filepath.Join(parent, "unpacked")))
	_, err = os.Stat(filepath.Join(parent, "outside"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	body := []byte("an archive")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/there" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(body)
	path := filepath.Join(t.TempDir(), "file")
	quiet := func(string) {}
	require.NoError(t, download(deadline(t), server.URL+"/there", path, hex.EncodeToString(sum[:]), quiet))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, body, content)

	require.ErrorContains(t, download(deadline(t), server.URL+"/there", path, "0000", quiet), "not what was released")
	require.ErrorContains(t, download(deadline(t), server.URL+"/gone", path, "", quiet), "404")
	require.ErrorContains(t, download(deadline(t), "http://127.0.0.1:1/", path, "", quiet), "refused")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, download(ctx, server.URL+"/there", path, "", quiet), context.Canceled)
}

// A damaged archive leaves nothing behind that a later start would take for binaries.
func TestFetchRefusesAnotherArchive(t *testing.T) {
	t.Parallel()
	if _, ok := archives[runtime.GOOS+"/"+runtime.GOARCH]; !ok {
		t.Skip("nothing to fetch for this platform")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("evil")) }))
	t.Cleanup(server.Close)
	var said []string
	cfg, err := PostgresConfig{
		Dir: t.TempDir(), Repository: server.URL + "/", Progress: func(line string) { said = append(said, line) },
	}.withDefaults()
	require.NoError(t, err)
	_, err = fetchBinaries(deadline(t), cfg, filepath.Join(cfg.Binaries, "postgres-"+fetchedRelease))
	require.ErrorContains(t, err, "not what was released")
	require.ErrorContains(t, err, "give a running one's URL")
	require.Len(t, said, 1)
	left, err := filepath.Glob(filepath.Join(cfg.Binaries, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBinariesMustSuitTheData(t *testing.T) {
	t.Parallel()
	cfg, err := PostgresConfig{Dir: stateFolder(t)}.withDefaults()
	require.NoError(t, err)
	data := filepath.Join(cfg.Dir, "data")
	require.NoError(t, os.Mkdir(data, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("9\n"), 0o644))
	_, err = binariesFor(deadline(t), cfg, data, account{})
	require.ErrorContains(t, err, "was made by Postgres 9, of which there are no binaries here")
}

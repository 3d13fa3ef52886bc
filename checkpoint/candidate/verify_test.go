package candidate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/internal/objstore"
)

func TestVerifyRecomputesDigests(t *testing.T) {
	t.Parallel()
	body := []byte("weights")
	sum := sha256.Sum256(body)
	file := File{Path: "model/a.safetensors", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(body))}
	folder, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, folder.PutIfAbsent(t.Context(), "weights/v1/model/a.safetensors", body))
	local := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(local, "model"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(local, "model", "a.safetensors"), body, 0o644))
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(local, "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(local, "pipe"), 0o644))
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "secret"), body, 0o644))

	shorter, longer, other, missing, link, pipe, directory, secret := file, file, file, file, file, file, file, file
	shorter.Bytes--
	pipe.Path, directory.Path, secret.Path = "pipe", "model", "secret"
	const outside = "digests as declared, not recomputed: the weights can't be reached from here: "
	longer.Bytes++
	other.SHA256 = RootDigest([]File{file})
	missing.Path = "model/b.safetensors"
	link.Path = "link"
	places, err := NewPlaces(folder, []string{local})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		uri  string
		file File
		code Code
		note string
	}{
		"own store":       {uri: "weights/v1", file: file, note: "all 1 digests recomputed"},
		"local folder":    {uri: "file://" + local, file: file, note: "all 1 digests recomputed"},
		"another size":    {uri: "weights/v1", file: longer, code: DigestMismatch},
		"longer":          {uri: "weights/v1", file: shorter, code: DigestMismatch},
		"another digest":  {uri: "file://" + local, file: other, code: DigestMismatch},
		"a missing file":  {uri: "weights/v1", file: missing, code: FileMissing},
		"a missing place": {uri: "file://" + local + "/nowhere", file: file, code: FileMissing},
		"a way out":       {uri: "file://" + local, file: link, code: FileMissing},
		"a pipe":          {uri: "file://" + local, file: pipe, code: FileMissing},
		"a folder":        {uri: "file://" + local, file: directory, code: FileMissing},
		"own store's URL": {uri: "file://" + folder.String() + "/weights/v1", file: file, note: "all 1 digests recomputed"},
		"another folder":  {uri: "file://" + foreign, file: secret, note: outside + "file://" + foreign + " is below no --weights-root"},
		"a device":        {uri: "file:///dev", file: File{Path: "zero"}, note: outside + "file:///dev is below no --weights-root"},
		"up and out":      {uri: "file://" + local + "/../" + filepath.Base(foreign), file: secret, note: outside + "file://" + local + "/../" + filepath.Base(foreign) + " is below no --weights-root"},
		"a host":          {uri: "file://elsewhere" + local, file: file, note: outside + "file://elsewhere" + local + " is below no --weights-root"},
		"another bucket":  {uri: "s3://bucket/weights", file: file, note: outside + "s3://bucket/weights is below no --weights-root"},
		"a chosen server": {uri: "s3://bucket/weights?endpoint=http://169.254.169.254", file: file, note: outside + "weights_uri has more than a place: no credentials, no ?settings, no #fragment"},
		"unreachable":     {uri: "hf://team/model", file: file, note: "digests as declared, not recomputed: the weights can't be reached from here: no reader for hf://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note, err := Verify(t.Context(), places, &Submission{WeightsURI: c.uri, Files: []File{c.file}})
			var refusal *Refusal
			switch {
			case c.code != "":
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, c.code, refusal.Code, refusal.Message)
			default:
				require.NoError(t, err)
				require.Equal(t, c.note, note)
			}
		})
	}
}

// TestABucketIsReadOnlyWhereItIsARoot: by its name and prefix, whatever else the submission says.
func TestABucketIsReadOnlyWhereItIsARoot(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Last-Modified", "Sun, 01 Mar 2026 12:00:00 GMT")
		_, _ = w.Write([]byte("weights"))
	}))
	defer server.Close()
	folder, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	places, err := NewPlaces(folder, []string{"s3://key:secret@models/trained?region=here&endpoint=" + server.URL})
	require.NoError(t, err)
	body, err := places.Open(t.Context(), "s3://models/trained/v1", "a.safetensors")
	require.NoError(t, err)
	require.NoError(t, body.Close())
	for _, uri := range []string{"s3://models/other", "s3://models/trained-too", "s3://others/trained", "s3://me:secret@models/trained"} {
		_, err := places.Open(t.Context(), uri, "a.safetensors")
		require.ErrorIs(t, err, ErrUnreachable, uri)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err = places.Open(t.Context(), "s3://models/trained/../other", "a.safetensors")
	require.ErrorIs(t, err, ErrNoFile)
	require.Equal(t, []string{"/models/trained/v1/a.safetensors"}, asked)

	_, err = NewPlaces(folder, []string{"weights"})
	require.ErrorContains(t, err, `weights root "weights": give an absolute folder`)
}

// TestVerifyEndsWithItsContext: also in the middle of a local file.
func TestVerifyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	local := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(local, "a"), []byte("weights"), 0o644))
	folder, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	places, err := NewPlaces(folder, []string{local})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Verify(ctx, places, &Submission{WeightsURI: "file://" + local, Files: []File{{Path: "a", Bytes: 7}}})
	require.ErrorIs(t, err, context.Canceled)
}

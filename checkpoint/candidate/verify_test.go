package candidate

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
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

	longer, other, missing, link := file, file, file, file
	longer.Bytes++
	other.SHA256 = RootDigest([]File{file})
	missing.Path = "model/b.safetensors"
	link.Path = "link"
	for name, c := range map[string]struct {
		uri  string
		file File
		code Code
		note string
		err  string
	}{
		"own store":       {uri: "weights/v1", file: file, note: "all 1 digests recomputed"},
		"local folder":    {uri: "file://" + local, file: file, note: "all 1 digests recomputed"},
		"another size":    {uri: "weights/v1", file: longer, code: DigestMismatch},
		"another digest":  {uri: "file://" + local, file: other, code: DigestMismatch},
		"a missing file":  {uri: "weights/v1", file: missing, code: FileMissing},
		"a missing place": {uri: "file://" + local + "/nowhere", file: file, code: FileMissing},
		"a way out":       {uri: "file://" + local, file: link, err: "escapes"},
		"unreachable":     {uri: "hf://team/model", file: file, note: "digests as declared, not recomputed: the weights can't be reached from here: no reader for hf://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note, err := Verify(t.Context(), Places{Own: folder}, &Submission{WeightsURI: c.uri, Files: []File{c.file}})
			var refusal *Refusal
			switch {
			case c.code != "":
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, c.code, refusal.Code, refusal.Message)
			case c.err != "":
				require.ErrorContains(t, err, c.err)
			default:
				require.NoError(t, err)
				require.Equal(t, c.note, note)
			}
		})
	}
}

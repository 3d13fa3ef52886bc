package xz

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// testdata/mixed.xz was made by `xz -9` from the content of mixed(1<<12).
func TestFixture(t *testing.T) {
	t.Parallel()
	packed, err := os.ReadFile(filepath.Join("testdata", "mixed.xz"))
	require.NoError(t, err)
	require.Equal(t, mixed(1<<12), unpack(t, packed))
}

// mixed has what gives literals, matches near and far, repeated matches, and stretches that don't compress.
func mixed(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"turn", "step", "sample", "shard", "cut", "candidate", " ", " ", ", ", "\n"}
	var out bytes.Buffer
	for out.Len() < n {
		switch random.IntN(12) {
		case 0:
			for range random.IntN(300) {
				out.WriteByte(byte(random.Uint32()))
			}
		case 1:
			out.Write(bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN(500)))
		case 2:
			if out.Len() > 0 {
				from := random.IntN(out.Len())
				out.Write(bytes.Clone(out.Bytes()[from:min(out.Len(), from+random.IntN(400))]))
			}
		default:
			out.WriteString(words[random.IntN(len(words))])
		}
	}
	return out.Bytes()
}

func unpack(t *testing.T, packed []byte) []byte {
	t.Helper()
	r, err := NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	plain, err := io.ReadAll(r)
	require.NoError(t, err)
	return plain
}

// Whatever xz writes is read back: large, empty, incompressible, in several blocks, with a small dictionary.
func TestAgainstXZ(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("there is no xz here")
	}
	noise := make([]byte, 1<<18)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	zeros := make([]byte, 1<<20)
	for name, c := range map[string]struct {
		plain     []byte
		arguments []string
	}{
		"mixed":            {mixed(2 << 20), []string{"-6"}},
		"mixed, fast":      {mixed(1 << 20), []string{"-0"}},
		"several blocks":   {mixed(1 << 18), []string{"--block-size=100000"}},
		"threads":          {mixed(1 << 18), []string{"-T2", "--block-size=60000"}},
		"small dictionary": {mixed(1 << 20), []string{"--lzma2=dict=4KiB"}},
		"other properties": {mixed(1 << 20), []string{"--lzma2=lc=0,lp=2,pb=0"}},
		"CRC32":            {mixed(1 << 16), []string{"--check=crc32"}},
		"no check":         {mixed(1 << 16), []string{"--check=none"}},
		"noise":            {noise, nil},
		"zeros":            {zeros, nil},
		"one byte":         {[]byte("x"), nil},
		"nothing":          {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(path, append(c.arguments, "-c")...)
			cmd.Stdin = bytes.NewReader(c.plain)
			packed, err := cmd.Output()
			require.NoError(t, err)
			require.True(t, bytes.Equal(c.plain, unpack(t, packed)))
		})
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	packed, err := os.ReadFile(filepath.Join("testdata", "mixed.xz"))
	require.NoError(t, err)
	index := bytes.LastIndex(packed, []byte("YZ")) - 24 // the index isn't looked at
	for i := 0; i < index; i += 1 + i%5 {               // byte by byte would take its time
		damaged := bytes.Clone(packed)
		damaged[i] ^= 0x10
		r, err := NewReader(bytes.NewReader(damaged))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		require.Error(t, err, "byte %d", i)
		r, err = NewReader(bytes.NewReader(packed[:i]))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		require.ErrorIs(t, err, ErrCorrupt, "cut at %d", i)
	}
}

func FuzzReader(f *testing.F) {
	packed, err := os.ReadFile(filepath.Join("testdata", "mixed.xz"))
	require.NoError(f, err)
	f.Add(packed)
	f.Fuzz(func(_ *testing.T, packed []byte) {
		r, err := NewReader(bytes.NewReader(packed))
		if err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<22))
		}
	})
}

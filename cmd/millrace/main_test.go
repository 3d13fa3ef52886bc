package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// built holds the folder of the binary that tests start as a process.
var built struct {
	sync.Once
	dir, path string
	err       error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// millraceBinary builds the binary once for all tests that need a process of its own: to kill it, or to be somebody else.
func millraceBinary(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "millrace-binary-"); built.err != nil {
			return
		}
		if built.err = os.Chmod(built.dir, 0o755); built.err != nil { // other users run it too
			return
		}
		built.path = filepath.Join(built.dir, "millrace")
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", built.path, ".").CombinedOutput(); err != nil {
			built.err = errors.New(strings.TrimSpace(string(out)))
		}
	})
	require.NoError(t, built.err, "go build")
	return built.path
}

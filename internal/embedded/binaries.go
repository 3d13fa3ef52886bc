package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldestMajor is the oldest Postgres that is still maintained.
const oldestMajor = 14

// binaries is a folder with initdb and postgres in it.
type binaries struct {
	dir     string
	version string // "15.18"
}

func (b binaries) major() int {
	major, _, _ := strings.Cut(b.version, ".")
	n, _ := strconv.Atoi(major) // the pattern of version leaves nothing else
	return n
}

var errNoBinaries = errors.New("no Postgres found on this machine")

// where packages put Postgres, besides the PATH.
var binaryFolders = []string{
	"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
	"/usr/pgsql-*/bin",                  // the Postgres project's packages for Red Hat and its kin
	"/usr/libexec/postgresql*",          // Alpine
	"/opt/homebrew/opt/postgresql*/bin", // macOS on ARM
	"/usr/local/opt/postgresql*/bin",    // macOS on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// findBinaries looks for the machine's own Postgres, of the given major version or, if that is 0, the newest.
func findBinaries(ctx context.Context, major int, more ...string) (binaries, error) {
	dirs := slices.Clone(more)
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range binaryFolders {
		matches, _ := filepath.Glob(pattern) // the patterns are well-formed
		dirs = append(dirs, matches...)
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	var best binaries
	for _, dir := range dirs {
		b, err := inspect(ctx, dir)
		if err != nil || b.major() < oldestMajor || major != 0 && b.major() != major {
			continue
		}
		if b.major() > best.major() {
			best = b
		}
	}
	if best.dir == "" {
		return binaries{}, errNoBinaries
	}
	return best, nil
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+(?:\.\d+)*)`)

// inspect tells which Postgres a folder holds, if it holds a whole one.
func inspect(ctx context.Context, dir string) (binaries, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return binaries{}, err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, err
	}
	version := versionPattern.FindSubmatch(out)
	if version == nil {
		return binaries{}, fmt.Errorf("%s: no version in %q", dir, out)
	}
	return binaries{dir: dir, version: string(version[1])}, nil
}

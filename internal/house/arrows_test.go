package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "millrace"

// may says what each top-level folder may import of the module, besides itself:
//
//	cmd → {ingest, distill, feed, checkpoint} → internal → schemas
//
// The four rooms stand beside each other: the log, the tables and the object store stand between them. web and sim
// are outside: they use the API. assignment is for backends too, so it brings as little as can be.
var may = map[string][]string{
	"cmd":        {"ingest", "distill", "feed", "checkpoint", "web", "sim", "assignment", "internal", "schemas", "migrations", "docs"},
	"bench":      {"ingest", "distill", "feed", "checkpoint", "sim", "assignment", "internal", "schemas", "migrations"},
	"assignment": {"internal/unithash"},
	"clients":    {"assignment", "ingest", "internal"},
	"ingest":     {"assignment", "internal", "schemas"},
	"distill":    {"internal", "schemas"},
	"feed":       {"internal", "schemas"},
	"checkpoint": {"internal", "schemas"},
	"internal":   {"schemas", "migrations"},
	"schemas":    {},
	"migrations": {},
	"web":        {"schemas"},
	"sim":        {"schemas", "internal/arrowfile"},
}

// sole names the only packages that may import a library, so that what is behind that border can be changed in one
// place. Tests may too where the row says so.
var sole = []struct {
	library   string
	importers []string // import paths in the module; whole folders end in /...
	tests     bool
}{
	{"github.com/segmentio/kafka-go", []string{"internal/eventlog"}, false},
	{"github.com/apache/arrow", []string{"internal/arrowfile/...", "schemas/..."}, false},
	{"github.com/robfig/cron", []string{"checkpoint", "checkpoint/schedule"}, false},
	{"cel.dev", []string{"schemas/rewardspec"}, false},
	{"github.com/minio", []string{"internal/objstore"}, false},
	{"github.com/pressly/goose", []string{"internal/postgres"}, true},
	{"github.com/twmb", []string{"internal/embedded"}, true},
	{"github.com/johannesboyne/gofakes3", nil, true},
	{"github.com/stretchr/testify", nil, true},
	{"pgregory.net/rapid", nil, true},
	{"go.uber.org/goleak", nil, true},
}

// pkg is a package as `go list -json` prints it.
type pkg struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// inModule is the path within the module, false for other packages.
func inModule(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// forTests says whether a package exists for tests alone: postgrestest, enginetest.
func forTests(path string) bool { return strings.HasSuffix(path, "test") }

// within says whether a path is the package that is meant, or lies in the folder that is (…/...).
func within(path, meant string) bool {
	if folder, ok := strings.CutSuffix(meant, "/..."); ok {
		return path == folder || strings.HasPrefix(path, folder+"/")
	}
	return path == meant
}

// ofLibrary says whether an import is of a library or one of its packages.
func ofLibrary(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, library+"/")
}

// arrows says which imports go the wrong way.
func arrows(pkgs []pkg) []string {
	var wrong []string
	for _, p := range pkgs {
		from, ok := inModule(p.ImportPath)
		if !ok {
			continue
		}
		folder, _, _ := strings.Cut(from, "/")
		allowed, known := may[folder]
		if !known {
			wrong = append(wrong, fmt.Sprintf("%s: the folder %s is not in the table of folders", p.ImportPath, folder))
			continue
		}
		check := func(imported string, test bool) {
			if to, ok := inModule(imported); ok {
				if !within(to, folder+"/...") && !slices.ContainsFunc(allowed, func(a string) bool { return within(to, a+"/...") }) {
					wrong = append(wrong, fmt.Sprintf("%s imports %s: %s may import of the module only %q", p.ImportPath, imported, folder, allowed))
				}
				if forTests(to) && !test && !forTests(from) {
					wrong = append(wrong, fmt.Sprintf("%s imports %s, which is for tests", p.ImportPath, imported))
				}
			}
			for _, s := range sole {
				if ofLibrary(imported, s.library) && (!s.tests || !test) && !forTests(from) &&
					!slices.ContainsFunc(s.importers, func(i string) bool { return within(from, i) }) {
					wrong = append(wrong, fmt.Sprintf("%s imports %s: its only importers are %q", p.ImportPath, imported, s.importers))
				}
			}
		}
		for _, imported := range p.Imports {
			check(imported, false)
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			check(imported, true)
		}
	}
	return wrong
}

func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	for _, sentence := range arrows(packages(t)) {
		t.Error(sentence)
	}
}

// A wrong import in every direction that is forbidden turns the test red.
func TestImportsThatGoTheWrongWayAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		test     bool
		wrong    bool
	}{
		"a room imports another":               {"distill", "millrace/checkpoint/gate", false, true},
		"a room's inner package does":          {"ingest/dialect", "millrace/distill/turn", false, true},
		"a room's test does":                   {"feed", "millrace/distill", true, true},
		"a room imports cmd":                   {"feed", "millrace/cmd/millrace/internal/scorecard", false, true},
		"internal imports a room":              {"internal/embedded", "millrace/distill", false, true},
		"schemas import internal":              {"schemas/event", "millrace/internal/eventlog", false, true},
		"a page imports a room":                {"web", "millrace/checkpoint", false, true},
		"a page reads the tables":              {"web", "millrace/internal/postgres", false, true},
		"the simulation imports a room":        {"sim", "millrace/distill/engine", false, true},
		"the simulation writes the log":        {"sim", "millrace/internal/eventlog", false, true},
		"a folder that nobody knows":           {"util", "millrace/schemas/event", false, true},
		"kafka-go beside the log":              {"distill", "github.com/segmentio/kafka-go", false, true},
		"kafka-go in another package's test":   {"distill", "github.com/segmentio/kafka-go/protocol", true, true},
		"Arrow beside the codec":               {"feed", "github.com/apache/arrow/go/v17/arrow", false, true},
		"minio beside the store":               {"checkpoint/release", "github.com/minio/minio-go/v7", false, true},
		"CEL beside the spec":                  {"distill/reward", "cel.dev/cel-go/cel", false, true},
		"cron in the feed":                     {"feed", "github.com/robfig/cron/v3", false, true},
		"the embedded broker in a room":        {"distill", "github.com/twmb/franz-go/pkg/kfake", false, true},
		"testify in the program":               {"cmd/millrace", "github.com/stretchr/testify/require", false, true},
		"a package for tests in the program":   {"cmd/millrace", "millrace/internal/postgres/postgrestest", false, true},
		"a room imports internal":              {"distill", "millrace/internal/eventlog", false, false},
		"a room imports itself":                {"distill", "millrace/distill/engine", false, false},
		"a room imports schemas":               {"checkpoint", "millrace/schemas/metric", false, false},
		"cmd imports rooms":                    {"cmd/millrace", "millrace/feed", false, false},
		"the simulation reads shards":          {"sim/trainer", "millrace/internal/arrowfile", false, false},
		"the log imports kafka-go":             {"internal/eventlog", "github.com/segmentio/kafka-go", false, false},
		"a test has a broker in the process":   {"distill", "github.com/twmb/franz-go/pkg/kfake", true, false},
		"a test has a database":                {"distill", "millrace/internal/postgres/postgrestest", true, false},
		"a package for tests imports testify":  {"internal/postgres/postgrestest", "github.com/stretchr/testify/require", false, false},
		"a name that only begins like another": {"internal/arrowfilex", "github.com/apache/arrow/go/v17/arrow", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pkg{ImportPath: module + "/" + c.from}
			if c.test {
				p.TestImports = []string{c.to}
			} else {
				p.Imports = []string{c.to}
			}
			require.Equal(t, c.wrong, len(arrows([]pkg{p})) > 0, "%v", arrows([]pkg{p}))
		})
	}
}

// root is the module's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		require.NotEqual(t, dir, filepath.Dir(dir), "no go.mod above the test")
		dir = filepath.Dir(dir)
	}
}

// packages are all of the module's.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags", "kafka4",
		"-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		pkgs = append(pkgs, p)
	}
	require.NotEmpty(t, pkgs)
	return pkgs
}

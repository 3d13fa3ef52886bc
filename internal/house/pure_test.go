package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pure are the packages that decide: no I/O, no clock, no random number, in them and in whatever of the module they
// import. What they need of the world comes as an argument, so that a replay decides the same.
var pure = []string{
	"distill/account", "distill/conclude", "distill/engine", "distill/replay", "distill/reward", "distill/signal", "distill/turn",
	"checkpoint/gate", "checkpoint/stats",
}

// world are the libraries by which a package reaches out of the process, or by which two runs could differ.
var world = []string{
	"crypto/rand", "database/sql", "hash/maphash", "log", "math/rand", "net", "os", "os/exec", "syscall", "testing",
	"github.com/jackc", "github.com/minio", "github.com/pressly", "github.com/prometheus", "github.com/segmentio", "github.com/twmb",
}

// clocks are the functions of package time that look at a clock, or at the machine's time zones.
var clocks = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Local", "LoadLocation",
}

// impurities says which packages that should be pure import the world, directly or through others of the module. A
// pure package that isn't there is said too: or a renamed folder would pass unseen.
func impurities(pkgs []pkg, roots []string) []string {
	byPath := map[string]pkg{}
	for _, p := range pkgs {
		byPath[p.ImportPath] = p
	}
	found := map[string]bool{}
	for _, r := range roots {
		if _, ok := byPath[module+"/"+r]; !ok {
			found[fmt.Sprintf("%s should be pure, and isn't there", r)] = true
		}
		for at, way := range reach(byPath, module+"/"+r) {
			for _, imported := range byPath[at].Imports {
				if slices.ContainsFunc(world, func(w string) bool { return ofLibrary(imported, w) }) {
					found[fmt.Sprintf("%s must be pure, but %s imports %s", r, way, imported)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// reach are the module's packages that a package imports, itself included, each with a way to it.
func reach(byPath map[string]pkg, from string) map[string]string {
	ways := map[string]string{from: from}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, imported := range byPath[queue[0]].Imports {
			if _, ours := inModule(imported); ours && ways[imported] == "" {
				ways[imported] = ways[queue[0]] + " → " + imported
				queue = append(queue, imported)
			}
		}
	}
	return ways
}

// clocked says where a file uses a clock.
func clocked(name string, src any) ([]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	local := ""
	for _, i := range file.Imports {
		if p, _ := strconv.Unquote(i.Path.Value); p == "time" {
			local = path.Base(p)
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	if local == "." {
		return []string{name + ": imports time without its name"}, nil
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && local != "" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local && slices.Contains(clocks, s.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: %s.%s", set.Position(s.Pos()), local, s.Sel.Name))
			}
		}
		return true
	})
	return found, nil
}

func TestDecisionsImportNoWorld(t *testing.T) {
	t.Parallel()
	for _, sentence := range impurities(packages(t), pure) {
		t.Error(sentence)
	}
}

func TestDecisionsReadNoClock(t *testing.T) {
	t.Parallel()
	byPath := map[string]pkg{}
	for _, p := range packages(t) {
		byPath[p.ImportPath] = p
	}
	seen := map[string]bool{}
	for _, r := range pure {
		for at := range reach(byPath, module+"/"+r) {
			for _, name := range byPath[at].GoFiles {
				file := filepath.Join(byPath[at].Dir, name)
				if seen[file] || strings.HasSuffix(name, ".pb.go") {
					continue
				}
				seen[file] = true
				found, err := clocked(file, nil)
				require.NoError(t, err)
				for _, place := range found {
					t.Errorf("%s: must be pure; take the time as an argument", place)
				}
			}
		}
	}
	require.Greater(t, len(seen), len(pure))
}

// An import of the world, at any distance, and a look at the clock turn the tests red.
func TestImpurityIsFound(t *testing.T) {
	t.Parallel()
	engine := func(imports ...string) pkg { return pkg{ImportPath: "millrace/distill/engine", Imports: imports} }
	for name, c := range map[string]struct {
		pkgs  []pkg
		wrong int
	}{
		"pure":             {[]pkg{engine("time", "math", "millrace/schemas/event"), {ImportPath: "millrace/schemas/event", Imports: []string{"fmt"}}}, 0},
		"files":            {[]pkg{engine("os")}, 1},
		"network":          {[]pkg{engine("net/http")}, 1},
		"database":         {[]pkg{engine("github.com/jackc/pgx/v5")}, 1},
		"random":           {[]pkg{engine("math/rand/v2")}, 1},
		"through another":  {[]pkg{engine("millrace/internal/x"), {ImportPath: "millrace/internal/x", Imports: []string{"millrace/internal/y"}}, {ImportPath: "millrace/internal/y", Imports: []string{"os"}}}, 1},
		"in tests only":    {[]pkg{{ImportPath: "millrace/distill/engine", TestImports: []string{"os"}}}, 0},
		"a missing folder": {nil, 1},
		"beside it":        {[]pkg{engine("fmt"), {ImportPath: "millrace/distill", Imports: []string{"os"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, impurities(c.pkgs, []string{"distill/engine"}), c.wrong)
		})
	}
	for src, wrong := range map[string]int{
		`package p; import "time"; var x = time.Now()`:                     1,
		`package p; import t "time"; var x = t.Since(t.Time{})`:            1,
		`package p; import "time"; var f = time.Now`:                       1,
		`package p; import . "time"; var x = Now()`:                        1,
		`package p; import "time"; var x = time.UnixMicro(1)`:              0,
		`package p; var time struct{ Now func() int }; var x = time.Now()`: 0,
	} {
		found, err := clocked("p.go", src)
		require.NoError(t, err)
		require.Len(t, found, wrong, src)
	}
}

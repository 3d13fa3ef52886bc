package distill

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inMutant tells a test binary that it is a mutant: it must not breed others.
const inMutant = "MILLRACE_MUTANT"

// TestMutationsOfTheProtocolAreFound breaks the protocol in two ways and requires that the crash tests turn red: a
// test that can't fail proves nothing.
func TestMutationsOfTheProtocolAreFound(t *testing.T) {
	if os.Getenv(inMutant) != "" || testing.Short() {
		t.Skip("only in the whole suite")
	}
	t.Parallel()
	type change struct{ file, from, to string }
	for name, changes := range map[string][]change{
		"no fence": {
			{"commit.go", "and epoch = $3 and committed_offset = $4`", "and $3::bigint is not null and $4::bigint is not null`"},
		},
		"commit before flush": {
			{"worker.go", "	batch      *batch\n}", "	batch      *batch\n	later      []func() error\n}"},
			{"flush.go", "	err := w.patiently(", "	w.later = append(w.later, func() error { return w.putNow(ctx, o, body) })\n	return w.reached(\"flush: \" + o.kind + \" written\")\n}\n\nfunc (w *worker) putNow(ctx context.Context, o object, body []byte) error {\n	err := w.patiently("},
			{"worker.go", "	w.metrics.committed(", "	for _, put := range w.later {\n		if err := put(); err != nil {\n			return err\n		}\n	}\n	w.later = nil\n	w.metrics.committed("},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			overlay := struct{ Replace map[string]string }{map[string]string{}}
			for _, c := range changes {
				original, err := filepath.Abs(c.file)
				require.NoError(t, err)
				source := original
				if already, ok := overlay.Replace[original]; ok {
					source = already
				}
				body, err := os.ReadFile(source)
				require.NoError(t, err)
				require.Equal(t, 1, strings.Count(string(body), c.from), "the mutation no longer fits %s", c.file)
				mutant := filepath.Join(dir, c.file)
				require.NoError(t, os.WriteFile(mutant, []byte(strings.Replace(string(body), c.from, c.to, 1)), 0o600))
				overlay.Replace[original] = mutant
			}
			body, err := json.Marshal(overlay)
			require.NoError(t, err)
			file := filepath.Join(dir, "overlay.json")
			require.NoError(t, os.WriteFile(file, body, 0o600))
			cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", file, "-run", "TestACrash|TestAZombie", ".")
			cmd.Env = append(os.Environ(), inMutant+"=1")
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "the mutant passed:\n%s", out)
			require.Contains(t, string(out), "--- FAIL", "the mutant must fail a test, not the compiler:\n%s", out)
			require.NotContains(t, string(out), "[build failed]")
		})
	}
}

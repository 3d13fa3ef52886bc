package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

func TestChecksOnACommandLine(t *testing.T) {
	t.Parallel()
	const test, lint, build, format = event.CheckKind_TEST, event.CheckKind_LINT, event.CheckKind_BUILD, event.CheckKind_FORMAT
	type kinds []event.CheckKind
	for line, want := range map[string]kinds{
		"go test ./...": {test},
		"cd api && go test ./... -run 'TestA|TestB'":                        {test},
		"cd web; FOO=1 BAR='a b' npx jest --ci 2>&1":                        {test},
		"go vet ./... && go test ./...":                                     {lint, test},
		"GOFLAGS=-mod=mod timeout 60 go test ./... | tee out.txt | tail -5": {test},
		"python -m pytest -q tests/":                                        {test},
		"poetry run pytest -x":                                              {test},
		"uv run python -m pytest":                                           {test},
		".venv/bin/python -m unittest discover":                             {test},
		"npm test":                                                          {test},
		"npm run test:unit -- --watch=false":                                {test},
		"pnpm --filter web test":                                            {test},
		"yarn jest src":                                                     {test},
		"bun test":                                                          {test},
		"./node_modules/.bin/vitest run":                                    {test},
		"cargo test --all 2>/dev/null":                                      {test},
		"cargo +nightly test":                                               {test},
		"./gradlew :app:test":                                               {test},
		"mvn -q -DskipITs verify":                                           {test},
		"make -C api -j4 test":                                              {test},
		"make lint test":                                                    {lint, test},
		"mise run fmt && mise run lint && mise run test":                    {lint, test},
		"docker compose exec -T app pytest":                                 {test},
		"eslint src --max-warnings 0":                                       {lint},
		"npx eslint .":                                                      {lint},
		"ruff check . && ruff format --check .":                             {lint, format},
		"ruff .":                                                            {lint},
		"mypy src":                                                          {lint},
		"golangci-lint run ./...":                                           {lint},
		"cargo clippy --all-targets -- -D warnings":                         {lint},
		"npx tsc --noEmit":                                                  {build},
		"go build ./...":                                                    {build},
		"npm run build":                                                     {build},
		"npx prettier --check .":                                            {format},
		"gofmt -l .":                                                        {format},
		"cargo fmt -- --check":                                              {format},
		"cargo fmt --all --check":                                           {format},
		"black --check src":                                                 {format},
		"# the tests\ngo test \\\n  ./...":                                  {test},
		"(cd web && npm test)":                                              {test},

		"gofmt -w .":                               nil,
		"prettier --write .":                       nil,
		"grep -r 'go test' .":                      nil,
		"git commit -m \"go test && npm test\"":    nil,
		"echo pytest":                              nil,
		"cat > run.sh <<'EOF'\ngo test ./...\nEOF": nil,
		"npm install":                              nil,
		"npm install jest":                         nil,
		"pip install pytest":                       nil,
		"pytest --version":                         nil,
		"which eslint":                             nil,
		"true || go test ./...":                    nil,
		"ls tests":                                 nil,
		"":                                         nil,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var got kinds
			for _, c := range checksOn(line) {
				got = append(got, c.kind)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestHowAChecksRunEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line string
		ok         bool
		output     string
		want       any // the failures; nil: not known
	}{
		{"go test passes", "go test ./...", true, "ok  \tx\t0.1s", 0},
		{"go test fails", "go test ./...", false, "Exit code 1\n--- FAIL: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\tx\t0.1s", 2},
		{"a package doesn't build", "go test ./...", false, "Exit code 1\nFAIL\tx [build failed]\nFAIL", 1},
		{"pytest", "pytest", false, "Exit code 1\n==== 3 failed, 5 passed, 1 error in 0.12s ====", 4},
		{"unittest", "python -m unittest", false, "Exit code 1\nFAILED (failures=2, errors=1)", 3},
		{"jest: tests, not suites", "npx jest", false, "Exit code 1\nTest Suites: 1 failed, 2 total\nTests:       4 failed, 9 passed, 13 total", 4},
		{"vitest", "npx vitest run", false, "Exit code 1\n Test Files  1 failed | 2 passed (3)\n      Tests  2 failed | 5 passed (7)", 2},
		{"cargo: a line for each crate", "cargo test", false, "Exit code 101\ntest result: ok. 3 passed; 0 failed;\ntest result: FAILED. 1 passed; 2 failed;", 2},
		{"mocha", "npx mocha", false, "Exit code 1\n  9 passing\n  2 failing", 2},
		{"eslint", "eslint .", false, "Exit code 1\n✖ 3 problems (2 errors, 1 warning)", 3},
		{"ruff", "ruff check", false, "Exit code 1\nFound 7 errors.", 7},
		{"mypy", "mypy .", false, "Exit code 1\nFound 2 errors in 1 file (checked 4 source files)", 2},
		{"tsc", "tsc --noEmit", false, "Exit code 2\na.ts(1,2): error TS2322: no\nb.ts(1,2): error TS2304: no", 2},
		{"clippy", "cargo clippy", false, "Exit code 101\nerror: could not compile `x` due to 3 previous errors", 3},
		{"golangci-lint", "golangci-lint run", false, "Exit code 1\n5 issues:\n* errcheck: 5", 5},
		{"prettier", "prettier --check .", false, "Exit code 1\n[warn] src/a.ts\n[warn] src/b.ts\n[warn] Code style issues found in 2 files.", 2},
		{"gofmt lists and exits with 0", "gofmt -l .", true, "a.go\nb.go\n", 2},
		{"gofmt lists nothing", "gofmt -l .", true, "", 0},
		{"it doesn't say how many", "make test", false, "Exit code 2", 1},
		{"the exit code is the pipe's, the output tells", "go test ./... | tail -3", true, "--- FAIL: TestA (0.00s)\nFAIL", 1},
		{"the exit code is the pipe's, it passed", "go test ./... | tail -3", true, "ok  \tx\t0.1s", 0},
		{"the exit code is the pipe's, nothing tells", "go test ./... | head -1", true, "...", nil},
		{"the exit code is echo's", "pytest; echo done", true, "=== 1 failed in 0.1s ===\ndone", 1},
		{"nobody minds", "npm test || true", true, "…", nil},
		{"cut off: it may have failed before", "go test ./... | head -3", true, "ok  \ta\t0.1s\nok  \tb\t0.1s", nil},
		{"filtered", "go test ./... | grep -v cached", true, "ok  \ta\t0.1s", nil},
		{"filtered, and it tells", "go test ./... 2>&1 | grep -E 'FAIL|ok'", true, "--- FAIL: TestA (0.0s)\nok  \tb\t0.1s", 1},
		{"it panics in between", "go test ./... | tail -30", true, "panic: x\nok  \ta\t0.1s", nil},
		{"an error that nobody counts", "rspec | tail -3", true, "3 examples, 0 failures, 1 error occurred outside of examples", nil},
		{"it is written down too", "go test ./... | tee log", true, "ok  \ta\t0.1s", 0},
		{"what it needs failed", "npm ci && npm test", false, "Exit code 1\nnpm ERR! network", nil},
		{"what it needs worked", "npm ci && npx jest", false, "Exit code 1\nTests:       4 failed, 9 passed, 13 total", 4},
		{"nothing before it fails", "cd web && export CI=1 && npm test", false, "Exit code 1", 1},
		{"gofmt beside another", "gofmt -l . && go vet ./...", true, "a.go\nb.go", 0},
		{"gofmt shows a difference", "gofmt -d .", true, "diff a.go\n@@ -1 +1 @@\n-a\n+b", nil},
		{"of two, which?", "go vet ./... && go test ./...", false, "Exit code 1\n--- FAIL: TestA", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checks := checksOn(c.line)
			require.NotEmpty(t, checks)
			n, known := checks[len(checks)-1].failures(c.ok, c.output, len(checks) == 1)
			if c.want == nil {
				require.False(t, known)
				return
			}
			require.True(t, known)
			require.EqualValues(t, c.want, n)
		})
	}
}

// Whatever stands on a command line or in a file: reading it ends, and nothing is found where nothing is.
func FuzzCommandLine(f *testing.F) {
	for _, seed := range []string{"cd a && go test ./... | tail -3", "make -C a test; rm 'b c'", "A='x\ny' git checkout -- a", "\"", "<<", "a\\\n&&&|", "rm -- -x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, s := range segments(line) {
			require.NotEmpty(t, s.text)
			touched(command(s.text))
		}
		for _, c := range checksOn(line) {
			_, known := c.failures(true, line, true)
			require.True(t, known || !c.exit)
		}
	})
}

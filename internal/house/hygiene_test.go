package house

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ofOneMachine are traces of the machine that a file was written on: folders that exist there alone, and the hosts
// from which its package managers happened to fetch. Folders of an example's user are told by their name.
var ofOneMachine = map[string]*regexp.Regexp{
	"a path of one machine": regexp.MustCompile(`(?m)(^|[^\w./-])/(work|workspace|builds)/(main|shared|src|\.)|/tmp/wt?/|/root/(go|\.[a-z])`),
	"a host of a registry": regexp.MustCompile(`(?i)proxy\.golang\.org|sum\.golang\.org|registry\.npmjs\.org|files\.pythonhosted\.org|` +
		`https?://[\w.-]*(artifactory|nexus|mirror|index-proxy)[\w.-]*[:/]|` +
		`https?://(10|127|192\.168|172\.(1[6-9]|2\d|3[01]))(\.\d+){2,3}:?\d*/(simple|pypi|npm|maven2?|goproxy)\b`),
}

// traces says what in a file is of one machine only; self are further strings that are, such as the module's own
// folder.
func traces(text []byte, self ...string) []string {
	var found []string
	for what, pattern := range ofOneMachine {
		if m := pattern.Find(text); m != nil {
			found = append(found, what+": "+strings.TrimSpace(string(m)))
		}
	}
	for _, s := range self {
		if bytes.Contains(text, []byte(s)) {
			found = append(found, "this machine's "+s)
		}
	}
	return found
}

func TestNothingIsOfOneMachine(t *testing.T) {
	t.Parallel()
	dir := root(t)
	for _, file := range tracked(t) {
		if file == "internal/house/hygiene_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}
		for _, trace := range traces(text, dir+"/") {
			t.Errorf("%s: %s", file, trace)
		}
	}
}

func TestTracesOfAMachineAreFound(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]int{
		"see /wo" + "rk/main/docs":                1,
		"go: downloading from proxy.golang.org":   1,
		"index-url = http://10.0.0.7:8080/simple": 1,
		"https://nexus.example.com/repository":    1,
		"/home/ci/checkout/x.go":                  1,
		"curl http://127.0.0.1:8080/v1/events":    0,
		"the folder /root can't be entered":       0,
		"docs/work/main.md":                       0,
		"a file of /home/dev/app/main.go":         0,
	} {
		require.Len(t, traces([]byte(text), "/home/ci/checkout/"), wrong, text)
	}
}

// Everybody may use it: the licence is the one that the README names.
func TestLicenceIsApache2(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "LICENSE"))
	require.NoError(t, err)
	for _, part := range []string{"Apache License", "Version 2.0, January 2004", "END OF TERMS AND CONDITIONS"} {
		require.Contains(t, string(text), part)
	}
}

// tracked are the files that are committed or would be, by their slash-separated paths.
func tracked(t *testing.T) []string {
	t.Helper()
	// The checkout may be another user's.
	cmd := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if info, err := os.Stat(filepath.Join(cmd.Dir, name)); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	require.NotEmpty(t, files)
	return files
}

package house

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

var (
	link       = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fenced     = regexp.MustCompile("(?ms)^```.*?^```")
	identifier = regexp.MustCompile("^`([A-Za-z_][A-Za-z0-9_.]*)`$")
	notSlug    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// deadLinks says which relative links of a document lead nowhere: no such file, no such heading, or, where the
// link's text is an identifier in backquotes and its target a Go file, no such word in it.
func deadLinks(tree fs.FS, document string) ([]string, error) {
	text, err := fs.ReadFile(tree, document)
	if err != nil {
		return nil, err
	}
	var dead []string
	for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		shown, target := m[1], m[2]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(target, "#")
		file = filepath.ToSlash(filepath.Join(filepath.Dir(document), file))
		if strings.HasPrefix(target, "#") {
			file = document
		}
		info, err := fs.Stat(tree, file)
		if err != nil {
			dead = append(dead, fmt.Sprintf("%s: [%s](%s): there is no %s", document, shown, target, file))
			continue
		}
		if info.IsDir() {
			continue
		}
		body, err := fs.ReadFile(tree, file)
		if err != nil {
			return nil, err
		}
		if anchor != "" && strings.HasSuffix(file, ".md") && !hasHeading(string(body), anchor) {
			dead = append(dead, fmt.Sprintf("%s: [%s](%s): %s has no heading #%s", document, shown, target, file, anchor))
		}
		if id := identifier.FindStringSubmatch(shown); id != nil && strings.HasSuffix(file, ".go") && !strings.HasSuffix(shown, ".go`") {
			for word := range strings.SplitSeq(id[1], ".") {
				if !regexp.MustCompile(`\b` + word + `\b`).Match(body) {
					dead = append(dead, fmt.Sprintf("%s: [%s](%s): %s knows no %s", document, shown, target, file, word))
				}
			}
		}
	}
	return dead, nil
}

// hasHeading finds an anchor as GitHub makes it: lower case, punctuation dropped, spaces to hyphens.
func hasHeading(markdown, anchor string) bool {
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(markdown, ""), -1) {
		slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), ""), " ", "-")
		if slug == strings.ToLower(anchor) {
			return true
		}
	}
	return false
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	tree := os.DirFS(root(t))
	documents := 0
	for _, file := range tracked(t) {
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		documents++
		dead, err := deadLinks(tree, file)
		require.NoError(t, err)
		for _, sentence := range dead {
			t.Error(sentence)
		}
	}
	require.Positive(t, documents)
}

func TestDeadLinksAreFound(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]int{
		"[b](b.md)":                           0,
		"[b](../docs/b.md)":                   0,
		"[folder](../docs)":                   0,
		"[b](b.md#two-words-really)":          0,
		"[here](#one)\n\n# One":               0,
		"[web](https://example.com/nowhere)":  0,
		"```\n[x](nowhere.md)\n```":           0,
		"[`worker.apply`](../code/worker.go)": 0,
		"[`worker.go`](../code/worker.go)":    0,
		"[b](c.md)":                           1,
		"[b](b.md#three)":                     1,
		"[here](#two)\n\n# One":               1,
		"[`worker.flush`](../code/worker.go)": 1,
		"[`TestGone`](../code/worker.go)":     1,
		"[x](../nowhere/) and [y](../code/x)": 2,
	} {
		tree := fstest.MapFS{
			"docs/a.md":      {Data: []byte(text)},
			"docs/b.md":      {Data: []byte("# B\n\n## Two words, really!\n")},
			"code/worker.go": {Data: []byte("package code\n\nfunc (w *worker) apply() {}\n")},
		}
		dead, err := deadLinks(tree, "docs/a.md")
		require.NoError(t, err)
		require.Len(t, dead, wrong, "%s: %q", text, dead)
	}
}

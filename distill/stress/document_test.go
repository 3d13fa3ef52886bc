package stress

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated parts of docs/stress.md")

// What docs/stress.md shows is what the code does.
func TestDocument(t *testing.T) {
	t.Parallel()
	const path = "../../docs/stress.md"
	doc, err := os.ReadFile(path)
	require.NoError(t, err)
	var open strings.Builder
	open.WriteString("| left open | on | where the policy ends |\n| --- | --- | --- |\n")
	for i, s := range seams(t) {
		for _, e := range ends(t)[i].Ends {
			if e.Task == s.task {
				_, where, _ := strings.Cut(e.where(), ": ")
				fmt.Fprintf(&open, "| %s | %s | %s |\n", s.name, e.Title, where)
			}
		}
	}
	fresh := string(doc)
	for name, text := range map[string]string{
		"shipped": "```\n" + climb(t, edited(t), Options{Seed: 1}).Text() + "```\n",
		"seams":   open.String(),
		"world":   worldTable(),
	} {
		begin := "<!-- generated: " + name + " -->\n"
		head, rest, ok := strings.Cut(fresh, begin)
		require.True(t, ok, name)
		_, tail, ok := strings.Cut(rest, "<!-- end -->")
		require.True(t, ok, name)
		fresh = head + begin + text + "<!-- end -->" + tail
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(fresh), 0o644))
		return
	}
	require.Equal(t, fresh, string(doc), "run go test ./distill/stress -run TestDocument -update")
}

// worldTable is every action of every task, and what users do then.
func worldTable() string {
	var b strings.Builder
	known := behaviours()
	b.WriteString("| task | action | what the user does then, in percent |\n| --- | --- | --- |\n")
	for _, task := range World() {
		for _, a := range task.Actions {
			var then []string
			for _, r := range a.Responses {
				if r.Probability > 0 {
					then = append(then, fmt.Sprintf("%s %.0f", known[r.Name].Title, 100*r.Probability))
				}
			}
			fmt.Fprintf(&b, "| %s (%.0f %%) | %s | %s |\n", task.Title, 100*task.Share, known[a.Name].Title, strings.Join(then, "; "))
		}
	}
	return b.String()
}

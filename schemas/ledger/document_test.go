package ledger

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated part of docs/ledger.md")

// What docs/ledger.md says of the columns is what the files hold.
func TestDocument(t *testing.T) {
	t.Parallel()
	const (
		path  = "../../docs/ledger.md"
		begin = "<!-- generated: columns -->\n"
		end   = "<!-- end -->"
	)
	doc, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(doc), begin)
	require.True(t, ok, begin)
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok, end)
	fresh := head + begin + columnsTable() + end + tail
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(fresh), 0o644))
		return
	}
	require.Equal(t, fresh, string(doc), "run go test ./schemas/ledger -run TestDocument -update")
	for _, c := range Columns {
		require.NotEmpty(t, c.Doc, "column %s is not explained", c.Name)
	}
	for _, d := range Dispositions {
		require.Contains(t, string(doc), fmt.Sprintf("| `%s` |", d))
	}
}

func columnsTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Schema version %s.\n\n| column | type | null | what it is |\n| --- | --- | --- | --- |\n", SchemaVersion)
	for _, c := range Columns {
		null := ""
		if c.Nullable {
			null = "null"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", c.Name, c.Type, null, strings.ReplaceAll(c.Doc, "|", `\|`))
	}
	return b.String()
}

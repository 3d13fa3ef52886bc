package reward_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/distill/rehearsal"
	"millrace/distill/reward/lint"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

var update = flag.Bool("update", false, "write the generated parts of docs/reward.md")

// What docs/reward.md shows is what the code does.
func TestDocument(t *testing.T) {
	t.Parallel()
	const path = "../../docs/reward.md"
	doc, err := os.ReadFile(path)
	require.NoError(t, err)
	parsed, spec := rewardspec.Default()
	scenarios, _ := rewardspec.DefaultScenarios()
	earned, err := rehearsal.Earnings(parsed, spec, scenarios)
	require.NoError(t, err)
	var signals strings.Builder
	signals.WriteString("| signal | what it is; null if not observed |\n| --- | --- |\n")
	for _, d := range ledger.Signals {
		fmt.Fprintf(&signals, "| `%s` | %s |\n", d.Name, d.Doc)
	}
	var findings strings.Builder
	findings.WriteString("| code | level | what it means | what to do |\n| --- | --- | --- | --- |\n")
	for _, c := range lint.Codes {
		fmt.Fprintf(&findings, "| `%s` | %s | %s | %s |\n", c.Name, c.Levels, strings.ReplaceAll(c.Means, "||", `\|\|`), c.Do)
	}
	fresh := string(doc)
	for name, text := range map[string]string{
		"spec":       "```yaml\n" + string(spec) + "```\n",
		"behaviours": rehearsal.Table(earned),
		"signals":    signals.String(),
		"findings":   findings.String(),
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
	require.Equal(t, fresh, string(doc), "run go test ./distill/reward -run TestDocument -update")
}

package dialect

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBrokenLinesAreNamed(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("testdata/broken.jsonl")
	require.NoError(t, err)
	r := readTexts(t, [2]string{"broken.jsonl", string(body)})
	var lines []string
	for _, p := range r.NotUnderstood {
		lines = append(lines, p.String())
	}
	require.Equal(t, []string{
		"broken.jsonl:2  not JSON (a NUL byte)",
		"broken.jsonl:5  no sessionId",
		"broken.jsonl:6  sessionId is a number, not a text",
		"broken.jsonl:7  uuid is a number, not a text",
		`broken.jsonl:8  timestamp "yesterday" is no time`,
		"broken.jsonl:9  no timestamp",
		"broken.jsonl:10  timestamp 1950-01-01T00:00:00Z is outside the years 2000 to 2100",
		"broken.jsonl:11  content is a number, neither a text nor a list of blocks",
		"broken.jsonl:12  content[1] is a text, not a block",
		"broken.jsonl:14  not JSON (it ends in the middle of a value)",
		"broken.jsonl:15  not an object (a text)",
		"broken.jsonl:16  not an object (a number)",
		"broken.jsonl:17  not an object (a list)",
		"broken.jsonl:18  not an object (null)",
		"broken.jsonl:19  no type",
		"broken.jsonl:21  an assistant's message without its model: it can't be counted under a policy version",
		"broken.jsonl:22  a tool call without id or name",
		"broken.jsonl:23  a tool result without the id of its call",
		"broken.jsonl:25  uuid b1 stands at broken.jsonl:1 with other content",
	}, lines)
	require.Equal(t, map[string]int{"blank line": 1, `unknown type "hologram"`: 1}, r.Ignored)
	require.Equal(t, 5, r.Read)
	require.Len(t, starts(r), 2)
	require.Len(t, steps(r), 2, "the neighbours of broken lines, and both objects of a line")
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"2026-01-02T10:00:04.5Z"`, `"2026-01-02T11:00:04.5+01:00"`, `"2026-01-02T10:00:04.5"`, `"2026-01-02 10:00:04.5"`,
		`1767348004.5`, `1767348004500`, `1767348004500000`, `"1767348004.5"`, `"1767348004500"`,
	} {
		at, err := instant([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, "2026-01-02T10:00:04.5Z", at.Format("2006-01-02T15:04:05.999Z"), text)
	}
	for _, text := range []string{``, `null`, `true`, `"soon"`, `1e999`, `-1`, `0`, `1e18`, `{}`, `"9999-01-01T00:00:00Z"`, `NaN`} {
		_, err := instant([]byte(text))
		require.Error(t, err, text)
	}
}

func TestAFileThatIsOneDocument(t *testing.T) {
	t.Parallel()
	s := newTranscript("s1").prompt("do it").says("m1", "Done.")
	pretty := "[\n" + strings.ReplaceAll(strings.Join(s.lines, ",\n"), `,"`, ",\n  \"") + "\n]\n"
	r := readTexts(t, [2]string{"s1.json", pretty})
	require.Empty(t, r.NotUnderstood)
	require.Len(t, ends(r), 1)
	require.Equal(t, strings.Count(pretty, "\n"), r.Lines)
	require.Equal(t, 2, r.Ignored["layout"])

	r = readTexts(t, [2]string{"empty.jsonl", ""}, [2]string{"blank.jsonl", "\n\n"})
	require.Equal(t, 2, r.Lines)
	require.Equal(t, 2, r.NotUnderstoodLines(), "nothing says what it is")
}

func FuzzClaudeCode(f *testing.F) {
	body, err := os.ReadFile("testdata/broken.jsonl")
	require.NoError(f, err)
	f.Add(body, body[:len(body)/2])
	s := newTranscript("s1").prompt("do it")
	applied(s, "m1", "e1", "package a\n", "a", "b").prompt("[Request interrupted by user]").prompt("do it")
	applied(s, "m2", "e2", "package b\n", "b", "c").calls("m3", "c3", "Bash", object{"command": "go test"}).result("c3", "Exit code 1", true, nil).
		says("m4", "Shall I?")
	f.Add([]byte(s.text()), []byte(s.text()[:len(s.text())-30]))
	f.Add([]byte("[\n"+strings.Join(s.lines, ",\n")+"\n]"), []byte(`{"type":"user"}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		for _, format := range []string{Auto, ClaudeCode} {
			reader, err := NewReader(format)
			require.NoError(t, err)
			require.NoError(t, reader.Add("one.jsonl", strings.NewReader(string(one))))
			require.NoError(t, reader.Add("two.jsonl", strings.NewReader(string(two))))
			checkResult(t, reader.Result())
		}
	})
}

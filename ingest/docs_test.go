package ingest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/ingest"
)

// Every event that the manual shows is accepted.
func TestManualIsTrue(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../docs/events.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(manual), -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		contentType := "application/json"
		if strings.Contains(block[1], "}\n{") {
			contentType = "application/x-ndjson"
		}
		w, answer := setup(t, ingest.Config{}).send(t, contentType, block[1])
		require.Equal(t, 200, w.Code, w.Body.String())
		require.Positive(t, answer.Accepted)
	}
}

// Every reason that the code gives is explained in the manual.
func TestManualIsComplete(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../docs/events.md")
	require.NoError(t, err)
	for _, file := range []string{"answer.go", "eventjson/decode.go", "../schemas/event/validate.go"} {
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		reasons := regexp.MustCompile(`Reason\w+ += "(\w+)"`).FindAllStringSubmatch(string(code), -1)
		require.NotEmpty(t, reasons, file)
		for _, reason := range reasons {
			require.Contains(t, string(manual), "`"+reason[1]+"`", file)
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
)

func TestCandidateSubmitSendsWhatTheFolderHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"submission.json":         `{"cut": "cut-1", "version": "v2", "base": "v1", "format": "lora", "run": "r", "step": 3, "rows_trained": 7}`,
		"model/b.safetensors":     "b",
		"adapter_config.json":     "a",
		"model/submission.json":   "not the one",
		"model/a/deeper/file.bin": "",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var got candidate.Submission
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/candidates" || r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&got) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(`{"id": "cand-1", "version": "v2b", "state": "submitted"}`))
	}))
	t.Cleanup(server.Close)

	var text bytes.Buffer
	c := CandidateSubmit{Dir: dir, Version: "v2b"}
	err := c.Run(t.Context(), &Output{Out: &text}, &CandidateCommand{Remote: Remote{Server: server.URL}})
	require.NoError(t, err)
	require.Equal(t, "cand-1 (v2b) is submitted; next: millrace candidate show cand-1\n", text.String())
	require.Equal(t, "v2b", got.Version, "a flag is stronger than the file")
	require.Equal(t, "file://"+filepath.ToSlash(dir), got.WeightsURI)
	require.EqualValues(t, 7, got.RowsTrained)
	paths := []string{}
	for _, f := range got.Files {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{"adapter_config.json", "model/a/deeper/file.bin", "model/b.safetensors", "model/submission.json"}, paths)
	require.Equal(t, candidate.RootDigest(got.Files), got.RootDigest)

	require.NoError(t, os.Remove(filepath.Join(dir, "submission.json")))
	err = c.Run(t.Context(), &Output{Out: &text}, &CandidateCommand{})
	require.ErrorContains(t, err, "submission.json is missing")
}

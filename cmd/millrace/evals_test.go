package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint"
	"millrace/checkpoint/evals"
	"millrace/checkpoint/release"
	"millrace/checkpoint/webhook"
	"millrace/internal/auth"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
)

// checkpointServer is the checkpoint role's API over a database in which base is live.
func checkpointServer(t *testing.T) (url string) {
	t.Helper()
	pool := postgrestest.New(t)
	now := time.Date(2026, 3, 1, 7, 0, 0, 0, time.UTC)
	require.NoError(t, postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return release.Init(t.Context(), tx, "base", "me", now) }))
	suites, err := evals.Parse([]byte("apiVersion: millrace/v1\nkind: EvalSuites\nsuites: [{name: swe, bounds: [{metric: solved, min: 0.3}]}]\n"))
	require.NoError(t, err)
	api := &checkpoint.API{
		DB: pool, Now: func() time.Time { return now.Add(time.Hour) }, Topic: "events", Partitions: 1, Log: slog.New(slog.DiscardHandler), Suites: suites,
		Webhooks: []webhook.Endpoint{{Name: "rollout", URL: "https://rollout.example/hook"}},
		Guard: func(auth.Scope) func(http.Handler) http.Handler {
			return func(next http.Handler) http.Handler { return next }
		},
	}
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

func TestReleaseManagersCommands(t *testing.T) {
	t.Parallel()
	server := checkpointServer(t)
	file := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"harness_version": "1", "metrics": {"solved": 0.25}}`), 0o600))
	millrace := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := run(t.Context(), append(args, "--server", server), &out, &errs)
		return code, out.String(), errs.String()
	}
	for _, c := range []struct {
		args       []string
		code       int
		says, errs string
	}{
		{[]string{"evals", "list"}, exitDone, "", ""},
		{[]string{"evals", "report", "--suite", "swe", "--of-version", "base", file}, exitDone, "swe on base: solved 0.25 (harness 1)", ""},
		{[]string{"evals", "list"}, exitDone, "swe  base  2026-03-01 08:00", ""},
		{[]string{"evals", "report", "--suite", "nope", "--of-version", "base", file}, exitFailed, "", `suite "nope" is not configured`},
		{[]string{"evals", "report", "--suite", "swe", "--of-version", "other", file}, exitFailed, "", `"other" is not registered`},
		{[]string{"evals", "report", "--suite", "swe", "--candidate", "cand-9", file}, exitFailed, "", "cand-9"},
		{[]string{"evals", "report", "--suite", "swe", file}, exitUsage, "", "either --candidate or --of-version"},
		{[]string{"evals", "report", "--suite", "swe", "--of-version", "base", "nowhere.json"}, exitFailed, "", "nowhere.json"},
		{[]string{"release", "pause", "--why", "incident 7"}, exitDone, "no cut and no test begins", ""},
		{[]string{"release", "pause", "--why", "incident 8"}, exitFailed, "", "incident 7"},
		{[]string{"release", "status"}, exitDone, "PAUSED", ""},
		{[]string{"release", "resume", "--why", "over"}, exitDone, "the loop goes on", ""},
		{[]string{"release", "resume", "--why", "over"}, exitFailed, "", "isn't paused"},
		{[]string{"release", "served", "user-17"}, exitDone, "user-17 at 2026-03-01T08:00:00Z: base (live, release 1)", ""},
		{[]string{"release", "served", "user-17", "--at", "2020-01-01"}, exitFailed, "", "no checkpoint is live yet"},
		{[]string{"release", "anchor"}, exitDone, "nothing is held back", ""},
		{[]string{"release", "anchor", "base"}, exitUsage, "", "--why is missing"},
		{[]string{"release", "anchor", "nope", "--why", "creep"}, exitFailed, "", "only a version that was live"},
		{[]string{"release", "anchor", "base", "--share", "0.9", "--why", "creep"}, exitFailed, "", "share 0.9"},
		{[]string{"release", "anchor", "base", "--why", "creep"}, exitDone, "hold-1: 5 % of the units stay on base", ""},
		{[]string{"release", "anchor", "base", "--why", "creep"}, exitFailed, "", "it stays for 7 days"},
		{[]string{"release", "anchor", "--end", "--why", "over"}, exitDone, "nothing is held back", ""},
		{[]string{"audit"}, exitDone, "loop.paused", ""},
		{[]string{"audit", "--object", "nothing"}, exitDone, "nothing was done", ""},
		{[]string{"audit", "--limit", "0"}, exitFailed, "", "limit"},
		{[]string{"webhook", "deliveries"}, exitDone, "rollout  https://rollout.example/hook  everything", ""},
		{[]string{"webhook", "redeliver", "rollout", "release/9"}, exitFailed, "", "release/9"},
	} {
		code, out, errs := millrace(c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, errs)
		require.Contains(t, out, c.says, c.args)
		require.Contains(t, errs, c.errs, c.args)
	}
	code, out, errs := millrace("audit", "-o", "json")
	require.Equal(t, exitDone, code, errs)
	require.True(t, json.Valid([]byte(out)))
	require.NotContains(t, out, "null")
}

// A suite's command is run with what it is to look at, and what it prints is what is reported.
func TestEvalsRun(t *testing.T) {
	t.Parallel()
	server := checkpointServer(t)
	for name, c := range map[string]struct {
		script     string
		flags      []string
		code       int
		says, errs string
	}{
		"good":        {`echo "looking at $MILLRACE_VERSION in $MILLRACE_SUITE" >&2; echo '{"harness_version": "1", "metrics": {"solved": 0.5}}'`, nil, exitDone, "solved 0.5", "looking at base in swe"},
		"no JSON":     {`echo done`, nil, exitFailed, "", "printed no report"},
		"two values":  {`echo '{"harness_version": "1", "metrics": {"solved": 0.5}} {}'`, nil, exitFailed, "", "more than one JSON value"},
		"nothing":     {`true`, nil, exitFailed, "", "printed no report"},
		"misspelt":    {`echo '{"harness": "1", "metrics": {"solved": 0.5}}'`, nil, exitFailed, "", `"harness"`},
		"no harness":  {`echo '{"metrics": {"solved": 0.5}}'`, nil, exitFailed, "", "harness_version is missing"},
		"another one": {`echo '{"suite": "other", "harness_version": "1", "metrics": {"solved": 0.5}}'`, nil, exitFailed, "", "are said by flags"},
		"it fails":    {`echo '{"harness_version": "1", "metrics": {"solved": 0.5}}'; exit 3`, nil, exitFailed, "", "exit status 3; nothing was reported"},
		"it hangs":    {`exec sleep 60`, []string{"--timeout", "300ms"}, exitFailed, "", "longer than --timeout"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"evals", "run", "--server", server, "--suite", "swe", "--of-version", "base"}, c.flags...)
		code := run(t.Context(), append(args, "--", "sh", "-c", c.script), &out, &errs)
		require.Equal(t, c.code, code, "%s: %s", name, errs.String())
		require.Contains(t, out.String(), c.says, name)
		require.Contains(t, errs.String(), c.errs, name)
	}
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"evals", "run", "--server", server, "--suite", "swe", "--of-version", "base", "--", "/nowhere/bench"}, &out, &errs))
	require.Contains(t, errs.String(), "/nowhere/bench")
}

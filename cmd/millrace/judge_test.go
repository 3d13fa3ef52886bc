package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/distill/rehearsal"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/event"
)

// model plays an OpenAI-compatible server that always answers the same.
type model struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func playModel(t *testing.T, status int) *model {
	t.Helper()
	m := &model{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.bodies = append(m.bodies, string(body))
		m.mu.Unlock()
		w.WriteHeader(status)
		fmt.Fprint(w, `{"choices":[{"message":{"content":"{\"class\":\"correction\",\"polarity\":-1,\"confidence\":0.9}"}}]}`)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *model) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bodies
}

// transcript of a user who says something secret, then something that structure can't tell.
func wordyTranscript(t *testing.T) string {
	t.Helper()
	line := func(kind, id, parent, at, message string) string {
		return fmt.Sprintf(`{"parentUuid":%s,"isSidechain":false,"cwd":"/home/ann/shop","sessionId":"b0c1d2e3-0000-4000-8000-000000000009","version":"2.1.30","type":%q,"message":%s,"uuid":%q,"timestamp":"2026-03-03T09:%s.000Z"}`+"\n",
			parent, kind, message, id, at)
	}
	says := func(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }
	answers := `{"id":"m%d","type":"message","role":"assistant","model":"x-1","content":[{"type":"text","text":"Words of the agent."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":5}}`
	text := line("user", "u1", "null", "01:00", says("why does https://ann:hunter2@db/shop refuse us?")) +
		line("assistant", "a1", `"u1"`, "01:10", fmt.Sprintf(answers, 1)) +
		line("user", "u2", `"a1"`, "02:00", says("that is not what I meant, look at the pool")) +
		line("assistant", "a2", `"u2"`, "02:10", fmt.Sprintf(answers, 2))
	path := filepath.Join(t.TempDir(), "wordy.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestScoreAsksAJudgeOnlyWhenTold(t *testing.T) {
	m := playModel(t, http.StatusOK)
	path := wordyTranscript(t)
	do := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run(t.Context(), append([]string{"score", path}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	url := m.URL + "/v1"

	// What is set for the role says nothing to score.
	t.Setenv("MILLRACE_JUDGE_URL", url)
	t.Setenv("MILLRACE_JUDGE_MODEL", "m-1")
	code, stdout, _ := do()
	require.Equal(t, exitDone, code)
	require.Empty(t, m.asked(), "nothing leaves without the flag")
	require.NotContains(t, stdout, "sent to")

	code, stdout, stderr := do("--judge-url", url)
	require.Equal(t, exitDone, code, stderr)
	require.Len(t, m.asked(), 3, "one pair, three votes")
	require.Contains(t, stdout, "sent to "+url+": pairs of requests 1, in calls 3, bytes ")
	require.Contains(t, stdout, "judge/m-1/1: verdicts 1, abstentions 0")
	require.Contains(t, stdout, "balanced")
	for _, body := range m.asked() {
		require.Contains(t, body, "look at the pool")
		require.NotContains(t, body, "hunter2", "secrets are taken out")
		require.NotContains(t, body, "Words of the agent")
		require.NotContains(t, body, "/home/ann")
	}

	code, stdout, _ = do("--judge-url", url, "-o", "json")
	require.Equal(t, exitDone, code)
	var card struct {
		Judged struct {
			URL                    string
			Pairs, Calls, Verdicts int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &card))
	require.Equal(t, url, card.Judged.URL)
	require.Equal(t, [3]int{1, 3, 1}, [3]int{card.Judged.Pairs, card.Judged.Calls, card.Judged.Verdicts})

	code, stdout, stderr = do("--judge-url", url, "-o", "json", "--turn", "u1")
	require.Equal(t, exitDone, code)
	require.Contains(t, stdout, `"follow_up":"correction"`)
	require.Contains(t, stderr, "sent to "+url)
	require.NoError(t, json.Unmarshal([]byte(stdout), &card), "and the output stays one object")
}

func TestScoreWithoutAnybodyThere(t *testing.T) {
	t.Parallel()
	m := playModel(t, http.StatusUnauthorized)
	path := filepath.Join(t.TempDir(), "many")
	require.NoError(t, os.Mkdir(path, 0o755))
	body, err := os.ReadFile(wordyTranscript(t))
	require.NoError(t, err)
	for i := range 2 * mostAway {
		other := strings.NewReplacer("000000000009", fmt.Sprintf("00000000001%d", i), "T09:", fmt.Sprintf("T1%d:", i), `"u1"`, fmt.Sprintf(`"u1-%d"`, i), `"u2"`, fmt.Sprintf(`"u2-%d"`, i),
			`"a1"`, fmt.Sprintf(`"a1-%d"`, i), `"a2"`, fmt.Sprintf(`"a2-%d"`, i), `"m1"`, fmt.Sprintf(`"m1-%d"`, i), `"m2"`, fmt.Sprintf(`"m2-%d"`, i)).Replace(string(body))
		require.NoError(t, os.WriteFile(filepath.Join(path, fmt.Sprintf("%d.jsonl", i)), []byte(other), 0o600))
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"score", path, "--judge-url", m.URL + "/v1", "--judge-model", "m-1", "--judge-votes", "1", "--judge-calls", "1"}, &out, &errs)
	require.Equal(t, exitFailed, code, "%s%s", errs.String(), out.String())
	require.Contains(t, errs.String(), "401")
	require.Contains(t, out.String(), "nobody there for 3")
	require.Len(t, m.asked(), mostAway, "it gives up")
}

func TestJudgeFlags(t *testing.T) {
	t.Parallel()
	for wrong, args := range map[string][]string{
		"--judge-url needs --judge-model":       {"score", "x", "--judge-url", "http://127.0.0.1:1/v1"},
		"give the API's":                        {"score", "x", "--judge-url", "localhost", "--judge-model", "m"},
		"does not go with --demo":               {"up", "--demo", "--judge-url", "http://127.0.0.1:1/v1", "--judge-model", "m"},
		"votes are 11":                          {"up", "--judge-url", "http://127.0.0.1:1/v1", "--judge-model", "m", "--judge-votes", "11"},
		"missing flags: --judge-url=URL":        {"run", "judge"},
		"missing: --control-key (or MILLRACE_C": {"run", "judge", "--judge-url", "http://127.0.0.1:1/v1", "--judge-model", "m"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), args, &out, &errs), wrong)
		require.Contains(t, errs.String(), wrong)
	}
}

// The whole way in one process: a request over HTTP, the model, the log, the settled row. A kill in between asks nothing
// anew, and makes no dead letter.
func TestJudgeInTheHouse(t *testing.T) {
	t.Parallel()
	m := playModel(t, http.StatusOK)
	spec := quickSpec(t)
	body, err := os.ReadFile(spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(spec, bytes.Replace(body, []byte("settle_after: 3s\n"), []byte("settle_after: 10s\n"), 1), 0o600))
	i := newInstance(t, "--spec", spec, "--partitions", "2", "--lateness", "300ms", "--batch-interval", "300ms",
		"--judge-url", m.URL+"/v1", "--judge-model", "m-1", "--judge-votes", "1")
	i.start()
	i.ready()
	s := rehearsal.NewStream("s", "unit", time.Now())
	s.Start(event.Intent_ASK, 0, "why is the parser slow?").Step(50, 100*time.Millisecond).End(event.EndReason_COMPLETED, false)
	s.Wait(100*time.Millisecond).Start(event.Intent_ASK, 0, "that is not what I meant, look at the lexer")
	for range 10 { // the log's time goes on with its events
		s.Step(50, 200*time.Millisecond)
	}
	play(t, i, &traffic{events: s.Events, now: s.Events[0].GetOccurredAt().AsTime()})
	i.await(waitMost, "a verdict", func() bool {
		return strings.Contains(i.metrics(), `millrace_judge_verdicts_total{class="correction",polarity="-1"} 1`)
	})

	i.kill()
	i.start()
	i.ready()
	i.await(waitMost, "the log to be read again", func() bool { return strings.Contains(i.metrics(), "millrace_judge_caught_up 2") })
	pool, err := postgres.Open(t.Context(), i.postgresURL(), "test")
	require.NoError(t, err)
	defer pool.Close()
	store, err := objstore.NewFolder(filepath.Join(i.data, "objects"))
	require.NoError(t, err)
	var made product
	i.await(waitMost, "the turn to settle", func() bool {
		made = readProduct(t, pool, store)
		return len(made.rows) > 0
	})
	row := made.rows[0]
	require.Equal(t, "s-t1", row.TurnID)
	require.Equal(t, "judge/m-1/1", row.ClassifierVersion)
	require.Equal(t, "correction", row.FollowUpClass)
	require.Len(t, m.asked(), 1)
	for _, records := range made.tables["records"] {
		require.NotContains(t, records, "dead_letter")
	}
	require.Zero(t, i.stop())
	i.output.requireClean(t)
}

// metrics is what /metrics says; "" if nobody answers.
func (i *instance) metrics() string {
	answer, err := http.Get("http://" + i.listen + "/metrics")
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(i.t, err)
	return string(body)
}

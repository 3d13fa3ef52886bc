package privacy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/ingest/privacy"
	"millrace/schemas/event"
)

func TestText(t *testing.T) {
	t.Parallel()
	// The samples are put together here, so that no scanner of this repository takes them for real ones.
	for name, c := range map[string]struct {
		text, want string
		found      int
	}{
		"plain":            {"nothing to see: task-force, sk-loading-indicator-container-x", "nothing to see: task-force, sk-loading-indicator-container-x", 0},
		"aws":              {"id=" + "AKIA" + "IOSFODNN7EXAMPLE;", "id=[redacted:aws-key];", 1},
		"github":           {"ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789", "[redacted:github-token]", 1},
		"gitlab":           {"glpat-" + "abcdefghij0123456789", "[redacted:gitlab-token]", 1},
		"slack":            {"xoxb-" + "123456789012-abc", "[redacted:slack-token]", 1},
		"google":           {"AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "[redacted:google-key]", 1},
		"stripe":           {"sk_live_" + "abcdefghij0123456789", "[redacted:stripe-key]", 1},
		"model key, twice": {"sk-" + "Abc0123456789abcdefghij and sk-" + "proj-ABC0123456789abcdefghij", "[redacted:model-api-key] and [redacted:model-api-key]", 2},
		"huggingface":      {"hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ012345", "[redacted:huggingface-token]", 1},
		"npm":              {"npm_" + "abcdefghijklmnopqrstuvwxyz0123456789", "[redacted:npm-token]", 1},
		"millrace":         {"mr_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789_-abcde", "[redacted:millrace-token]", 1},
		"jwt":              {"eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.c2lnbmF0dXJl", "[redacted:jwt]", 1},
		"url":              {"postgres://ada:" + "hunter2@db:5432/x", "postgres://ada:[redacted:url-password]@db:5432/x", 1},
		"url, no password": {"http://host:80/a@b", "http://host:80/a@b", 0},
		"private key":      {"a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted:private-key]\nb", 1},
		"cut private key":  {"-----BEGIN PRIVATE KEY-----\nMIIE\nabc", "[redacted:private-key]", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := privacy.Text(c.text)
			require.Equal(t, c.want, got)
			require.Equal(t, c.found, found)
			again, found := privacy.Text(got)
			require.Equal(t, got, again, "redacting twice changes nothing")
			require.Zero(t, found)
		})
	}
}

// Whether the model's arguments were valid JSON must not depend on the secrets inside.
func TestRedactionKeepsJSON(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"-----BEGIN PRIVATE KEY-----\nMIIE\nabc=\n-----END PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\nMIIE\nabc=\n",
		"postgres://ada:hunter2@db/x",
		"ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
	} {
		arguments, err := json.Marshal(map[string]string{"text": secret, "after": "x"})
		require.NoError(t, err)
		clean, found := privacy.Text(string(arguments))
		require.Equal(t, 1, found, secret)
		var back map[string]string
		require.NoError(t, json.Unmarshal([]byte(clean), &back), clean)
		require.Equal(t, "x", back["after"])
		broken, found := privacy.Text(string(arguments[:len(arguments)-1]))
		require.Equal(t, 1, found)
		require.False(t, json.Valid([]byte(broken)))
	}
}

// full is every body that carries content, with content in it.
func full() []*event.SessionEvent {
	repository := &event.Repository{IdHash: "r"}
	bodies := []*event.SessionEvent{
		{Body: &event.SessionEvent_SessionStarted{SessionStarted: &event.SessionStarted{Client: "ide", Repository: repository}}},
		{Body: &event.SessionEvent_TurnStarted{TurnStarted: &event.TurnStarted{Text: "words", Context: &event.TurnContext{Repository: repository}}}},
		{Body: &event.SessionEvent_StepCompleted{StepCompleted: &event.StepCompleted{
			Step: 1, PolicyVersion: "p", PromptTokenIds: []byte{1, 0, 0, 0}, OutputTokenIds: []byte{1, 0, 0, 0},
			OutputLogprobs: []byte{0, 0, 0, 0}, OutputMask: []byte{1}, Sidecar: "s3://x",
			VersionSpans: []*event.VersionSpan{{Version: "p", Start: 0, End: 1}},
		}}},
		{Body: &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{CallId: "c", Tool: "t", Raw: &event.ToolCalled_Arguments{Arguments: "{}"}}}},
		{Body: &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{CallId: "c", Outcome: 1, Output: "words"}}},
		{Body: &event.SessionEvent_EditProposed{EditProposed: &event.EditProposed{EditId: "e", FileHash: "f", Language: "go"}}},
		{Body: &event.SessionEvent_EditObserved{EditObserved: &event.EditObserved{EditId: "e", Hunks: []*event.Hunk{{Ai: "words"}}}}},
		{Body: &event.SessionEvent_InfrastructureReported{InfrastructureReported: &event.InfrastructureReported{Status: 1, Detail: "words"}}},
	}
	for _, e := range bodies {
		e.Source, e.EventId, e.SessionId, e.TurnId, e.UnitId = "ide", "e", "s", "t", "u"
		e.OccurredAt = &timestamppb.Timestamp{Seconds: 1_790_000_000}
	}
	return bodies
}

func TestStrip(t *testing.T) {
	t.Parallel()
	for level, want := range map[event.Privacy]int{
		event.Privacy_PRIVACY_UNSPECIFIED: 0,
		event.Privacy_FULL:                0,
		event.Privacy_NO_CONTENT:          10,
		event.Privacy_METRICS_ONLY:        14,
	} {
		removed := 0
		for _, e := range full() {
			e.Privacy = level
			before := e.CloneVT()
			require.Nil(t, event.Validate(e))
			n := privacy.Strip(e)
			removed += n
			require.Nil(t, event.Validate(e), "stripped events stay valid: %v", e)
			require.Equal(t, n == 0, proto.Equal(before, e))
			text, err := e.MarshalVT()
			require.NoError(t, err)
			if want > 0 {
				require.NotContains(t, string(text), "words")
			}
			require.Zero(t, privacy.Strip(e))
		}
		require.Equal(t, want, removed, level)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	key := "AKIA" + "IOSFODNN7EXAMPLE"
	for _, e := range []*event.SessionEvent{
		{Body: &event.SessionEvent_TurnStarted{TurnStarted: &event.TurnStarted{Text: key}}},
		{Body: &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{Raw: &event.ToolCalled_Arguments{Arguments: key}}}},
		{Body: &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{Raw: &event.ToolCalled_ArgumentsBytes{ArgumentsBytes: []byte(key + "\xff")}}}},
		{Body: &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{Output: key}}},
		{Body: &event.SessionEvent_EditObserved{EditObserved: &event.EditObserved{Hunks: []*event.Hunk{{Before: key}}}}},
		{Body: &event.SessionEvent_InfrastructureReported{InfrastructureReported: &event.InfrastructureReported{Detail: key}}},
	} {
		require.Equal(t, 1, privacy.Redact(e))
		stored, err := e.MarshalVT()
		require.NoError(t, err)
		require.NotContains(t, string(stored), key)
		require.Zero(t, privacy.Redact(e))
	}
	require.Zero(t, privacy.Redact(&event.SessionEvent{Body: &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{}}}))
}

package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	cases := []struct{ want, name, head string }{
		{ClaudeCode, "s.jsonl", `{"type":"summary","summary":"x","leafUuid":"u"}`},
		{ClaudeCode, "s.jsonl", "\"noise\"\n{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"s\"}"},
		{ClaudeCode, "s.jsonl", `{"type":"something-new","uuid":"u","parentUuid":null}`},
		{ClaudeCode, "s.json", "[\n  {\n    \"type\": \"user\",\n    \"uuid\": \"u\",\n    \"parentUuid\": null\n  }"},
		{CodexRollout, "r.jsonl", `{"timestamp":"t","type":"session_meta","payload":{}}`},
		{CodexExec, "e.jsonl", `{"type":"thread.started","thread_id":"x"}`},
		{GeminiCLI, "g.json", "{\n  \"sessionId\": \"x\",\n  \"messages\": [\n    {\"id\": \"1\""},
		{SWEAgent, "a.traj", "{\n \"environment\": \"swe\",\n \"trajectory\": [ {"},
		{SWEAgent, "cut.traj", "{\n \"env"},
		{MiniSWEAgent, "m.json", "[\n  {\n    \"role\": \"system\",\n    \"content\": \"x"},
		{MiniSWEAgent, "m.json", `{"info":{},"messages":[],"trajectory_format":"mini-swe-agent-1.1"}`},
		{OpenHands, "o.jsonl", `{"id":"x","timestamp":"t","source":"agent","kind":"ActionEvent"}`},
		{OTelGenAI, "t.json", `{"resourceSpans":[]}`},
		{TauBench, "t.jsonl", `{"task_id":1,"trial":0,"reward":1,"traj":[]}`},
		{"", "x.json", `{"a":1}`},
		{"", "x.jsonl", "1\n2\n"},
		{"", "x.jsonl", ""},
	}
	for _, c := range cases {
		require.Equal(t, c.want, Detect([]byte(c.head), c.name), c.head)
	}
}

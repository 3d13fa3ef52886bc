package dialect

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
)

// The formats that are known by sight. Only Formats can be read.
const (
	ClaudeCode   = "claude-code"
	CodexRollout = "codex-rollout"
	CodexExec    = "codex-exec"
	GeminiCLI    = "gemini-cli"
	SWEAgent     = "swe-agent"
	MiniSWEAgent = "mini-swe-agent"
	OpenHands    = "openhands"
	OTelGenAI    = "otel-genai"
	TauBench     = "tau-bench"
)

// HeadBytes is how much of a file Detect wants to see.
const HeadBytes = 256 << 10

// Detect says which format a file looks like by its head and its name; "" if none that is known.
func Detect(head []byte, name string) string {
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	votes := map[string]int{}
	best, n := "", 0
	for i, line := range bytes.Split(head, []byte("\n")) {
		if i == 64 {
			break
		}
		var object map[string]json.RawMessage
		if json.NewDecoder(bytes.NewReader(line)).Decode(&object) != nil {
			continue
		}
		if format := formatOf(object); format != "" {
			if votes[format]++; votes[format] > n {
				best, n = format, votes[format]
			}
		}
	}
	if best != "" {
		return best
	}
	return wholeFormat(head, name)
}

// formatOf tells the format of one object, by the keys that only that format has together.
func formatOf(o map[string]json.RawMessage) string {
	kind := jsonString(o["type"])
	has := func(keys ...string) bool {
		for _, k := range keys {
			if _, ok := o[k]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("payload", "timestamp") && kind != "":
		return CodexRollout
	case strings.HasPrefix(kind, "thread.") || strings.HasPrefix(kind, "turn.") || (strings.HasPrefix(kind, "item.") && has("item")):
		return CodexExec
	case has("sessionId", "messages"), has("projectHash", "messages"), has("startTime", "lastUpdated", "messages"):
		return GeminiCLI
	case jsonString(o["trajectory_format"]) != "":
		return MiniSWEAgent
	case has("trajectory") && (has("history") || has("environment") || has("info")):
		return SWEAgent
	case has("resourceSpans"), has("resourceLogs"), has("trace", "observations"), has("traceId", "spanId"):
		return OTelGenAI
	case has("traj"), has("messages_display"), has("task_id", "reward"):
		return TauBench
	case has("id", "timestamp", "source") && (has("kind") || has("action") || has("observation") || has("args")):
		return OpenHands
	case has("instance_id", "history"):
		return OpenHands
	case claudeCodeTypes[kind] && (has("uuid") || has("sessionId") || has("leafUuid") || has("messageId")):
		return ClaudeCode
	case has("uuid", "parentUuid") || has("sessionId", "uuid"):
		return ClaudeCode
	}
	return ""
}

// wholeFormat looks at a file that is one JSON document over many lines, of which the end may be missing here.
func wholeFormat(head []byte, name string) string {
	body := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case bytes.HasPrefix(body, []byte("{")):
		if format := formatOf(topKeys(body)); format != "" {
			return format
		}
	case bytes.HasPrefix(body, []byte("[")):
		first := topKeys(bytes.TrimLeft(body[1:], " \t\r\n["))
		if format := formatOf(first); format != "" {
			return format
		}
		if _, role := first["role"]; role {
			return MiniSWEAgent
		}
	}
	if filepath.Ext(name) == ".traj" {
		return SWEAgent
	}
	return ""
}

// topKeys are the keys of the object that begins here, as far as it can be read.
func topKeys(body []byte) map[string]json.RawMessage {
	keys := map[string]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return keys
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		name, _ := key.(string)
		keys[name] = nil
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break
		}
		keys[name] = value
	}
	return keys
}

func jsonString(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

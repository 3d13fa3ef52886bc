package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// ccKind says what a line of a user or an assistant is.
type ccKind string

const (
	ccPrompt    ccKind = "prompt"    // a request of the user
	ccCommand   ccKind = "command"   // a command of the client; a request if the agent answered it
	ccLocal     ccKind = "local"     // the output of a command that the client ran by itself
	ccResults   ccKind = "results"   // tool results
	ccInterrupt ccKind = "interrupt" // the user stopped the agent
	ccStopped   ccKind = "stopped"   // a hook of the harness stopped the request
	ccAssistant ccKind = "assistant" // a block, or more, of a generation
	ccError     ccKind = "error"     // the harness's note that the provider failed
)

// place is where a line stands.
type place struct {
	tally   *ccTally
	session string
}

// ccRecord is a line of a user or an assistant, as far as it is of use.
type ccRecord struct {
	kind         ccKind
	uuid, parent string
	session      string
	at           time.Time
	order        int // in which it was read
	places       []place
	content      string // digest
	sidechain    bool
	version, cwd string
	permission   string // the mode that the user works in

	text    string // of a prompt, a command, an interrupt or an error
	blocks  []ccBlock
	results []ccResult
	message string // id of the generation
	model   string
	stop    string
	usage   ccUsage

	turn *ccTurn
}

// ccBlock is a part of a generation.
type ccBlock struct {
	kind  string // text, thinking, tool_use
	text  string
	size  int // in characters, about
	id    string
	tool  string
	input json.RawMessage
}

// ccResult is what a tool returned.
type ccResult struct {
	id      string
	text    string
	failed  bool
	details json.RawMessage // toolUseResult: of the only result of its line
}

// ccUsage is a generation's count of tokens, as the provider gave it.
type ccUsage struct {
	prompt, cached, output          uint32
	hasPrompt, hasCached, hasOutput bool
}

// parseRecord reads a user's or an assistant's line. A verdict says that it is no record, and why.
func parseRecord(o map[string]json.RawMessage) (*ccRecord, verdict) {
	fail := func(format string, args ...any) (*ccRecord, verdict) {
		return nil, verdict{problem: fmt.Sprintf(format, args...)}
	}
	r := &ccRecord{
		session:    jsonString(o["sessionId"]),
		sidechain:  jsonTrue(o["isSidechain"]),
		version:    jsonString(o["version"]),
		cwd:        jsonString(o["cwd"]),
		permission: jsonString(o["permissionMode"]),
	}
	var message map[string]json.RawMessage
	if raw, ok := o["message"]; !ok {
		return fail("no message")
	} else if json.Unmarshal(raw, &message) != nil || message == nil {
		return fail("message is %s, not an object", kindOf(raw))
	}
	body, ok := message["content"]
	if !ok {
		return fail("message has no content")
	}
	if r.session == "" {
		return fail("no sessionId")
	}
	var err error
	if r.at, err = instant(o["timestamp"]); err != nil {
		return fail("%s", err)
	}
	r.content = digestOf(body)
	blocks, reason := blocksOf(body)
	if reason != "" {
		return fail("%s", reason)
	}
	if jsonString(o["type"]) == "assistant" {
		return r.assistant(o, message, blocks)
	}
	return r.user(o, blocks)
}

func (r *ccRecord) assistant(o, message map[string]json.RawMessage, blocks []map[string]json.RawMessage) (*ccRecord, verdict) {
	r.kind, r.model = ccAssistant, jsonString(message["model"])
	r.message, r.stop = jsonString(message["id"]), jsonString(message["stop_reason"])
	r.usage = usageOf(message["usage"])
	for _, b := range blocks {
		block := ccBlock{kind: jsonString(b["type"])}
		switch block.kind {
		case "text":
			block.text = jsonString(b["text"])
			block.size = len(block.text)
		case "thinking", "redacted_thinking":
			block.kind, block.size = "thinking", len(jsonString(b["thinking"]))
		case "tool_use", "server_tool_use":
			block.kind, block.id, block.tool, block.input = "tool_use", jsonString(b["id"]), jsonString(b["name"]), b["input"]
			block.size = len(block.input)
			if block.id == "" || block.tool == "" {
				return nil, verdict{problem: "a tool call without id or name"}
			}
		default:
			continue
		}
		r.blocks = append(r.blocks, block)
	}
	text := r.finalText()
	if r.model == "<synthetic>" || jsonTrue(o["isApiErrorMessage"]) {
		if !jsonTrue(o["isApiErrorMessage"]) && !strings.HasPrefix(text, "API Error") {
			return nil, verdict{ignored: "synthetic message"}
		}
		r.kind, r.text = ccError, text
		return r, verdict{}
	}
	if strings.HasPrefix(text, "API Error: ") && len(r.blocks) == 1 {
		r.kind, r.text = ccError, text // older versions put the provider's error in the model's mouth
		return r, verdict{}
	}
	if r.model == "" {
		return nil, verdict{problem: "an assistant's message without its model: it can't be counted under a policy version"}
	}
	return r, verdict{}
}

// finalText is the last text block.
func (r *ccRecord) finalText() string {
	for i := len(r.blocks) - 1; i >= 0; i-- {
		if r.blocks[i].kind == "text" {
			return r.blocks[i].text
		}
	}
	return ""
}

func (r *ccRecord) user(o map[string]json.RawMessage, blocks []map[string]json.RawMessage) (*ccRecord, verdict) {
	var texts []string
	images := false
	for _, b := range blocks {
		switch jsonString(b["type"]) {
		case "tool_result":
			id := jsonString(b["tool_use_id"])
			if id == "" {
				return nil, verdict{problem: "a tool result without the id of its call"}
			}
			r.results = append(r.results, ccResult{id: id, text: resultText(b["content"]), failed: jsonTrue(b["is_error"])})
		case "text":
			if text := jsonString(b["text"]); !isContext(text) {
				texts = append(texts, text)
			}
		case "image", "document":
			images = true
		}
	}
	if len(r.results) == 1 {
		r.results[0].details = o["toolUseResult"]
	}
	r.text = strings.TrimSpace(strings.Join(texts, "\n"))
	switch {
	case len(r.results) > 0:
		r.kind = ccResults
	case jsonTrue(o["isCompactSummary"]), strings.HasPrefix(r.text, "This session is being continued from a previous conversation"):
		return nil, verdict{ignored: "compaction summary"}
	case jsonTrue(o["isMeta"]), jsonTrue(o["isVisibleInTranscriptOnly"]), strings.HasPrefix(r.text, "Caveat: The messages below were generated by the user"):
		return nil, verdict{ignored: "meta"}
	case strings.HasPrefix(r.text, "[Request interrupted by user"):
		r.kind = ccInterrupt
	case strings.HasPrefix(r.text, "Operation stopped by hook"):
		r.kind = ccStopped
	case strings.HasPrefix(r.text, "<command-name>"), strings.HasPrefix(r.text, "<command-message>"):
		r.kind = ccCommand
	case strings.HasPrefix(r.text, "<local-command-stdout>"), strings.HasPrefix(r.text, "<local-command-stderr>"):
		r.kind = ccLocal
	case strings.HasPrefix(r.text, "<bash-"):
		return nil, verdict{ignored: "the user's shell"}
	case strings.HasPrefix(r.text, "<task-notification>"), strings.HasPrefix(r.text, "<user-prompt-submit-hook>"):
		return nil, verdict{ignored: "notification"}
	case r.text == "" && !images:
		return nil, verdict{ignored: "empty message"}
	default:
		r.kind = ccPrompt
	}
	return r, verdict{}
}

// isContext says whether a text block is what the client adds to a request, not the user's words.
func isContext(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "<system-reminder>") || strings.HasPrefix(text, "<ide_")
}

// blocksOf are the blocks of a message's content; a plain text is one of them.
func blocksOf(raw json.RawMessage) (blocks []map[string]json.RawMessage, reason string) {
	switch raw[0] {
	case '"':
		return []map[string]json.RawMessage{{"type": json.RawMessage(`"text"`), "text": raw}}, ""
	case '[':
	default:
		return nil, "content is " + kindOf(raw) + ", neither a text nor a list of blocks"
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, "content can't be read"
	}
	for i, item := range list {
		var block map[string]json.RawMessage
		if json.Unmarshal(item, &block) != nil || block == nil {
			return nil, fmt.Sprintf("content[%d] is %s, not a block", i, kindOf(item))
		}
		blocks = append(blocks, block)
	}
	return blocks, ""
}

// resultText is a tool result's text: a string, or the text parts of a list.
func resultText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	if raw[0] == '"' {
		return jsonString(raw)
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var texts []string
	for _, raw := range parts {
		var part map[string]json.RawMessage
		if json.Unmarshal(raw, &part) == nil && jsonString(part["type"]) == "text" {
			texts = append(texts, jsonString(part["text"]))
		}
	}
	return strings.Join(texts, "\n")
}

// usageOf reads the counts that are whole and not negative; everything else is not known.
func usageOf(raw json.RawMessage) ccUsage {
	var o map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &o) != nil {
		return ccUsage{}
	}
	number := func(name string) (uint32, bool) {
		var n uint32
		raw, ok := o[name]
		if !ok || string(raw) == "null" || json.Unmarshal(raw, &n) != nil {
			return 0, false
		}
		return n, true
	}
	var u ccUsage
	input, hasInput := number("input_tokens")
	created, _ := number("cache_creation_input_tokens")
	u.cached, u.hasCached = number("cache_read_input_tokens")
	if hasInput && uint64(input)+uint64(created)+uint64(u.cached) < 1<<32 {
		u.prompt, u.hasPrompt = input+created+u.cached, true
	}
	u.output, u.hasOutput = number("output_tokens")
	return u
}

func jsonTrue(raw json.RawMessage) bool { return string(raw) == "true" || string(raw) == `"true"` }

// digestOf is a digest of a JSON value, whatever its layout.
func digestOf(raw json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		compact.Reset()
		compact.Write(raw)
	}
	sum := sha256.Sum256(compact.Bytes())
	return hex.EncodeToString(sum[:16])
}

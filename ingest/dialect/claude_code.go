package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// claudeCodeTypes are the types of line that are known: true for what is read, or ignored by its name.
var claudeCodeTypes = map[string]bool{
	"user": true, "assistant": true, "system": true, "summary": true, "file-history-snapshot": true, "progress": true,
	"queue-operation": true, "last-prompt": true, "pr-link": true, "attachment": true, "custom-title": true, "ai-title": true,
	"agent-name": true, "permission-mode": true, "mode": true,
}

// claudeCode reads Claude Code's session files (JSON lines).
//
// Identity. A line is known by its uuid, or, if a fork wrote its history anew, by its time, type and content. The
// first place at which it is seen is its own; every further one (a cumulative transcript, a fork) gives the very same
// events again, at that place: the engine counts them as duplicates and each turn stands once.
//
// Sessions. A fork or a resumed session copies its history under a new session id. Shared lines belong to the session
// whose own lines begin first. What the copy adds keeps the original's session id if the original had ended by then (it
// was resumed), so that a request is still seen as the follow-up of the turn before it; else (both went on) its own.
type claudeCode struct {
	strict bool // read every file as this format, whatever it looks like
	out    *Result

	records []*ccRecord
	byUUID  map[string]*ccRecord
	byCopy  map[string]*ccRecord // by time, type and content
	links   map[string]string    // uuid → parent of lines that are ignored
	tallies []*ccTally
}

// ccTally is what became of a line (or of the lines of one value in a document).
type ccTally struct {
	file        string
	line, lines int
	verdict     verdict
	uses        int // records that stand here and are used
}

func newClaudeCode(strict bool) *claudeCode {
	return &claudeCode{
		strict: strict,
		out:    &Result{Format: ClaudeCode, Ignored: map[string]int{}},
		byUUID: map[string]*ccRecord{},
		byCopy: map[string]*ccRecord{},
		links:  map[string]string{},
	}
}

// verdict is what became of a value, or of a line: the worst of its values.
type verdict struct {
	read    bool
	ignored string // the kind
	problem string // the reason
}

func (v verdict) worse(o verdict) verdict {
	switch {
	case v.problem != "":
		return v
	case o.problem != "":
		return o
	case v.read:
		return v
	case o.read:
		return o
	case v.ignored != "":
		return v
	}
	return o
}

// Add reads one file.
func (c *claudeCode) Add(file string, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	c.out.Files++
	lines := bytes.Split(data, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1] // what follows the last line feed is no line
	}
	c.out.Lines += len(lines)
	if len(lines) == 0 {
		return nil
	}
	if format := Detect(data[:min(len(data), HeadBytes)], file); format != ClaudeCode && !c.strict {
		reason := "not understood: no known agent's format"
		if format != "" {
			reason = "not understood: looks like " + format
		}
		c.out.FilesNotUnderstood++
		c.problem(file, 1, len(lines), reason)
		return nil
	}
	if !json.Valid(lines[0]) && json.Valid(data) {
		c.addDocument(file, data, len(lines))
		return nil
	}
	for i, line := range lines {
		c.addLine(c.tally(file, i+1, 1), line)
	}
	return nil
}

func (c *claudeCode) tally(file string, line, lines int) *ccTally {
	t := &ccTally{file: filepath.ToSlash(file), line: line, lines: lines}
	c.tallies = append(c.tallies, t)
	return t
}

// account closes the books on the lines.
func (c *claudeCode) account() {
	for _, t := range c.tallies {
		switch v := t.verdict; {
		case v.problem != "":
			c.problem(t.file, t.line, t.lines, v.problem)
		case t.uses > 0:
			c.out.Read += t.lines
		default:
			c.out.Ignored[v.ignored] += t.lines
		}
	}
}

func (c *claudeCode) problem(file string, line, lines int, reason string) {
	c.out.NotUnderstood = append(c.out.NotUnderstood, Problem{File: file, Line: line, Lines: lines, Reason: reason})
}

// addLine reads the values of a line: one as a rule, two where a line feed got lost.
func (c *claudeCode) addLine(t *ccTally, line []byte) {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")))
	if len(line) == 0 {
		t.verdict = verdict{ignored: "blank line"}
		return
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.verdict = t.verdict.worse(verdict{problem: notJSON(line, err)})
			return
		}
		t.verdict = t.verdict.worse(c.addValue(t, raw))
	}
}

func notJSON(line []byte, err error) string {
	switch {
	case bytes.IndexByte(line, 0) >= 0:
		return "not JSON (a NUL byte)"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "not JSON (it ends in the middle of a value)"
	}
	return "not JSON (" + strings.TrimPrefix(err.Error(), "json: ") + ")"
}

// addDocument reads a file that is one JSON value over many lines: an object, or an array of them. A line that no
// object stands on is layout.
func (c *claudeCode) addDocument(file string, data []byte, lines int) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		_, _ = dec.Token() // the document is valid JSON
	}
	lineAt := func(offset int64) int { return min(lines, 1+bytes.Count(data[:offset], []byte("\n"))) }
	done, used := 0, 0
	for dec.More() {
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			break
		}
		end := dec.InputOffset()
		first, last := lineAt(end-int64(len(raw))), lineAt(end)
		t := c.tally(file, first, last-max(first-1, done))
		t.verdict = c.addValue(t, raw)
		done, used = last, used+t.lines
	}
	c.tally(file, 1, lines-used).verdict = verdict{ignored: "layout"}
}

// addValue reads one JSON value of a file.
func (c *claudeCode) addValue(t *ccTally, raw json.RawMessage) verdict {
	if raw[0] != '{' {
		return verdict{problem: "not an object (" + kindOf(raw) + ")"}
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		return verdict{problem: notJSON(raw, err)}
	}
	kind := jsonString(o["type"])
	uuid, parent := jsonString(o["uuid"]), jsonString(o["parentUuid"])
	if parent == "" {
		parent = jsonString(o["logicalParentUuid"])
	}
	if kind != "user" && kind != "assistant" {
		if uuid != "" {
			c.links[uuid] = parent
		}
		return verdict{ignored: ignoredKind(o, kind), problem: unknownKind(o, kind)}
	}
	for _, name := range []string{"uuid", "sessionId"} {
		if value, ok := o[name]; ok && jsonString(value) == "" {
			return verdict{problem: fmt.Sprintf("%s is %s, not a text", name, kindOf(value))}
		}
	}
	record, v := parseRecord(o)
	if v != (verdict{}) {
		if uuid != "" && v.problem == "" {
			c.links[uuid] = parent
		}
		return v
	}
	record.uuid, record.parent = uuid, parent
	record.places = []place{{tally: t, session: record.session}}
	return c.keep(record)
}

// keep files a record under its identity; a copy adds a place to the record that is known.
func (c *claudeCode) keep(r *ccRecord) verdict {
	copied := fmt.Sprintf("%d %s %s", r.at.UnixMicro(), r.kind, r.content)
	known := c.byCopy[copied]
	if r.uuid != "" {
		if same := c.byUUID[r.uuid]; same != nil {
			if same.content != r.content {
				return verdict{problem: fmt.Sprintf("uuid %.40s stands at %s:%d with other content", r.uuid, same.places[0].tally.file, same.places[0].tally.line)}
			}
			known = same
		}
	}
	if known != nil {
		r.places[0].tally.uses++
		known.places = append(known.places, r.places...)
		if r.uuid != "" {
			c.byUUID[r.uuid] = known
		}
		return verdict{read: true}
	}
	r.places[0].tally.uses++
	r.order = len(c.records)
	c.records = append(c.records, r)
	c.byCopy[copied] = r
	if r.uuid == "" {
		sum := sha256.Sum256([]byte(r.session + "\x00" + copied))
		r.uuid = "line-" + hex.EncodeToString(sum[:12])
	}
	c.byUUID[r.uuid] = r
	return verdict{read: true}
}

func ignoredKind(o map[string]json.RawMessage, kind string) string {
	switch {
	case kind == "system":
		if sub := jsonString(o["subtype"]); sub != "" {
			return fmt.Sprintf("system %.40s", sub)
		}
		return kind
	case claudeCodeTypes[kind]:
		return kind
	case unknownKind(o, kind) == "":
		return fmt.Sprintf("unknown type %.40q", kind)
	}
	return ""
}

// unknownKind is why a line that is neither a user's nor an assistant's can't be taken. Types that a later version
// brought are passed over if they have the marks of a line.
func unknownKind(o map[string]json.RawMessage, kind string) string {
	if claudeCodeTypes[kind] {
		return ""
	}
	if kind == "" {
		return "no type"
	}
	for _, mark := range []string{"uuid", "sessionId"} {
		if jsonString(o[mark]) != "" {
			return ""
		}
	}
	return fmt.Sprintf("unknown type %.40q, without uuid and sessionId", kind)
}

// kindOf names a JSON value's kind.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "a text"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

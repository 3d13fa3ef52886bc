package dialect

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf16"

	"millrace/schemas/event"
)

// ccFiles follows the files of a session: which ones the agent has read, and what became of its edits.
type ccFiles struct {
	known     map[string]bool // read or written before
	proposals map[*ccCall]*ccEdit
	watched   map[string]*watchedFile
	answered  time.Time             // when the last answer came
	deletions []*event.EditProposed // files that the last command deleted
}

// ccEdit is a call of an edit tool: the texts that it replaces, and by what.
type ccEdit struct {
	path   string
	pairs  []replacement
	whole  bool // the file's whole text
	detail editDetails
}

type replacement struct {
	before, ai string
	all        bool
}

// editDetails are what the client adds to the answer of an edit or read tool.
type editDetails struct {
	Type         string  `json:"type"`
	OriginalFile *string `json:"originalFile"`
	UserModified bool    `json:"userModified"`
	File         struct {
		Path       string `json:"filePath"`
		Content    string `json:"content"`
		StartLine  int    `json:"startLine"`
		NumLines   int    `json:"numLines"`
		TotalLines int    `json:"totalLines"`
	} `json:"file"`
}

func newFiles() *ccFiles {
	return &ccFiles{known: map[string]bool{}, proposals: map[*ccCall]*ccEdit{}, watched: map[string]*watchedFile{}}
}

func detailsOf(call *ccCall) editDetails {
	var d editDetails
	if call.result != nil && len(call.result.details) > 0 && call.result.details[0] == '{' {
		_ = json.Unmarshal(call.result.details, &d) // what has another type is not known
	}
	return d
}

// proposed is the edit that a call proposes; nil if the call is no edit, or too malformed to be one.
func (f *ccFiles) proposed(call *ccCall) *event.EditProposed {
	edit := parseEdit(call)
	if edit == nil {
		return nil
	}
	f.proposals[call] = edit
	body := &event.EditProposed{
		EditId: call.id, CallId: call.id, FileHash: digestOf([]byte(edit.path)), Language: languageOf(edit.path),
		Applied: call.outcome.class == event.ToolOutcome_OK,
		Shown:   call.outcome.class == event.ToolOutcome_USER_REJECTED || edit.detail.UserModified,
	}
	tests, isTest := 0, testPath.MatchString(filepath.ToSlash(edit.path))
	for _, p := range edit.pairs {
		n := uint32(1)
		if p.all && edit.detail.OriginalFile != nil && p.before != "" {
			n = max(1, uint32(strings.Count(*edit.detail.OriginalFile, p.before)))
		}
		before, ai := trimCommon(p.before, p.ai)
		body.CharactersAdded += n * utf16Length(ai)
		body.CharactersRemoved += n * utf16Length(before)
		body.LinesAdded += n * lineCount(ai)
		body.LinesRemoved += n * lineCount(before)
		tests += weakenedTests(p.before, p.ai)
		isTest = isTest || testMark.MatchString(p.before)
	}
	if isTest {
		removed := uint32(max(0, tests))
		body.TestsRemoved = &removed
	}
	if !edit.creates() {
		read := f.known[edit.path]
		body.FileReadBefore = &read
	}
	return body
}

// creates says whether the edit makes a new file, as far as the transcript shows it.
func (e *ccEdit) creates() bool {
	if e.whole {
		return e.detail.OriginalFile == nil
	}
	return len(e.pairs) > 0 && e.pairs[0].before == ""
}

// minAsked is how long an edit is waited for if a person was asked: writing a file takes milliseconds.
const minAsked = 5 * time.Second

// waited is for how long the client waited for a call since the generation was complete and the answer before it had come.
func (f *ccFiles) waited(call *ccCall) time.Duration {
	since := f.answered
	if call.step != nil && call.step.last.at.After(since) {
		since = call.step.last.at
	}
	return call.answered.at.Sub(since)
}

// decided is who decided on an edit, where the transcript shows it: a refusal is the user's, a changed edit too, and one
// for which the client waited as long as people do; in the modes in which nobody is asked it was accepted by the client.
// Otherwise a written edit is only known to be applied.
func (f *ccFiles) decided(t *ccTurn, call *ccCall) *event.EditDecided {
	edit := f.proposals[call]
	if edit == nil {
		return nil
	}
	shown := true
	body := &event.EditDecided{EditId: call.id}
	switch call.outcome.class {
	case event.ToolOutcome_USER_REJECTED:
		body.Decision, body.Source, body.Shown, body.WithText = event.Decision_REJECTED, event.DecisionSource_USER, &shown, call.outcome.withText
	case event.ToolOutcome_USER_ABORTED:
		body.Decision, body.Source = event.Decision_REJECTED, event.DecisionSource_ABORT
	case event.ToolOutcome_POLICY_DENIED:
		body.Decision, body.Source = event.Decision_REJECTED, event.DecisionSource_CONFIG
		if strings.Contains(strings.ToLower(call.result.text), "hook") {
			body.Source = event.DecisionSource_HOOK
		}
	case event.ToolOutcome_OK:
		switch {
		case edit.detail.UserModified:
			body.Decision, body.Source, body.Shown = event.Decision_PARTLY, event.DecisionSource_USER, &shown
		case t.anchor.permission == "acceptEdits", t.anchor.permission == "bypassPermissions":
			body.Decision, body.Source = event.Decision_ACCEPTED, event.DecisionSource_AUTO_ACCEPT
		case f.waited(call) >= minAsked && len(call.answered.results) == 1: // of several answers in a line any may have taken so long
			body.Decision, body.Source, body.Shown = event.Decision_ACCEPTED, event.DecisionSource_USER, &shown
		default:
			return nil
		}
	default:
		return nil
	}
	return body
}

// parseEdit reads the arguments of an edit tool.
func parseEdit(call *ccCall) *ccEdit {
	if toolKind(call.block.tool) != event.ToolKind_EDIT_FILE || malformed(call.invalid) {
		return nil
	}
	var a struct {
		Path     *string `json:"file_path"`
		Notebook *string `json:"notebook_path"`
		Old      string  `json:"old_string"`
		New      string  `json:"new_string"`
		All      bool    `json:"replace_all"`
		Content  *string `json:"content"`
		Source   string  `json:"new_source"`
		Edits    []struct {
			Old string `json:"old_string"`
			New string `json:"new_string"`
			All bool   `json:"replace_all"`
		} `json:"edits"`
	}
	if json.Unmarshal(call.block.input, &a) != nil {
		return nil
	}
	edit := &ccEdit{detail: detailsOf(call)}
	switch {
	case a.Path != nil:
		edit.path = *a.Path
	case a.Notebook != nil:
		edit.path = *a.Notebook
	default:
		return nil
	}
	// A plan is the client's own note, not the user's code.
	if strings.Contains(filepath.ToSlash(edit.path), "/.claude/plans/") {
		return nil
	}
	switch {
	case call.block.tool == "Write" && a.Content != nil:
		before := ""
		if edit.detail.OriginalFile != nil {
			before = *edit.detail.OriginalFile
		}
		edit.whole, edit.pairs = true, []replacement{{before: before, ai: *a.Content}}
	case call.block.tool == "NotebookEdit":
		edit.pairs = []replacement{{ai: a.Source}}
	case len(a.Edits) > 0:
		for _, e := range a.Edits {
			edit.pairs = append(edit.pairs, replacement{e.Old, e.New, e.All})
		}
	default:
		edit.pairs = []replacement{{a.Old, a.New, a.All}}
	}
	return edit
}

// trimCommon cuts off what both texts begin and end with.
func trimCommon(a, b string) (string, string) {
	p := commonPrefix(a, b)
	a, b = a[p:], b[p:]
	s := commonSuffix(a, b)
	return a[:len(a)-s], b[:len(b)-s]
}

// commonPrefix is its length in bytes; it may end inside a character, which then counts as changed on both sides.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	for i > 0 && i < n && a[i]&0xC0 == 0x80 {
		i--
	}
	return i
}

func commonSuffix(a, b string) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	for i > 0 && a[len(a)-i]&0xC0 == 0x80 {
		i--
	}
	return i
}

// utf16Length is the length in the units in which editors count.
func utf16Length(s string) uint32 {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return uint32(n)
}

func lineCount(s string) uint32 {
	if s == "" {
		return 0
	}
	n := strings.Count(s, "\n")
	if !strings.HasSuffix(s, "\n") {
		n++
	}
	return uint32(n)
}

var (
	testPath = regexp.MustCompile(`(^|/)(tests?|__tests__|spec)/|_test\.\w+$|(^|/)test_[^/]+\.py$|\.(test|spec)\.\w+$|Tests?\.(java|kt|cs)$`)
	testMark = regexp.MustCompile(`(?m)^\s*(func Test\w+\(|(async )?def test_\w+\(|#\[(tokio::)?test\]|@Test\b|(it|test)\()`)
	skipMark = regexp.MustCompile(`\bt\.Skip(Now|f)?\(|@(pytest\.mark|unittest)\.skip|\b(it|test|describe)\.skip\(|\bx(it|describe)\(|#\[ignore\]|@(Disabled|Ignore)\b`)
)

// assertions by their kind: of a test that is written in another way, one kind's go and another's come.
var assertions = []*regexp.Regexp{
	regexp.MustCompile(`\bt\.(Error|Fatal)f?\(`), regexp.MustCompile(`\brequire\.\w+\(`), regexp.MustCompile(`\bassert\w*\b`),
	regexp.MustCompile(`\bexpect\(`), regexp.MustCompile(`\bself\.assert\w+\(`),
}

var loop = regexp.MustCompile(`\b(for|each|forEach|parametrize)\b`)

// comment is a line's comment: what stands there tests nothing.
var comment = regexp.MustCompile(`(?m)(?:^|\s)(?://|#(?:[^\[]|$)|--\s).*$|/\*(?s:.*?)\*/`)

// weakenedTests counts the tests that an edit removed, began to skip, or of which it took assertions away without putting
// others (or a loop) in their place. That an assertion holds whatever happens can't be told.
func weakenedTests(before, ai string) int {
	before, ai = comment.ReplaceAllString(before, ""), comment.ReplaceAllString(ai, "")
	count := func(mark *regexp.Regexp, text string) int { return len(mark.FindAllStringIndex(text, -1)) }
	removed := count(testMark, before) - count(testMark, ai)
	skipped := count(skipMark, ai) - count(skipMark, before)
	weakened := max(0, removed) + max(0, skipped)
	if weakened > 0 || count(loop, ai) > count(loop, before) {
		return weakened
	}
	dropped := 0
	for _, kind := range assertions {
		switch lost := count(kind, before) - count(kind, ai); {
		case lost < 0:
			return weakened
		case lost > 0:
			dropped = 1
		}
	}
	return dropped
}

var languages = map[string]string{
	".go": "go", ".py": "python", ".ts": "typescript", ".tsx": "typescript", ".js": "javascript", ".jsx": "javascript", ".mjs": "javascript",
	".java": "java", ".kt": "kotlin", ".rs": "rust", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".cs": "csharp",
	".rb": "ruby", ".php": "php", ".swift": "swift", ".scala": "scala", ".sh": "shell", ".bash": "shell", ".sql": "sql", ".html": "html",
	".css": "css", ".scss": "css", ".vue": "vue", ".svelte": "svelte", ".md": "markdown", ".json": "json", ".yaml": "yaml", ".yml": "yaml",
	".toml": "toml", ".proto": "protobuf", ".tf": "terraform", ".lua": "lua", ".ex": "elixir", ".exs": "elixir", ".zig": "zig", ".ipynb": "notebook",
}

func languageOf(path string) string { return languages[strings.ToLower(filepath.Ext(path))] }

package dialect

import (
	"encoding/json"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"millrace/schemas/event"
)

// commanded sees what a terminal command did to the files that are watched: deleted by rm, taken back by git. Whatever else
// may have changed files makes later differences say nothing. Of a line that failed, what surely ran counts; the rest may have.
func (f *ccFiles) commanded(t *ccTurn, call *ccCall) []observation {
	class := call.outcome.class
	switch class {
	case event.ToolOutcome_OK, event.ToolOutcome_EXECUTION_FAILED, event.ToolOutcome_COMMAND_TIMEOUT, event.ToolOutcome_USER_ABORTED:
	default:
		return nil // it never ran
	}
	var a struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(call.block.input, &a) != nil {
		f.disturb()
		return nil
	}
	var seen []observation
	folder := call.record.cwd
	rest := ""
	list := segments(a.Command)
	ran := surelyRan(list, class)
	for i, s := range list {
		words := command(s.text)
		rest += s.fed
		if to, ok := strings.CutPrefix(words, "cd "); ok {
			folder = within(folder, unquote(to))
			continue
		}
		if s.before == "||" || s.before == "|" || !ran(i) {
			rest += s.text + "\n"
			continue
		}
		switch files, how := touched(words); how {
		case byRemoval:
			seen = append(seen, f.removed(t, call, folder, files)...)
		case byRestoring:
			seen = append(seen, f.restored(t, call, folder, files)...)
		case byStaging:
			for _, w := range f.watched {
				w.staged = true
			}
			rest += s.text + "\n"
		default:
			rest += s.text + "\n"
		}
	}
	if disturbing.MatchString(rest) {
		f.disturb()
	}
	return seen
}

// surelyRan tells by the commands' places on a line how far it came. One that failed most likely did so at its first
// check; what begins anew after a semicolon and is followed by one ran in any case.
func surelyRan(list []ccSegment, class event.ToolOutcome) func(i int) bool {
	check := slices.IndexFunc(list, func(s ccSegment) bool {
		return slices.ContainsFunc(targets(command(s.text)), func(one string) bool { _, ok := checkKind(one); return ok })
	})
	return func(i int) bool {
		switch class {
		case event.ToolOutcome_OK:
			return true
		case event.ToolOutcome_COMMAND_TIMEOUT:
			return i < check
		case event.ToolOutcome_EXECUTION_FAILED:
			alone := (i == 0 || list[i].before == ";") && i+1 < len(list) && list[i+1].before == ";"
			return i < check || alone
		}
		return false // the user may have been asked before it began
	}
}

func (f *ccFiles) disturb() {
	for _, w := range f.watched {
		w.disturbed = true
	}
}

// effect is what a command does to files.
type effect int

const (
	byOther     effect = iota
	byRemoval          // they are deleted
	byRestoring        // git takes them back to what it has
	byStaging          // git takes them over
)

// touched are the files that a command names, and what it does to them.
func touched(words string) (files []string, how effect) {
	fields := strings.Fields(words)
	if strings.ContainsAny(words, "*?[$`(\\") { // a pattern: which files isn't known
		return nil, byOther
	}
	folder := ""
	for len(fields) > 2 && fields[0] == "git" && strings.HasPrefix(fields[1], "-") { // git's own options
		switch fields[1] {
		case "-C":
			folder = within(folder, unquote(fields[2]))
			fields = append([]string{"git"}, fields[3:]...)
		case "-c":
			fields = append([]string{"git"}, fields[3:]...)
		case "--no-pager", "-P":
			fields = append([]string{"git"}, fields[2:]...)
		default:
			return nil, byOther
		}
	}
	if len(fields) < 2 {
		return nil, byOther
	}
	name := func(rest []string) {
		for _, field := range rest {
			if !strings.HasPrefix(field, "-") {
				files = append(files, within(folder, unquote(field)))
			}
		}
	}
	option := func(field string) bool { return strings.HasPrefix(field, "-") || strings.HasPrefix(field, ":") }
	switch {
	case fields[0] == "rm":
		name(fields[1:])
		how = byRemoval
	case fields[0] != "git":
	case fields[1] == "rm" && !slices.Contains(fields, "--cached"):
		name(fields[2:])
		how = byRemoval
	case fields[1] == "checkout" && len(fields) > 3 && fields[2] == "--" && !slices.ContainsFunc(fields[3:], option):
		name(fields[3:])
		how = byRestoring
	case fields[1] == "restore" && !slices.ContainsFunc(fields[2:], option):
		name(fields[2:])
		how = byRestoring
	case slices.Contains([]string{"add", "commit", "stash", "checkout", "switch", "merge", "pull", "rebase", "reset"}, fields[1]):
		how = byStaging
	}
	return files, how
}

// removed takes files away, or folders with all that is in them. A file of which the transcript shows the text was edited by
// that: the terminal is a tool like any other.
func (f *ccFiles) removed(t *ccTurn, call *ccCall, folder string, names []string) []observation {
	var seen []observation
	for _, name := range names {
		for _, file := range f.watchedIn(within(folder, name)) {
			w, read := f.watched[file], f.known[file]
			body := &event.EditProposed{
				EditId: safeID(call.id + "/rm-" + strconv.Itoa(len(f.deletions))), CallId: call.id, FileHash: digestOf([]byte(file)), Language: languageOf(file),
				CharactersRemoved: utf16Length(w.text), LinesRemoved: lineCount(w.text), FileReadBefore: &read, Applied: true,
			}
			if testPath.MatchString(file) {
				tests := uint32(weakenedTests(w.text, ""))
				body.TestsRemoved = &tests
			}
			f.deletions = append(f.deletions, body)
			seen = append(seen, w.overwritten(t, call.answered.at, "")...)
			delete(f.watched, file)
			delete(f.known, file)
		}
	}
	return seen
}

// restored takes the agent's edits back, in files or in folders with all that is in them, if git can't have the edits. What
// git doesn't know it leaves alone.
func (f *ccFiles) restored(t *ccTurn, call *ccCall, folder string, names []string) []observation {
	var seen []observation
	for _, name := range names {
		for _, file := range f.watchedIn(within(folder, name)) {
			switch w := f.watched[file]; {
			case w.staged, w.disturbed:
				delete(f.watched, file)
			case !w.created:
				seen = append(seen, w.overwritten(t, call.answered.at, w.original)...)
			}
		}
	}
	return seen
}

// watchedIn are the files that are watched in a folder, or the one of that name, in the order of their names.
func (f *ccFiles) watchedIn(name string) []string {
	folder := strings.TrimSuffix(name, "/") + "/"
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.watched)), func(file string) bool {
		return file != name && !strings.HasPrefix(file, folder) && (name != "." || path.IsAbs(file))
	})
}

// within is a file's path as the tools name it.
func within(folder, file string) string {
	file = filepath.ToSlash(file)
	if path.IsAbs(file) || folder == "" {
		return path.Clean(file)
	}
	return path.Join(filepath.ToSlash(folder), file)
}

func unquote(word string) string { return strings.Trim(word, `"'`) }

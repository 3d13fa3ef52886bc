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
// may have changed files makes later differences say nothing.
func (f *ccFiles) commanded(t *ccTurn, call *ccCall) []observation {
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
	for _, s := range segments(a.Command) {
		words := command(s.text)
		if s.before == "||" || s.before == "|" {
			rest += s.text + "\n"
			continue
		}
		if to, ok := strings.CutPrefix(words, "cd "); ok {
			folder = within(folder, unquote(to))
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
	if len(fields) < 2 || strings.ContainsAny(words, "*?[$`(\\") { // a pattern: which files isn't known
		return nil, byOther
	}
	name := func(rest []string) {
		for _, field := range rest {
			if !strings.HasPrefix(field, "-") {
				files = append(files, unquote(field))
			}
		}
	}
	switch {
	case fields[0] == "rm", fields[0] == "git" && fields[1] == "rm" && !slices.Contains(fields, "--cached"):
		name(fields[slices.Index(fields, "rm")+1:])
		how = byRemoval
	case fields[0] != "git":
	case fields[1] == "checkout" && len(fields) > 3 && fields[2] == "--":
		name(fields[3:])
		how = byRestoring
	case fields[1] == "restore" && !strings.Contains(words, " -"):
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
		name = within(folder, name)
		for _, file := range slices.Sorted(maps.Keys(f.watched)) {
			if file != name && !strings.HasPrefix(file, name+"/") {
				continue
			}
			w, read := f.watched[file], f.known[file]
			body := &event.EditProposed{
				EditId: call.id + "/rm-" + strconv.Itoa(len(f.deletions)), CallId: call.id, FileHash: digestOf([]byte(file)), Language: languageOf(file),
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

// restored takes the agent's edits back, if git can't have them.
func (f *ccFiles) restored(t *ccTurn, call *ccCall, folder string, files []string) []observation {
	var seen []observation
	for _, file := range files {
		if w := f.watched[within(folder, file)]; w != nil && !w.staged && !w.disturbed {
			seen = append(seen, w.overwritten(t, call.answered.at, w.original)...)
		} else if w != nil {
			delete(f.watched, within(folder, file))
		}
	}
	return seen
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

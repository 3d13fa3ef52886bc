package dialect

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/schemas/event"
)

// What a transcript shows of an edit's survival: a later request reads or edits the same file, and its text is there
// as it was then; or a later request has the agent write over the edit, delete the file, or take it back with git. What
// the agent sees or changes again within its own turn says nothing about the user.
const (
	// minSurvival is the first horizon at which survival is reported.
	minSurvival = 30 * time.Second
	// maxObservations of one edit.
	maxObservations = 4
)

// watchedFile is a file's text as the agent left it, and the agent's edits in it.
type watchedFile struct {
	text  string
	edits []*watchedEdit
	// The agent ran a command since that may have changed files: a difference may be its own.
	disturbed bool
	// Its text before the agent's first edit that git doesn't have.
	original string
	// Its text may be in git's index or history: what git takes back then isn't known.
	staged bool
	// The agent made it: git doesn't have it, and takes nothing back as long as it isn't staged.
	created bool
}

type watchedEdit struct {
	turn     *ccTurn
	id       string
	at       time.Time
	hunks    []watchedHunk
	lost     []*event.Hunk // that others changed: they are watched no longer, but count as they were seen last
	observed int
	seenBy   *ccTurn // the last turn that observed it
}

// watchedHunk is text of the agent's in the file.
type watchedHunk struct {
	start, end int // in bytes
	before     string
}

type observation struct {
	turn  *ccTurn // of the edit
	event *event.EditObserved
}

// disturbing commands change files by other ways than the edit tools.
var disturbing = regexp.MustCompile(`\bgit(?: +-[Cc] +\S+| +-\S+)* +(checkout|restore|reset|stash|switch|revert|clean|pull|merge|rebase|apply|cherry-pick)\b|\b(rm|mv|cp|patch|tee|rsync)\b|\bsed -i|fmt\b|--(fix|write)\b|-w\b|\bprettier\b|\bblack\b|generate|codegen|>`)

// returned sees what a tool's answer shows of the files.
func (f *ccFiles) returned(t *ccTurn, call *ccCall) []observation {
	f.answered = call.answered.at
	if toolKind(call.block.tool) == event.ToolKind_TERMINAL {
		return f.commanded(t, call)
	}
	if call.outcome.class != event.ToolOutcome_OK {
		return nil
	}
	if edit := f.proposals[call]; edit != nil {
		f.known[edit.path] = true
		return f.edited(t, call, edit)
	}
	if toolKind(call.block.tool) != event.ToolKind_READ {
		return nil
	}
	d := detailsOf(call)
	var a struct {
		Path string `json:"file_path"`
	}
	_ = json.Unmarshal(call.block.input, &a)
	f.known[a.Path] = true
	w := f.watched[a.Path]
	if w == nil || d.File.Path != a.Path || d.File.StartLine > 1 || d.File.NumLines < d.File.TotalLines {
		return nil // nothing to see, or only a part of the file
	}
	return w.observe(t, call.answered.at, d.File.Content)
}

// edited takes an edit of the agent's own: what stood there before it is an observation of the earlier ones.
func (f *ccFiles) edited(t *ccTurn, call *ccCall, edit *ccEdit) []observation {
	w := f.watched[edit.path]
	var seen []observation
	switch {
	case edit.detail.OriginalFile != nil:
		if w == nil {
			w = &watchedFile{text: *edit.detail.OriginalFile, original: *edit.detail.OriginalFile}
		} else {
			seen = w.observe(t, call.answered.at, *edit.detail.OriginalFile)
		}
	case edit.whole:
		w = &watchedFile{created: true}
	default:
		delete(f.watched, edit.path) // its text isn't known
		return nil
	}
	f.watched[edit.path] = w
	return append(seen, w.apply(t, call, edit)...)
}

// apply writes an edit into the text and watches it. What it writes over of an earlier turn's edits is seen for the last
// time: a later request has changed it. Of the turn's own it is its own doing.
func (w *watchedFile) apply(t *ccTurn, call *ccCall, edit *ccEdit) []observation {
	e := &watchedEdit{turn: t, id: call.id, at: call.answered.at}
	now := w.text
	replace := func(start, end int, ai string) {
		before := now[start:end]
		skip := commonPrefix(before, ai)
		tail := commonSuffix(before[skip:], ai[skip:])
		now = now[:start] + ai + now[end:]
		start, end = start+skip, end-tail
		changed := len(ai) - len(before)
		e.hunks = slices.DeleteFunc(e.hunks, func(h watchedHunk) bool { return h.start < end && start < h.end })
		for i := range e.hunks {
			if e.hunks[i].start >= end {
				e.hunks[i].start += changed
				e.hunks[i].end += changed
			}
		}
		e.hunks = append(e.hunks, watchedHunk{start: start, end: end + changed, before: before[skip : len(before)-tail]})
	}
	for _, p := range edit.pairs {
		if edit.whole {
			replace(0, len(now), p.ai)
			continue
		}
		for from := 0; p.before != ""; {
			i := strings.Index(now[from:], p.before)
			if i < 0 {
				break
			}
			replace(from+i, from+i+len(p.before), p.ai)
			from += i + len(p.ai)
			if !p.all {
				break
			}
		}
	}
	seen := w.overwritten(t, call.answered.at, now)
	w.edits = append(w.edits, e)
	w.edits = slices.DeleteFunc(w.edits, func(e *watchedEdit) bool { return len(e.hunks) == 0 })
	return seen
}

// overwritten takes a text that the agent itself put in the place of the one before.
func (w *watchedFile) overwritten(t *ccTurn, at time.Time, now string) []observation {
	changes := changesBetween(w.text, now)
	var seen []observation
	for _, e := range w.edits {
		if body, changed := w.compare(e, changes, at, now); changed && e.turn != t && at.Sub(e.at) >= minSurvival {
			seen = append(seen, observation{turn: e.turn, event: body})
		}
	}
	disturbed := w.disturbed
	w.disturbed = false
	w.rebase(t, changes, now)
	w.disturbed = disturbed // what a command did before is still to be seen
	return seen
}

// observe compares the text with what is there now, and goes on from that.
func (w *watchedFile) observe(t *ccTurn, at time.Time, now string) []observation {
	if strings.HasSuffix(w.text, "\n") && !strings.HasSuffix(now, "\n") {
		now += "\n" // the client cuts off the last one
	}
	changes := changesBetween(w.text, now)
	var seen []observation
	for _, e := range w.edits {
		body, changed := w.compare(e, changes, at, now)
		// A change that may be the agent's own says nothing.
		if e.turn == t || e.seenBy == t || e.observed == maxObservations || at.Sub(e.at) < minSurvival || (changed && w.disturbed) {
			continue
		}
		e.observed++
		e.seenBy = t
		seen = append(seen, observation{turn: e.turn, event: body})
	}
	w.rebase(t, changes, now)
	return seen
}

// compare is what is left of an edit's hunks after changes, and whether they touched any.
func (w *watchedFile) compare(e *watchedEdit, changes []change, at time.Time, now string) (body *event.EditObserved, changed bool) {
	body = &event.EditObserved{EditId: e.id, SecondsSinceAcceptance: at.Sub(e.at).Seconds(), Hunks: slices.Clone(e.lost)}
	for _, h := range e.hunks {
		from, to, touched := mapRange(changes, h.start, h.end)
		changed = changed || touched
		body.Hunks = append(body.Hunks, w.hunk(h, now[from:to]))
	}
	if !changed && len(e.lost) == 0 {
		one := 1.0
		body.Hunks, body.FourGram, body.NoRevert = nil, &one, &one
	}
	return body, changed
}

func (w *watchedFile) hunk(h watchedHunk, now string) *event.Hunk {
	return &event.Hunk{Before: clean(h.before), Ai: clean(w.text[h.start:h.end]), Now: clean(now)}
}

// rebase goes on with the text that is there now. A hunk that was changed is watched no longer: what becomes of the
// user's text isn't the agent's merit. What a later request changed stays lost; what the edit's own turn changed, or a
// command may have, was never the user's word.
func (w *watchedFile) rebase(t *ccTurn, changes []change, now string) {
	for _, e := range w.edits {
		hunks := e.hunks[:0]
		for _, h := range e.hunks {
			switch from, to, touched := mapRange(changes, h.start, h.end); {
			case !touched:
				hunks = append(hunks, watchedHunk{start: from, end: to, before: h.before})
			case e.turn != t && !w.disturbed:
				e.lost = append(e.lost, w.hunk(h, now[from:to]))
			}
		}
		e.hunks = hunks
	}
	w.edits = slices.DeleteFunc(w.edits, func(e *watchedEdit) bool { return len(e.hunks) == 0 })
	w.text, w.disturbed = now, false
}

// change is a run of the old text and what stands for it in the new one, in bytes.
type change struct{ start, end, newStart, newEnd int }

// trim takes off what both texts of a change begin and end with.
func (c change) trim(a, b string) change {
	p := commonPrefix(a[c.start:c.end], b[c.newStart:c.newEnd])
	c.start, c.newStart = c.start+p, c.newStart+p
	s := commonSuffix(a[c.start:c.end], b[c.newStart:c.newEnd])
	c.end, c.newEnd = c.end-s, c.newEnd-s
	return c
}

// maxDiffLines bounds the comparison: where more lines differ, they are one change.
const maxDiffLines = 1200

// changesBetween compares two texts line by line, by their longest common subsequence of lines.
func changesBetween(a, b string) []change {
	if a == b {
		return nil
	}
	p := strings.LastIndexByte(a[:commonPrefix(a, b)], '\n') + 1
	s := commonSuffix(a[p:], b[p:])
	if i := strings.IndexByte(a[len(a)-s:], '\n'); i >= 0 {
		s -= i + 1
	} else {
		s = 0
	}
	x, y := strings.SplitAfter(a[p:len(a)-s], "\n"), strings.SplitAfter(b[p:len(b)-s], "\n")
	if len(x) > maxDiffLines || len(y) > maxDiffLines {
		return []change{change{p, len(a) - s, p, len(b) - s}.trim(a, b)}
	}
	// common[i][j] is the length of the longest common subsequence of x[i:] and y[j:].
	common := make([][]uint16, len(x)+1)
	for i := range common {
		common[i] = make([]uint16, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var changes []change
	cur := change{p, p, p, p}
	flush := func() {
		if cur.start < cur.end || cur.newStart < cur.newEnd {
			changes = append(changes, cur.trim(a, b))
		}
	}
	for i, j := 0, 0; i < len(x) || j < len(y); {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			flush()
			cur.start, cur.newStart = cur.end+len(x[i]), cur.newEnd+len(y[j])
			cur.end, cur.newEnd = cur.start, cur.newStart
			i++
			j++
		case j == len(y) || (i < len(x) && common[i+1][j] >= common[i][j+1]):
			cur.end += len(x[i])
			i++
		default:
			cur.newEnd += len(y[j])
			j++
		}
	}
	flush()
	return changes
}

// mapRange is where a run of the old text stands in the new one, and whether a change touched it. What was put in right
// before or after it doesn't; of a run that is empty (a deletion) what was put in there does.
func mapRange(changes []change, start, end int) (from, to int, touched bool) {
	from, to = start, end
	for _, c := range changes {
		restored := start == end && c.start == start && c.end == start
		switch {
		case c.end <= start && !restored:
			shift := c.newEnd - c.end
			from, to = start+shift, end+shift
			continue
		case c.start >= end && !restored:
			return from, to, touched
		}
		if !touched && start > c.start {
			from = c.newStart
		}
		touched = true
		shift := c.newEnd - c.end
		to = c.newEnd
		if end > c.end {
			to = end + shift
		}
	}
	return from, to, touched
}

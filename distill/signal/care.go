package signal

import (
	"encoding/json"

	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
)

func careSignals(v Vector, f *turn.Facts) {
	_, lastEdit := editPlaces(f.Edits)
	all, conventions := compared{}, compared{}
	for check, s := range checkRuns(f) {
		all.add(s)
		if convention(check.kind) {
			conventions.add(s)
		}
	}
	all.set(v, "care.checks_broken", "care.checks_fixed")
	conventions.set(v, "care.conventions_broken", "care.conventions_fixed")
	if len(f.Edits) > 0 && len(f.Checks) > 0 {
		verified := false
		for _, check := range f.Checks {
			verified = verified || (!check.GetByUser() && check.Place > lastEdit)
		}
		v.Set("care.verified_after_edit", flag(verified))
	}
	weakened, looked := false, false
	read, known := 0.0, 0.0
	for i := range f.Edits {
		e := &f.Edits[i]
		if e.TestsRemoved != nil {
			looked = true
			weakened = weakened || e.GetTestsRemoved() > 0
		}
		if e.FileReadBefore != nil {
			known++
			if e.GetFileReadBefore() {
				read++
			}
		}
	}
	if looked {
		v.Set("care.tests_weakened", flag(weakened))
	}
	if known > 0 {
		v.Set("care.evidence_before_claim", ledger.Of(read/known))
	}
	if f.Ended != nil && f.Ended.UnfinishedTodos != nil {
		v.Set("care.unfinished_todos", ledger.Of(float64(f.Ended.GetUnfinishedTodos())))
	}
}

// convention says whether a check is about how code is written, not about what it does.
func convention(kind event.CheckKind) bool {
	return kind == event.CheckKind_LINT || kind == event.CheckKind_FORMAT
}

// compared is whether checks went from good to bad, or back; nothing is known until one was seen before and after.
type compared struct{ broken, fixed, known bool }

func (c *compared) add(s *failures) {
	if s.beforeKnown && s.afterKnown {
		c.known = true
		c.broken = c.broken || s.after > s.before
		c.fixed = c.fixed || s.after < s.before
	}
}

func (c *compared) set(v Vector, broken, fixed string) {
	if c.known {
		v.Set(broken, flag(c.broken))
		v.Set(fixed, flag(c.fixed))
	}
}

// failures are those of one check before the turn's first edit and at the end.
type failures struct {
	before, after           uint32
	beforeKnown, afterKnown bool
}

// checkKey is what makes two runs runs of the same check. Another command's failures can't be held against these, and
// that it passes mends nothing: a narrower check is always at hand.
type checkKey struct {
	kind    event.CheckKind
	command string // "" if nobody knows
	nth     int    // of its kind on the command's line
}

// checkRuns joins the turn's runs of the same check.
func checkRuns(f *turn.Facts) map[checkKey]*failures {
	firstEdit, _ := editPlaces(f.Edits)
	commands := map[string]string{}
	for i := range f.Calls {
		commands[f.Calls[i].GetCallId()] = commandOf(&f.Calls[i])
	}
	type place struct {
		call string
		kind event.CheckKind
	}
	seen := map[place]int{}
	runs := map[checkKey]*failures{}
	for _, check := range f.Checks {
		key := checkKey{kind: check.GetKind(), command: commands[check.GetCallId()]}
		if id := check.GetCallId(); id != "" {
			key.nth = seen[place{id, key.kind}]
			seen[place{id, key.kind}]++
		}
		s := runs[key]
		if s == nil {
			s = &failures{}
			runs[key] = s
		}
		if check.FailuresBefore != nil && (!s.beforeKnown || !s.afterKnown) {
			s.before, s.beforeKnown = check.GetFailuresBefore(), true
		}
		switch {
		case check.FailuresAfter == nil:
		case check.Place < firstEdit: // what it found, the edits found too; of what they did it says nothing
			s.before, s.beforeKnown = check.GetFailuresAfter(), true
		default:
			s.after, s.afterKnown = check.GetFailuresAfter(), true
		}
	}
	return runs
}

// commandOf is the command line of a call, without what else the agent says of it; of other calls, all they were given.
func commandOf(call *turn.Call) string {
	raw, _ := call.Raw()
	var a struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(raw, &a) == nil && a.Command != "" {
		return a.Command
	}
	return string(raw)
}

// editPlaces are the places of the first and the last edit; without edits, everything lies after them.
func editPlaces(edits []turn.Edit) (first, last int) {
	first, last = -1, -1
	for i := range edits {
		if p := edits[i].Place; first < 0 || p < first {
			first = p
		}
		last = max(last, edits[i].Place)
	}
	return first, last
}

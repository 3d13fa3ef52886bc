package dialect

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/schemas/event"
)

// maxOutput bounds a tool's output that an event carries, in bytes: enough to see what a later call drew from it.
const maxOutput = 256 << 10

// ccCall is a tool call and what came of it.
type ccCall struct {
	record   *ccRecord
	block    *ccBlock
	id       string // as the events carry it
	result   *ccResult
	answered *ccRecord // the line of the result
	step     *ccStep   // that made it
	outcome  outcome
	invalid  event.ToolOutcome // the harness's own verdict that the call was malformed
}

// ccSession builds the events of one session, turn by turn in order of time.
type ccSession struct {
	id     string
	events map[*ccRecord][]*event.SessionEvent
	calls  map[string]*ccCall // by the id in the file
	list   []*ccCall
	digest string // of the tools
	files  *ccFiles
	checks *ccChecks
}

// Result gives the events of all files that were added.
func (c *claudeCode) Result() *Result {
	turns, homeless := c.turns()
	for _, r := range homeless {
		kind := "result without its call"
		if r.sidechain {
			kind = "sidechain without its session"
		}
		for _, p := range r.places {
			p.tally.uses--
			p.tally.verdict.ignored = kind
		}
	}
	c.account()
	sessions := map[string][]*ccTurn{}
	for _, t := range turns {
		sessions[t.session] = append(sessions[t.session], t)
	}
	c.out.Sessions = len(sessions)
	events := map[*ccRecord][]*event.SessionEvent{}
	for id, turns := range sessions {
		buildSession(id, turns, events)
	}
	for _, r := range c.records {
		for _, p := range r.places {
			for i, e := range events[r] {
				c.out.Events = append(c.out.Events, Located{Event: e, File: p.tally.file, Line: p.tally.line, Place: i})
			}
		}
	}
	Sort(c.out.Events)
	return c.out
}

func buildSession(id string, turns []*ccTurn, events map[*ccRecord][]*event.SessionEvent) {
	s := &ccSession{id: id, events: events, calls: map[string]*ccCall{}, files: newFiles(), checks: newChecks()}
	for _, t := range turns {
		s.collectCalls(t)
	}
	tools := sessionTools(s.list)
	_, s.digest = event.ToolSchemaDocument(tools)
	first := turns[0].anchor
	s.emit(nil, first, "session", &event.SessionEvent{Body: &event.SessionEvent_SessionStarted{SessionStarted: &event.SessionStarted{
		Client: ClaudeCode, ClientVersion: label(first.version), HarnessVersion: harness(first), Tools: tools,
		ToolSchemaDigest: s.digest, Repository: repository(first), Origin: event.Origin_IMPORTED,
	}}})
	for _, t := range turns {
		s.planTaken(t)
	}
	for _, t := range turns {
		s.turn(t)
	}
}

// planTaken sees a plan that the user took to carry it out in a fresh context: the client writes that as a refusal, and the
// plan as the next request.
func (s *ccSession) planTaken(t *ccTurn) {
	if t.before == nil || !strings.HasPrefix(t.anchor.text, "Implement the following plan:") {
		return
	}
	for _, call := range slices.Backward(s.list) {
		if call.record.turn != t.before || call.block.tool != "ExitPlanMode" {
			continue
		}
		var a struct {
			Plan string `json:"plan"`
		}
		plan := json.Unmarshal(call.block.input, &a) == nil && a.Plan != "" && strings.Contains(t.anchor.text, strings.TrimSpace(a.Plan))
		if plan && call.outcome.stop {
			call.outcome = outcome{class: event.ToolOutcome_OK}
			t.before.planTaken = true
		}
		return
	}
}

func (s *ccSession) collectCalls(t *ccTurn) {
	for _, r := range t.records {
		for i := range r.blocks {
			b := &r.blocks[i]
			if b.kind != "tool_use" || s.calls[b.id] != nil {
				continue
			}
			call := &ccCall{record: r, block: b, id: safeID(b.id)}
			s.calls[b.id] = call
			s.list = append(s.list, call)
		}
	}
	for _, r := range t.records {
		for i := range r.results {
			call := s.calls[r.results[i].id]
			if call == nil || call.result != nil {
				continue
			}
			call.result, call.answered, call.outcome = &r.results[i], r, outcomeOf(r.results[i])
			if malformed(call.outcome.class) {
				call.invalid = call.outcome.class
			}
		}
	}
}

// emit files an event under the line that it comes from. The id is made of the line's, so that the same line in another
// file gives the same event.
func (s *ccSession) emit(t *ccTurn, r *ccRecord, what string, e *event.SessionEvent) {
	e.Source, e.EventId = ClaudeCode, safeID(r.uuid)+"/"+what
	e.SessionId, e.UnitId = s.id, "local"
	if t != nil {
		e.TurnId = t.id()
	}
	e.OccurredAt, e.Privacy = timestamppb.New(r.at), event.Privacy_FULL
	s.events[r] = append(s.events[r], e)
}

func (s *ccSession) turn(t *ccTurn) {
	s.started(t)
	steps := t.steps()
	for _, r := range t.records {
		switch r.kind {
		case ccAssistant:
			step := steps.of[r]
			for i := range r.blocks {
				if call := s.calls[r.blocks[i].id]; call != nil && call.block == &r.blocks[i] {
					s.called(t, call, step, i)
				}
			}
			if step.last == r {
				s.emit(t, r, "step", &event.SessionEvent{Body: &event.SessionEvent_StepCompleted{StepCompleted: step.event()}})
			}
		case ccResults:
			for i := range r.results {
				if call := s.calls[r.results[i].id]; call != nil && call.answered == r {
					s.returned(t, call, i)
				}
			}
		case ccError:
			s.failed(t, r)
		case ccInterrupt:
			s.aborted(t, r)
		}
	}
	s.ended(t, steps)
}

func (s *ccSession) started(t *ccTurn) {
	body := &event.TurnStarted{
		Context: &event.TurnContext{
			HarnessVersion: harness(t.anchor), ToolSchemaDigest: s.digest, Repository: repository(t.anchor), Origin: event.Origin_IMPORTED,
		},
	}
	if !t.implied {
		body.Text = clean(t.anchor.text)
	}
	if t.anchor.kind == ccCommand {
		body.Text, body.Intent = commandOf(t.anchor.text)
	}
	if t.anchor.permission == "plan" && body.Intent == event.Intent_INTENT_UNSPECIFIED {
		body.Intent = event.Intent_ASK // in this mode the client lets the agent write nothing
	}
	switch {
	case t.restore:
		body.Relation = event.Relation_RESTORE
	case t.repeats():
		body.Relation = event.Relation_RETRY
	}
	s.emit(t, t.anchor, "turn", &event.SessionEvent{Body: &event.SessionEvent_TurnStarted{TurnStarted: body}})
}

// minRepeat is the length from which the same words twice are the same request: a second "yes" isn't.
const minRepeat = 20

// repeats says whether the request is the one before it, which either didn't come to its end or is long enough.
func (t *ccTurn) repeats() bool {
	if t.before == nil || t.implied || t.anchor.text == "" || t.anchor.text != t.before.anchor.text {
		return false
	}
	return t.before.reason != event.EndReason_COMPLETED || len(t.anchor.text) >= minRepeat
}

var (
	commandName = regexp.MustCompile(`<command-name>\s*/?([^<]*?)\s*</command-name>`)
	commandArgs = regexp.MustCompile(`(?s)<command-args>(.*?)</command-args>`)
)

// commandOf is a command as the user typed it, and what the well-known ones ask for.
func commandOf(text string) (string, event.Intent) {
	name, args := "", ""
	if m := commandName.FindStringSubmatch(text); m != nil {
		name = m[1]
	}
	if m := commandArgs.FindStringSubmatch(text); m != nil {
		args = m[1]
	}
	intent := event.Intent_INTENT_UNSPECIFIED
	switch name {
	case "init":
		intent = event.Intent_EDIT
	case "review", "security-review", "pr-comments":
		intent = event.Intent_REVIEW
	}
	return clean(strings.TrimSpace("/" + name + " " + args)), intent
}

func (s *ccSession) called(t *ccTurn, call *ccCall, step *ccStep, place int) {
	call.step = step
	body := &event.ToolCalled{
		CallId: call.id, Step: step.number, Tool: clean(call.block.tool), Kind: toolKind(call.block.tool), ParallelGroup: step.group,
	}
	if raw := call.block.input; len(raw) > 0 && string(raw) != "null" {
		if utf8.Valid(raw) {
			body.Raw = &event.ToolCalled_Arguments{Arguments: string(raw)}
		} else {
			body.Raw = &event.ToolCalled_ArgumentsBytes{ArgumentsBytes: raw}
		}
	}
	if call.invalid != event.ToolOutcome_TOOL_OUTCOME_UNSPECIFIED {
		body.HarnessValidation = call.invalid.Enum()
	}
	s.emit(t, call.record, "call-"+strconv.Itoa(place), &event.SessionEvent{Body: &event.SessionEvent_ToolCalled{ToolCalled: body}})
	if edit := s.files.proposed(call); edit != nil {
		s.emit(t, call.record, "edit-"+strconv.Itoa(place), &event.SessionEvent{Body: &event.SessionEvent_EditProposed{EditProposed: edit}})
	}
}

func (s *ccSession) returned(t *ccTurn, call *ccCall, place int) {
	n := strconv.Itoa(place)
	size := uint64(len(call.result.text))
	body := &event.ToolReturned{CallId: call.id, Outcome: call.outcome.class, OutputBytes: &size, ExitCode: call.outcome.exitCode}
	body.Output = clean(call.result.text[:min(len(call.result.text), maxOutput)])
	if d, ok := call.duration(); ok {
		body.DurationMs = &d
	}
	if body.ExitCode == nil && body.Outcome == event.ToolOutcome_OK && call.block.tool == "Bash" {
		body.ExitCode = new(int32)
	}
	s.emit(t, call.answered, "return-"+n, &event.SessionEvent{Body: &event.SessionEvent_ToolReturned{ToolReturned: body}})
	if decided := s.files.decided(t, call); decided != nil {
		s.emit(t, call.answered, "decided-"+n, &event.SessionEvent{Body: &event.SessionEvent_EditDecided{EditDecided: decided}})
	}
	for i, check := range s.checks.ran(t, call) {
		s.emit(t, call.answered, "check-"+n+"-"+strconv.Itoa(i), &event.SessionEvent{Body: &event.SessionEvent_ChecksRan{ChecksRan: check}})
	}
	s.files.deletions = nil
	observed := s.files.returned(t, call)
	for i, deleted := range s.files.deletions {
		s.emit(t, call.answered, "edit-"+n+"-"+strconv.Itoa(i), &event.SessionEvent{Body: &event.SessionEvent_EditProposed{EditProposed: deleted}})
	}
	for i, seen := range observed {
		s.emit(seen.turn, call.answered, "observed-"+n+"-"+strconv.Itoa(i), &event.SessionEvent{Body: &event.SessionEvent_EditObserved{EditObserved: seen.event}})
	}
}

// duration is how long the tool ran, in ms, where the client says so. The time between call and answer isn't it: a user
// may have been asked between them.
func (call *ccCall) duration() (float64, bool) {
	var d struct {
		Duration      *float64 `json:"durationMs"`
		TotalDuration *float64 `json:"totalDurationMs"`
	}
	if raw := call.result.details; len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &d) != nil {
		return 0, false
	}
	for _, ms := range []*float64{d.Duration, d.TotalDuration} {
		if ms != nil && *ms >= 0 && *ms < 1e10 {
			return *ms, true
		}
	}
	return 0, false
}

// failed is the harness's note that the provider failed: the request's own status, from outside the model. A context
// that is too long is no failure of the provider.
func (s *ccSession) failed(t *ccTurn, r *ccRecord) {
	status, ok := providerFailure(r.text)
	if !ok {
		return
	}
	s.emit(t, r, "infrastructure", &event.SessionEvent{Body: &event.SessionEvent_InfrastructureReported{InfrastructureReported: &event.InfrastructureReported{
		Status: status, Detail: clean(r.text[:min(len(r.text), 200)]),
	}}})
}

var refused = regexp.MustCompile(`\b(401|403|429)\b|(?i)usage limit|limit reached|rate limit|/login|credit balance`)

func providerFailure(text string) (status event.InfrastructureStatus, ok bool) {
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(lower, "prompt is too long"), strings.Contains(lower, "context limit"), strings.Contains(lower, "exceed context"):
		return 0, false
	case refused.MatchString(text):
		return event.InfrastructureStatus_REFUSED, true
	}
	return event.InfrastructureStatus_OUTAGE, true
}

// aborted closes the calls that the user's interrupt left without an answer: whatever their arguments lack, the abort
// cut them.
func (s *ccSession) aborted(t *ccTurn, r *ccRecord) {
	n := 0
	for _, call := range s.list {
		if call.record.turn != t || call.result != nil || call.answered != nil {
			continue
		}
		call.answered = r
		s.emit(t, r, "aborted-"+strconv.Itoa(n), &event.SessionEvent{Body: &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{
			CallId: call.id, Outcome: event.ToolOutcome_USER_ABORTED,
		}}})
		n++
	}
}

func harness(r *ccRecord) string {
	if r.version == "" {
		return ClaudeCode
	}
	return label(ClaudeCode + "/" + r.version)
}

func repository(r *ccRecord) *event.Repository {
	if r.cwd == "" {
		return nil
	}
	return &event.Repository{IdHash: digestOf([]byte(r.cwd))[:16]}
}

// label is a short text as an event may carry it.
func label(text string) string { return safeID(clean(text)) }

// clean is a text as protobuf takes it.
func clean(text string) string { return strings.ToValidUTF8(text, "�") }

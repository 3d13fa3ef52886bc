package rehearsal

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/internal/arrowfile"
	"millrace/schemas/event"
)

// Epoch is when the streams of tests begin.
var Epoch = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// Tools is the document of the tools that test turns call.
var Tools = []byte(`[{"name":"ask_user","kind":"QUESTION","json_schema":{"type":"object","required":["question"],"properties":{"question":{"type":"string"}},"additionalProperties":false}},` +
	`{"name":"edit_file","kind":"EDIT_FILE","json_schema":{"type":"object","required":["path","text"],"properties":{"path":{"type":"string"},"text":{"type":"string"}},"additionalProperties":false}},` +
	`{"name":"read_file","kind":"READ","json_schema":{"type":"object","required":["path"],"properties":{"path":{"type":"string"}},"additionalProperties":false}},` +
	`{"name":"run","kind":"TERMINAL","json_schema":{"type":"object","required":["command"],"properties":{"command":{"type":"string"}},"additionalProperties":false}},` +
	`{"name":"search","kind":"SEARCH","json_schema":{"type":"object","required":["pattern"],"properties":{"pattern":{"type":"string"}},"additionalProperties":false}}]`)

// Tick moves time.
func Tick(id string) *event.ControlRecord {
	return &event.ControlRecord{Id: id, Body: &event.ControlRecord_Tick{Tick: &event.Tick{}}}
}

// Stream is the events of one session in the order in which they are emitted.
type Stream struct {
	Session string
	Unit    string
	Version string
	Now     time.Time
	Events  []*event.SessionEvent
	turn    string
	turns   int
	step    uint32
	calls   uint32
	tokens  uint32
	numbers map[string]uint64

	repository *event.Repository // that its turns work in; nil: unknown
}

// NewStream begins a session.
func NewStream(session, unit string, at time.Time) *Stream {
	return &Stream{Session: session, Unit: unit, Version: "base", Now: at, numbers: map[string]uint64{}}
}

// Wait lets time pass.
func (s *Stream) Wait(d time.Duration) *Stream { s.Now = s.Now.Add(d); return s }

// Emit adds an event of a source, numbered and timed.
func (s *Stream) Emit(source string, body *event.SessionEvent) *event.SessionEvent {
	s.numbers[source]++
	body.Source, body.SessionId, body.TurnId, body.UnitId = source, s.Session, s.turn, s.Unit
	body.Sequence = s.numbers[source]
	body.EventId = fmt.Sprintf("%s-%s-%d", s.Session, source, s.numbers[source])
	body.OccurredAt = timestamppb.New(s.Now)
	body.Privacy = event.Privacy_FULL
	s.Events = append(s.Events, body)
	return body
}

// Start begins the next turn.
func (s *Stream) Start(intent event.Intent, relation event.Relation, text string) *Stream {
	s.turns++
	s.step, s.calls, s.tokens = 0, 0, 0
	s.turn = fmt.Sprintf("%s-t%d", s.Session, s.turns)
	s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_TurnStarted{TurnStarted: &event.TurnStarted{
		Context: &event.TurnContext{HarnessVersion: "h1", ToolSchemaDigest: arrowfile.SHA256(Tools), Origin: event.Origin_LIVE, Repository: s.repository},
		Intent:  intent, Relation: relation, Text: text,
	}}}).SchemaRegistered = true
	return s
}

// Step is one generation of that many tokens, which took d.
func (s *Stream) Step(tokens uint32, d time.Duration) *Stream {
	s.step++
	prompt := uint32(5)
	s.Wait(d)
	step := &event.StepCompleted{
		Step: s.step, PolicyVersion: s.Version, PromptPrefixLen: s.tokens,
		PromptTokenIds: ids(prompt, s.step), OutputTokenIds: ids(tokens, s.step+100), OutputLogprobs: logprobs(tokens),
		Sampling:  &event.Sampling{Temperature: 1, TopP: 1, LogprobsMode: "processed_logprobs"},
		Tokens:    &event.TokenCounts{Prompt: proto.Uint32(prompt), Thinking: proto.Uint32(0), ToolArgument: proto.Uint32(0), Final: proto.Uint32(tokens)},
		LatencyMs: proto.Float64(float64(d.Milliseconds())), StopReason: "stop",
	}
	s.tokens += prompt + tokens
	s.Emit("engine", &event.SessionEvent{Body: &event.SessionEvent_StepCompleted{StepCompleted: step}})
	return s
}

// Call is a tool call with its result.
func (s *Stream) Call(tool string, kind event.ToolKind, arguments string, outcome event.ToolOutcome) *Stream {
	s.calls++
	id := fmt.Sprintf("%s-c%d", s.turn, s.calls)
	s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_ToolCalled{ToolCalled: &event.ToolCalled{
		CallId: id, Step: s.step, Tool: tool, Kind: kind, Raw: &event.ToolCalled_Arguments{Arguments: arguments},
	}}})
	s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_ToolReturned{ToolReturned: &event.ToolReturned{
		CallId: id, Outcome: outcome, OutputTokens: proto.Uint32(20),
	}}})
	return s
}

// Edit proposes an edit of that many characters, shown to the user; it gives the edit's id.
func (s *Stream) Edit(characters uint32) string {
	s.Call("edit_file", event.ToolKind_EDIT_FILE, `{"path":"a.go","text":"x"}`, event.ToolOutcome_OK)
	id := fmt.Sprintf("%s-e%d", s.turn, s.calls)
	s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_EditProposed{EditProposed: &event.EditProposed{
		EditId: id, CallId: fmt.Sprintf("%s-c%d", s.turn, s.calls), FileHash: "f", Language: "go", CharactersAdded: characters, Shown: true,
	}}})
	return id
}

// Decide is the user's decision on an edit.
func (s *Stream) Decide(edit string, d event.Decision) *Stream {
	s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_EditDecided{EditDecided: &event.EditDecided{
		EditId: edit, Decision: d, Shown: proto.Bool(true), Source: event.DecisionSource_USER,
	}}})
	return s
}

// Observe reports what is left of an edit after that many seconds.
func (s *Stream) Observe(edit string, seconds, retention float64) *Stream {
	s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_EditObserved{EditObserved: &event.EditObserved{
		EditId: edit, SecondsSinceAcceptance: seconds, FourGram: proto.Float64(retention), NoRevert: proto.Float64(retention),
	}}})
	return s
}

// Checks reports a check's failures before and after.
func (s *Stream) Checks(before, after uint32) *Stream {
	s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_ChecksRan{ChecksRan: &event.ChecksRan{
		Kind: event.CheckKind_TEST, FailuresBefore: proto.Uint32(before), FailuresAfter: proto.Uint32(after),
	}}})
	return s
}

// Judge adds a judge's evidence on the turn.
func (s *Stream) Judge(class event.FollowUpClass, polarity, confidence float64) *Stream {
	s.Emit("judge", &event.SessionEvent{Body: &event.SessionEvent_EvidenceAdded{EvidenceAdded: &event.EvidenceAdded{
		FollowUp: class, Polarity: proto.Float64(polarity), Confidence: proto.Float64(confidence), ClassifierVersion: "judge-1",
	}}})
	return s
}

// End ends the turn.
func (s *Stream) End(reason event.EndReason, asks bool) *Stream {
	s.Emit("ide", &event.SessionEvent{Body: &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{
		Steps: proto.Uint32(s.step), ToolCalls: proto.Uint32(s.calls), Reason: reason, AsksUser: asks,
	}}})
	return s
}

// Turn is the id of the turn under way.
func (s *Stream) Turn() string { return s.turn }

func ids(n, salt uint32) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, (i*7+salt*13)%1000)
	}
	return b
}

func logprobs(n uint32) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(-float32(i%10)/10-0.01))
	}
	return b
}

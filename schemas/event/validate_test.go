package event_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/schemas/event"
)

func ids(tokens ...int32) []byte {
	var packed []byte
	for _, t := range tokens {
		packed = binary.LittleEndian.AppendUint32(packed, uint32(t))
	}
	return packed
}

func floats(values ...float32) []byte {
	var packed []byte
	for _, v := range values {
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(v))
	}
	return packed
}

// with is a valid envelope around a body, which must be one of the generated oneof wrappers.
func with(set func(*event.SessionEvent)) *event.SessionEvent {
	e := &event.SessionEvent{
		Source: "ide", EventId: "e1", SessionId: "s1", Sequence: 1, TurnId: "t1", UnitId: "u1",
		OccurredAt: &timestamppb.Timestamp{Seconds: 1_790_000_000},
	}
	set(e)
	return e
}

func sessionStarted(s *event.SessionStarted) *event.SessionEvent {
	return with(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_SessionStarted{SessionStarted: s} })
}

func turnStarted(t *event.TurnStarted) *event.SessionEvent {
	return with(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_TurnStarted{TurnStarted: t} })
}

func withoutUnit() *event.SessionEvent {
	e := turnStarted(&event.TurnStarted{Context: &event.TurnContext{}})
	e.UnitId = ""
	return e
}

func step(change func(*event.StepCompleted)) *event.SessionEvent {
	s := &event.StepCompleted{
		Step: 1, PolicyVersion: "p1",
		PromptTokenIds: ids(1, 2), OutputTokenIds: ids(3, 4, 5), OutputLogprobs: floats(-.1, 0, -2), OutputMask: []byte{1, 0, 1},
		VersionSpans: []*event.VersionSpan{{Version: "p1", Start: 0, End: 2}, {Version: "p2", Start: 2, End: 3}},
		Sampling:     &event.Sampling{Temperature: 1, TopP: 1, TopK: -1, LogprobsMode: "processed_logprobs"},
		LatencyMs:    proto.Float64(900),
	}
	change(s)
	return with(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_StepCompleted{StepCompleted: s} })
}

func toolCalled(t *event.ToolCalled) *event.SessionEvent {
	return with(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_ToolCalled{ToolCalled: t} })
}

func toolReturned(t *event.ToolReturned) *event.SessionEvent {
	return with(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_ToolReturned{ToolReturned: t} })
}

func observed(o *event.EditObserved) *event.SessionEvent {
	return with(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_EditObserved{EditObserved: o} })
}

func ended() *event.SessionEvent {
	return with(func(e *event.SessionEvent) {
		e.Body = &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{Reason: event.EndReason_COMPLETED}}
	})
}

func envelope(change func(*event.SessionEvent)) *event.SessionEvent {
	e := ended()
	change(e)
	return e
}

func TestValidateAccepts(t *testing.T) {
	t.Parallel()
	turnContext := &event.TurnContext{Experiment: "x", Arm: "candidate", GroupIndex: 3, GroupSize: 4}
	for name, e := range map[string]*event.SessionEvent{
		"turn ended": ended(),
		"session started without a turn": envelope(func(e *event.SessionEvent) {
			e.TurnId = ""
			e.Body = &event.SessionEvent_SessionStarted{SessionStarted: &event.SessionStarted{
				Tools: []*event.ToolSchema{{Name: "Edit", Kind: event.ToolKind_EDIT_FILE, JsonSchema: `{"type":"object"}`}},
			}}
		}),
		"session ended without a turn": envelope(func(e *event.SessionEvent) {
			e.TurnId = ""
			e.Body = &event.SessionEvent_SessionEnded{SessionEnded: &event.SessionEnded{}}
		}),
		"stub without a turn": envelope(func(e *event.SessionEvent) {
			e.TurnId = ""
			e.Body = &event.SessionEvent_Stub{Stub: &event.Stub{Reason: "too_large", Body: "toolReturned", Bytes: 1e7}}
		}),
		"turn started": turnStarted(&event.TurnStarted{Context: turnContext, Text: "a\x00b\n"}),
		"step":         step(func(*event.StepCompleted) {}),
		"step without output": step(func(s *event.StepCompleted) {
			s.OutputTokenIds, s.OutputLogprobs, s.OutputMask, s.VersionSpans = nil, nil, nil, nil
		}),
		"step, tokens stripped": step(func(s *event.StepCompleted) {
			s.PromptTokenIds, s.OutputTokenIds, s.OutputLogprobs, s.OutputMask = nil, nil, nil, nil
		}),
		"step without a mask":    step(func(s *event.StepCompleted) { s.OutputMask = nil }),
		"rounded log-prob":       step(func(s *event.StepCompleted) { s.OutputLogprobs = floats(1e-6, 0, 0) }),
		"later step with prefix": step(func(s *event.StepCompleted) { s.Step, s.PromptPrefixLen = 2, 9 }),
		"broken arguments":       toolCalled(&event.ToolCalled{CallId: "c", Tool: "Edit", Raw: &event.ToolCalled_Arguments{Arguments: `{"a":`}}),
		"arguments as bytes":     toolCalled(&event.ToolCalled{CallId: "c", Tool: "Edit", Raw: &event.ToolCalled_ArgumentsBytes{ArgumentsBytes: []byte{0xff}}}),
		"invented tool":          toolCalled(&event.ToolCalled{CallId: "c", Tool: strings.Repeat("x", 1000)}),
		"returned":               toolReturned(&event.ToolReturned{CallId: "c", Outcome: event.ToolOutcome_OK}),
		"observed by scores":     observed(&event.EditObserved{EditId: "e", FourGram: proto.Float64(.5)}),
		"observed by texts":      observed(&event.EditObserved{EditId: "e", Hunks: []*event.Hunk{{Before: "gone"}}}),
		"observed, stripped": envelope(func(e *event.SessionEvent) {
			e.Privacy = event.Privacy_NO_CONTENT
			e.Body = &event.SessionEvent_EditObserved{EditObserved: &event.EditObserved{EditId: "e"}}
		}),
		"thumb": envelope(func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: -1}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Nil(t, event.Validate(e))
		})
	}
}

func TestValidateRejects(t *testing.T) {
	t.Parallel()
	body := with
	arm := func(experiment, arm string) *event.SessionEvent {
		return turnStarted(&event.TurnStarted{Context: &event.TurnContext{Experiment: experiment, Arm: arm}})
	}
	tools := func(tools ...*event.ToolSchema) *event.SessionEvent {
		return sessionStarted(&event.SessionStarted{Tools: tools})
	}
	for name, c := range map[string]struct {
		event         *event.SessionEvent
		reason, field string
	}{
		"nothing":           {nil, "missing", ""},
		"no source":         {envelope(func(e *event.SessionEvent) { e.Source = "" }), "missing", "source"},
		"no id":             {envelope(func(e *event.SessionEvent) { e.EventId = "" }), "missing", "eventId"},
		"no session":        {envelope(func(e *event.SessionEvent) { e.SessionId = "" }), "missing", "sessionId"},
		"no turn":           {envelope(func(e *event.SessionEvent) { e.TurnId = "" }), "missing", "turnId"},
		"long id":           {envelope(func(e *event.SessionEvent) { e.EventId = strings.Repeat("é", 129) }), "too_long", "eventId"},
		"control character": {envelope(func(e *event.SessionEvent) { e.SessionId = "s\x00" }), "invalid_text", "sessionId"},
		"not UTF-8":         {envelope(func(e *event.SessionEvent) { e.TurnId = "t\xff" }), "invalid_text", "turnId"},
		"unit not text":     {envelope(func(e *event.SessionEvent) { e.UnitId = "\n" }), "invalid_text", "unitId"},
		"no time":           {envelope(func(e *event.SessionEvent) { e.OccurredAt = nil }), "missing", "occurredAt"},
		"time in ms":        {envelope(func(e *event.SessionEvent) { e.OccurredAt.Seconds = 1_790_000_000_000 }), "out_of_range", "occurredAt"},
		"time before 2000":  {envelope(func(e *event.SessionEvent) { e.OccurredAt.Seconds = 0 }), "out_of_range", "occurredAt"},
		"nanos":             {envelope(func(e *event.SessionEvent) { e.OccurredAt.Nanos = -1 }), "out_of_range", "occurredAt"},
		"sent in 1970":      {envelope(func(e *event.SessionEvent) { e.SentAt = &timestamppb.Timestamp{} }), "out_of_range", "sentAt"},
		"privacy":           {envelope(func(e *event.SessionEvent) { e.Privacy = 9 }), "unknown_value", "privacy"},
		"no body":           {envelope(func(e *event.SessionEvent) { e.Body = nil }), "unknown_body", ""},
		"empty body":        {envelope(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_TurnEnded{} }), "missing", "turnEnded"},
		"no unit":           {withoutUnit(), "missing", "unitId"},
		"no context":        {turnStarted(&event.TurnStarted{}), "missing", "turnStarted.context"},
		"intent":            {turnStarted(&event.TurnStarted{Intent: 77}), "unknown_value", "turnStarted.intent"},
		"arm of nothing":    {arm("", "control"), "missing", "turnStarted.context.experiment"},
		"no arm":            {arm("x", ""), "missing", "turnStarted.context.arm"},
		"strange arm":       {arm("x", "B"), "unknown_value", "turnStarted.context.arm"},
		"group":             {turnStarted(&event.TurnStarted{Context: &event.TurnContext{GroupIndex: 4, GroupSize: 4}}), "out_of_range", "turnStarted.context.groupIndex"},
		"tool without name": {tools(&event.ToolSchema{JsonSchema: "{}"}), "missing", "sessionStarted.tools[0].name"},
		"tool schema":       {tools(&event.ToolSchema{Name: "a", JsonSchema: "[]"}), "bad_document", "sessionStarted.tools[0].jsonSchema"},
		"null tool schema":  {tools(&event.ToolSchema{Name: "a", JsonSchema: "null"}), "bad_document", "sessionStarted.tools[0].jsonSchema"},
		"tool twice":        {tools(&event.ToolSchema{Name: "a", JsonSchema: "{}"}, &event.ToolSchema{Name: "a", JsonSchema: "{}"}), "repeated", "sessionStarted.tools[1].name"},
		"tool of nothing":   {tools(nil), "missing", "sessionStarted.tools[0].name"},
		"step 0":            {step(func(s *event.StepCompleted) { s.Step = 0 }), "out_of_range", "stepCompleted.step"},
		"no policy":         {step(func(s *event.StepCompleted) { s.PolicyVersion = "" }), "missing", "stepCompleted.policyVersion"},
		"first prefix":      {step(func(s *event.StepCompleted) { s.PromptPrefixLen = 1 }), "out_of_range", "stepCompleted.promptPrefixLen"},
		"odd prompt":        {step(func(s *event.StepCompleted) { s.PromptTokenIds = []byte{1} }), "bad_packing", "stepCompleted.promptTokenIds"},
		"odd output":        {step(func(s *event.StepCompleted) { s.OutputTokenIds = []byte{1, 2, 3} }), "bad_packing", "stepCompleted.outputTokenIds"},
		"negative id":       {step(func(s *event.StepCompleted) { s.OutputTokenIds = ids(1, -1, 2) }), "out_of_range", "stepCompleted.outputTokenIds[1]"},
		"odd log-probs":     {step(func(s *event.StepCompleted) { s.OutputLogprobs = []byte{1} }), "bad_packing", "stepCompleted.outputLogprobs"},
		"fewer log-probs":   {step(func(s *event.StepCompleted) { s.OutputLogprobs = floats(-1) }), "length_mismatch", "stepCompleted.outputLogprobs"},
		"no log-probs":      {step(func(s *event.StepCompleted) { s.OutputLogprobs = nil }), "length_mismatch", "stepCompleted.outputLogprobs"},
		"NaN log-prob":      {step(func(s *event.StepCompleted) { s.OutputLogprobs = floats(0, 0, float32(math.NaN())) }), "not_finite", "stepCompleted.outputLogprobs[2]"},
		"infinite log-prob": {step(func(s *event.StepCompleted) { s.OutputLogprobs = floats(0, float32(math.Inf(-1)), 0) }), "not_finite", "stepCompleted.outputLogprobs[1]"},
		"positive log-prob": {step(func(s *event.StepCompleted) { s.OutputLogprobs = floats(.5, 0, 0) }), "out_of_range", "stepCompleted.outputLogprobs[0]"},
		"mask length":       {step(func(s *event.StepCompleted) { s.OutputMask = []byte{1} }), "length_mismatch", "stepCompleted.outputMask"},
		"mask value":        {step(func(s *event.StepCompleted) { s.OutputMask = []byte{1, 2, 1} }), "out_of_range", "stepCompleted.outputMask[1]"},
		"span outside":      {step(func(s *event.StepCompleted) { s.VersionSpans[1].End = 4 }), "out_of_range", "stepCompleted.versionSpans[1].end"},
		"span of no output": {step(func(s *event.StepCompleted) {
			s.OutputTokenIds, s.OutputLogprobs, s.OutputMask = nil, nil, nil
		}), "out_of_range", "stepCompleted.versionSpans[0].end"},
		"span beyond all numbers": {step(func(s *event.StepCompleted) { s.VersionSpans[1].End = math.MaxUint32 }), "out_of_range", "stepCompleted.versionSpans[1].end"},
		"span overlap":            {step(func(s *event.StepCompleted) { s.VersionSpans[1].Start = 1 }), "out_of_range", "stepCompleted.versionSpans[1].start"},
		"empty span":              {step(func(s *event.StepCompleted) { s.VersionSpans[0].End = 0 }), "out_of_range", "stepCompleted.versionSpans[0].end"},
		"span of nobody":          {step(func(s *event.StepCompleted) { s.VersionSpans[0].Version = "" }), "missing", "stepCompleted.versionSpans[0].version"},
		"temperature":             {step(func(s *event.StepCompleted) { s.Sampling.Temperature = -1 }), "out_of_range", "stepCompleted.sampling.temperature"},
		"top_p":                   {step(func(s *event.StepCompleted) { s.Sampling.TopP = 1.5 }), "out_of_range", "stepCompleted.sampling.topP"},
		"top_k":                   {step(func(s *event.StepCompleted) { s.Sampling.TopK = -2 }), "out_of_range", "stepCompleted.sampling.topK"},
		"latency":                 {step(func(s *event.StepCompleted) { s.LatencyMs = proto.Float64(math.NaN()) }), "not_finite", "stepCompleted.latencyMs"},
		"no call id":              {toolCalled(&event.ToolCalled{Tool: "a"}), "missing", "toolCalled.callId"},
		"no tool":                 {toolCalled(&event.ToolCalled{CallId: "a"}), "missing", "toolCalled.tool"},
		"endless tool":            {toolCalled(&event.ToolCalled{CallId: "a", Tool: strings.Repeat("x", 5000)}), "too_long", "toolCalled.tool"},
		"arguments not text":      {toolCalled(&event.ToolCalled{CallId: "a", Tool: "b", Raw: &event.ToolCalled_Arguments{Arguments: "\xff"}}), "invalid_text", "toolCalled.arguments"},
		"validation":              {toolCalled(&event.ToolCalled{CallId: "a", Tool: "b", HarnessValidation: event.ToolOutcome(99).Enum()}), "unknown_value", "toolCalled.harnessValidation"},
		"no outcome":              {toolReturned(&event.ToolReturned{CallId: "a"}), "missing", "toolReturned.outcome"},
		"strange outcome":         {toolReturned(&event.ToolReturned{CallId: "a", Outcome: 99}), "unknown_value", "toolReturned.outcome"},
		"duration":                {toolReturned(&event.ToolReturned{CallId: "a", Outcome: 1, DurationMs: proto.Float64(-1)}), "out_of_range", "toolReturned.durationMs"},
		"no edit": {body(func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_EditProposed{EditProposed: &event.EditProposed{}}
		}), "missing", "editProposed.editId"},
		"no decision": {body(func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_EditDecided{EditDecided: &event.EditDecided{EditId: "e"}}
		}), "missing", "editDecided.decision"},
		"score":         {observed(&event.EditObserved{EditId: "e", FourGram: proto.Float64(1.1)}), "out_of_range", "editObserved.fourGram"},
		"seconds":       {observed(&event.EditObserved{EditId: "e", SecondsSinceAcceptance: math.Inf(1)}), "not_finite", "editObserved.secondsSinceAcceptance"},
		"empty hunk":    {observed(&event.EditObserved{EditId: "e", Hunks: []*event.Hunk{{Now: "x"}}}), "missing", "editObserved.hunks[0]"},
		"hunk of none":  {observed(&event.EditObserved{EditId: "e", Hunks: []*event.Hunk{nil}}), "missing", "editObserved.hunks[0]"},
		"hunk not text": {observed(&event.EditObserved{EditId: "e", Hunks: []*event.Hunk{{Ai: "\xff"}}}), "invalid_text", "editObserved.hunks[0].ai"},
		"nothing seen":  {observed(&event.EditObserved{EditId: "e"}), "missing", "editObserved"},
		"no check":      {body(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_ChecksRan{ChecksRan: &event.ChecksRan{}} }), "missing", "checksRan.kind"},
		"rating": {body(func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_FeedbackGiven{FeedbackGiven: &event.FeedbackGiven{Rating: 5}}
		}), "out_of_range", "feedbackGiven.rating"},
		"end reason": {body(func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{Reason: 9}}
		}), "unknown_value", "turnEnded.reason"},
		"empty evidence": {body(func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_EvidenceAdded{EvidenceAdded: &event.EvidenceAdded{}}
		}), "missing", "evidenceAdded.followUp"},
		"confidence": {body(func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_EvidenceAdded{EvidenceAdded: &event.EvidenceAdded{FollowUp: 2, Confidence: proto.Float64(2)}}
		}), "out_of_range", "evidenceAdded.confidence"},
		"no status": {body(func(e *event.SessionEvent) {
			e.Body = &event.SessionEvent_InfrastructureReported{InfrastructureReported: &event.InfrastructureReported{}}
		}), "missing", "infrastructureReported.status"},
		"stub of nothing": {body(func(e *event.SessionEvent) { e.Body = &event.SessionEvent_Stub{Stub: &event.Stub{}} }), "missing", "stub.reason"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := event.Validate(c.event)
			require.NotNil(t, bad)
			require.Equal(t, c.reason, bad.Reason, bad.Message)
			require.Equal(t, c.field, bad.Field)
			require.NotEmpty(t, bad.Message)
			require.Contains(t, bad.Error(), bad.Field)
		})
	}
}

// Whatever bytes stand in the log, decoding and validating them never panics, and what is valid travels unchanged.
func FuzzValidate(f *testing.F) {
	for _, e := range []*event.SessionEvent{
		ended(), step(func(*event.StepCompleted) {}), turnStarted(&event.TurnStarted{Context: &event.TurnContext{}}),
		observed(&event.EditObserved{EditId: "e", Hunks: []*event.Hunk{{Ai: "x"}}}), toolCalled(&event.ToolCalled{CallId: "c", Tool: "t"}),
	} {
		b, err := e.MarshalVT()
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e := &event.SessionEvent{}
		if e.UnmarshalVT(b) != nil || event.Validate(e) != nil {
			return
		}
		again, err := e.MarshalVT()
		require.NoError(t, err)
		back := &event.SessionEvent{}
		require.NoError(t, back.UnmarshalVT(again))
		require.Nil(t, event.Validate(back))
	})
}

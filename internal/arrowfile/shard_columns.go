package arrowfile

import (
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"millrace/schemas/sample"
)

var (
	stepStruct = arrow.StructOf(
		required("start", arrow.PrimitiveTypes.Int32),
		required("end", arrow.PrimitiveTypes.Int32),
		required("stop_reason", arrow.BinaryTypes.String),
		required("latency_ms", arrow.PrimitiveTypes.Float32),
		required("temperature", arrow.PrimitiveTypes.Float32),
		required("top_p", arrow.PrimitiveTypes.Float32),
		required("top_k", arrow.PrimitiveTypes.Int32),
		required("logprobs_mode", arrow.BinaryTypes.String))
	spanStruct = arrow.StructOf(
		required("version", arrow.BinaryTypes.String),
		required("start", arrow.PrimitiveTypes.Int32),
		required("end", arrow.PrimitiveTypes.Int32))
	sampleComponentStruct = arrow.StructOf(
		required("name", arrow.BinaryTypes.String),
		arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		required("weight", arrow.PrimitiveTypes.Float64))
)

type row = sample.Row

// shardColumns are sample.Columns; a test compares the two.
var shardColumns = []column[row]{
	text("sample_id", func(r *row) *string { return &r.SampleID }),
	text("session_id", func(r *row) *string { return &r.SessionID }),
	text("turn_id", func(r *row) *string { return &r.TurnID }),
	plain("branch", func(r *row) *int32 { return &r.Branch }),
	plain("branches_in_turn", func(r *row) *int32 { return &r.BranchesInTurn }),
	text("origin", func(r *row) *string { return &r.Origin }),
	optionalText("group_id", func(r *row) *string { return &r.GroupID }),
	ofGroup("group_index", func(r *row) *int32 { return &r.GroupIndex }),
	ofGroup("group_size", func(r *row) *int32 { return &r.GroupSize }),
	packed("input_ids", arrow.PrimitiveTypes.Int32.(arrow.FixedWidthDataType), false,
		func(r *row) []byte { return r.InputIDs }, func(r *row, b []byte) { r.InputIDs = b }),
	plain("prompt_length", func(r *row) *int32 { return &r.PromptLength }),
	packed("loss_mask", arrow.PrimitiveTypes.Uint8.(arrow.FixedWidthDataType), false,
		func(r *row) []byte { return r.LossMask }, func(r *row, b []byte) { r.LossMask = b }),
	packed("behavior_logprobs", arrow.PrimitiveTypes.Float32.(arrow.FixedWidthDataType), false,
		func(r *row) []byte { return r.BehaviorLogprobs }, func(r *row, b []byte) { r.BehaviorLogprobs = b }),
	nested("steps", stepStruct, func(r *row) int { return len(r.Steps) }, appendStep, readSteps),
	text("policy_version", func(r *row) *string { return &r.PolicyVersion }),
	number("policy_ordinal", true,
		func(r *row) (int64, bool) { return r.PolicyOrdinal, r.PolicyOrdinal >= 0 },
		func(r *row, v int64, known bool) {
			if r.PolicyOrdinal = v; !known {
				r.PolicyOrdinal = -1
			}
		}),
	text("unit_hash", func(r *row) *string { return &r.UnitHash }),
	nested("policy_version_spans", spanStruct, func(r *row) int { return len(r.PolicyVersionSpans) }, appendSpan, readSpans),
	plain("reward", func(r *row) *float64 { return &r.Reward }),
	plain("advantage", func(r *row) *float64 { return &r.Advantage }),
	packed("token_advantages", arrow.PrimitiveTypes.Float32.(arrow.FixedWidthDataType), true,
		func(r *row) []byte { return floatBytes(r.TokenAdvantages) }, func(r *row, b []byte) { r.TokenAdvantages = bytesFloat(b) }),
	nested("reward_components", sampleComponentStruct, func(r *row) int { return len(r.RewardComponents) }, appendSampleComponent, readSampleComponents),
	text("outcome", func(r *row) *string { return &r.Outcome }),
	text("harness_version", func(r *row) *string { return &r.HarnessVersion }),
	text("tool_schema_digest", func(r *row) *string { return &r.ToolSchemaDigest }),
	text("reward_spec", func(r *row) *string { return &r.RewardSpec }),
	text("classifier_version", func(r *row) *string { return &r.ClassifierVersion }),
	text("baseline_version", func(r *row) *string { return &r.BaselineVersion }),
	text("tokenizer_digest", func(r *row) *string { return &r.TokenizerDigest }),
	text("chat_template_digest", func(r *row) *string { return &r.ChatTemplateDigest }),
	optionalText("sidecar", func(r *row) *string { return &r.Sidecar }),
	instant("settled_at", false, func(r *row) *time.Time { return &r.SettledAt }),
}

// ofGroup is null for a row without a group.
func ofGroup(name string, field func(*row) *int32) column[row] {
	return number(name, true,
		func(r *row) (int32, bool) { return *field(r), r.GroupID != "" },
		func(r *row, v int32, _ bool) { *field(r) = v })
}

func appendStep(b array.Builder, r *row, i int) {
	s, step := b.(*array.StructBuilder), &r.Steps[i]
	s.Append(true)
	s.FieldBuilder(0).(*array.Int32Builder).Append(step.Start)
	s.FieldBuilder(1).(*array.Int32Builder).Append(step.End)
	s.FieldBuilder(2).(*array.StringBuilder).Append(step.StopReason)
	s.FieldBuilder(3).(*array.Float32Builder).Append(step.LatencyMs)
	s.FieldBuilder(4).(*array.Float32Builder).Append(step.Temperature)
	s.FieldBuilder(5).(*array.Float32Builder).Append(step.TopP)
	s.FieldBuilder(6).(*array.Int32Builder).Append(step.TopK)
	s.FieldBuilder(7).(*array.StringBuilder).Append(step.LogprobsMode)
}

func readSteps(items arrow.Array, r *row, from, to int) {
	s := items.(*array.Struct)
	start, end := s.Field(0).(*array.Int32), s.Field(1).(*array.Int32)
	stop, mode := s.Field(2).(*array.String), s.Field(7).(*array.String)
	latency, temperature, topP := s.Field(3).(*array.Float32), s.Field(4).(*array.Float32), s.Field(5).(*array.Float32)
	topK := s.Field(6).(*array.Int32)
	r.Steps = make([]sample.Step, 0, to-from)
	for i := from; i < to; i++ {
		r.Steps = append(r.Steps, sample.Step{
			Start: start.Value(i), End: end.Value(i), StopReason: stop.Value(i), LatencyMs: latency.Value(i),
			Temperature: temperature.Value(i), TopP: topP.Value(i), TopK: topK.Value(i), LogprobsMode: mode.Value(i),
		})
	}
}

func appendSpan(b array.Builder, r *row, i int) {
	s, span := b.(*array.StructBuilder), &r.PolicyVersionSpans[i]
	s.Append(true)
	s.FieldBuilder(0).(*array.StringBuilder).Append(span.Version)
	s.FieldBuilder(1).(*array.Int32Builder).Append(span.Start)
	s.FieldBuilder(2).(*array.Int32Builder).Append(span.End)
}

func readSpans(items arrow.Array, r *row, from, to int) {
	s := items.(*array.Struct)
	version, start, end := s.Field(0).(*array.String), s.Field(1).(*array.Int32), s.Field(2).(*array.Int32)
	for i := from; i < to; i++ {
		r.PolicyVersionSpans = append(r.PolicyVersionSpans, sample.Span{Version: version.Value(i), Start: start.Value(i), End: end.Value(i)})
	}
}

func appendSampleComponent(b array.Builder, r *row, i int) {
	s, c := b.(*array.StructBuilder), &r.RewardComponents[i]
	s.Append(true)
	s.FieldBuilder(0).(*array.StringBuilder).Append(c.Name)
	if c.Known {
		s.FieldBuilder(1).(*array.Float64Builder).Append(c.Value)
	} else {
		s.FieldBuilder(1).AppendNull()
	}
	s.FieldBuilder(2).(*array.Float64Builder).Append(c.Weight)
}

func readSampleComponents(items arrow.Array, r *row, from, to int) {
	s := items.(*array.Struct)
	name, value, weight := s.Field(0).(*array.String), s.Field(1).(*array.Float64), s.Field(2).(*array.Float64)
	r.RewardComponents = make([]sample.Component, 0, to-from)
	for i := from; i < to; i++ {
		c := sample.Component{Name: name.Value(i), Weight: weight.Value(i)}
		if value.IsValid(i) {
			c.Value, c.Known = value.Value(i), true
		}
		r.RewardComponents = append(r.RewardComponents, c)
	}
}

package arrowfile

import (
	"math"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"millrace/schemas/ledger"
)

type ledgerRow = ledger.Row

var ledgerComponentStruct = arrow.StructOf(
	required("name", arrow.BinaryTypes.String),
	arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Float64, Nullable: true})

// ledgerColumns are ledger.Columns; a test compares the two.
var ledgerColumns = func() []column[ledgerRow] {
	columns := []column[ledgerRow]{
		text("kind", func(r *ledgerRow) *string { return (*string)(&r.Kind) }),
		optionalText("source", func(r *ledgerRow) *string { return &r.Source }),
		optionalText("event_id", func(r *ledgerRow) *string { return &r.EventID }),
		optionalText("event_body", func(r *ledgerRow) *string { return &r.EventBody }),
		text("session_id", func(r *ledgerRow) *string { return &r.SessionID }),
		text("turn_id", func(r *ledgerRow) *string { return &r.TurnID }),
		optionalText("unit_hash", func(r *ledgerRow) *string { return &r.UnitHash }),
		optionalText("policy_version", func(r *ledgerRow) *string { return &r.PolicyVersion }),
		nested("policy_versions", arrow.BinaryTypes.String, func(r *ledgerRow) int { return len(r.PolicyVersions) },
			func(b array.Builder, r *ledgerRow, i int) { b.(*array.StringBuilder).Append(r.PolicyVersions[i]) }, readPolicyVersions),
		optionalText("experiment", func(r *ledgerRow) *string { return &r.Experiment }),
		optionalText("arm", func(r *ledgerRow) *string { return &r.Arm }),
		optionalText("origin", func(r *ledgerRow) *string { return &r.Origin }),
		optionalText("intent", func(r *ledgerRow) *string { return &r.Intent }),
		optionalText("harness_version", func(r *ledgerRow) *string { return &r.HarnessVersion }),
		optionalText("language", func(r *ledgerRow) *string { return &r.Language }),
		optionalText("size_class", func(r *ledgerRow) *string { return &r.SizeClass }),
		optionalText("stratum", func(r *ledgerRow) *string { return &r.Stratum }),
		optionalText("reward_spec", func(r *ledgerRow) *string { return &r.RewardSpec }),
		optionalText("reward_spec_digest", func(r *ledgerRow) *string { return &r.RewardSpecDigest }),
		optionalText("classifier_version", func(r *ledgerRow) *string { return &r.ClassifierVersion }),
		optionalText("baseline_version", func(r *ledgerRow) *string { return &r.BaselineVersion }),
		optionalText("tool_schema_digest", func(r *ledgerRow) *string { return &r.ToolSchemaDigest }),
	}
	for i, s := range ledger.Signals {
		columns = append(columns, number(s.Column(), true,
			func(r *ledgerRow) (float64, bool) {
				if i >= len(r.Signals) {
					return 0, false
				}
				return r.Signals[i].Number, r.Signals[i].Known
			},
			func(r *ledgerRow, v float64, known bool) { r.Signals[i] = ledger.Value{Number: v, Known: known} }))
	}
	return append(columns,
		optionalText("follow_up_class", func(r *ledgerRow) *string { return &r.FollowUpClass }),
		nested("components", ledgerComponentStruct, func(r *ledgerRow) int { return len(r.Components) }, appendComponent, readComponents),
		value("reward", func(r *ledgerRow) *ledger.Value { return &r.Reward }),
		value("advantage", func(r *ledgerRow) *ledger.Value { return &r.Advantage }),
		optionalText("disposition", func(r *ledgerRow) *string { return (*string)(&r.Disposition) }),
		optionalText("reason", func(r *ledgerRow) *string { return &r.Reason }),
		optionalText("outcome", func(r *ledgerRow) *string { return &r.Outcome }),
		optionalText("p_edit_stratum", func(r *ledgerRow) *string { return &r.PEditStratum }),
		flag("question", isTurn, func(r *ledgerRow) *bool { return &r.Question }),
		flag("answered", asked, func(r *ledgerRow) *bool { return &r.Answered }),
		number("questions_to_answer", true,
			func(r *ledgerRow) (int32, bool) { return r.QuestionsToAnswer, asked(r) },
			func(r *ledgerRow, v int32, _ bool) { r.QuestionsToAnswer = v }),
		optionalText("answered_by", func(r *ledgerRow) *string { return &r.AnsweredBy }),
		number("settle_after_s", true,
			func(r *ledgerRow) (float64, bool) { return r.SettleAfter.Seconds(), r.SettleAfter != 0 },
			func(r *ledgerRow, v float64, _ bool) {
				r.SettleAfter = time.Duration(math.Round(v*1e6)) * time.Microsecond
			}),
		optionalText("without_tokens", func(r *ledgerRow) *string { return &r.WithoutTokens }),
		number("sequences", true,
			func(r *ledgerRow) (int32, bool) { return r.Sequences, isTurn(r) },
			func(r *ledgerRow, v int32, _ bool) { r.Sequences = v }),
		plain("chain", func(r *ledgerRow) *int32 { return &r.Chain }),
		plain("branches", func(r *ledgerRow) *int32 { return &r.Branches }),
		text("topic", func(r *ledgerRow) *string { return &r.Topic }),
		plain("partition", func(r *ledgerRow) *int32 { return &r.Partition }),
		plain("first_offset", func(r *ledgerRow) *int64 { return &r.FirstOffset }),
		plain("last_offset", func(r *ledgerRow) *int64 { return &r.LastOffset }),
		instant("started_at", true, func(r *ledgerRow) *time.Time { return &r.StartedAt }),
		instant("ended_at", true, func(r *ledgerRow) *time.Time { return &r.EndedAt }),
		instant("settled_at", true, func(r *ledgerRow) *time.Time { return &r.SettledAt }),
	)
}()

func isTurn(r *ledgerRow) bool { return r.Kind == ledger.Turn }
func asked(r *ledgerRow) bool  { return r.Question }

func value(name string, field func(*ledgerRow) *ledger.Value) column[ledgerRow] {
	return number(name, true,
		func(r *ledgerRow) (float64, bool) { return field(r).Number, field(r).Known },
		func(r *ledgerRow, v float64, known bool) { *field(r) = ledger.Value{Number: v, Known: known} })
}

func readPolicyVersions(items arrow.Array, r *ledgerRow, from, to int) {
	versions := items.(*array.String)
	for i := from; i < to; i++ {
		r.PolicyVersions = append(r.PolicyVersions, versions.Value(i))
	}
}

func appendComponent(b array.Builder, r *ledgerRow, i int) {
	s, c := b.(*array.StructBuilder), &r.Components[i]
	s.Append(true)
	s.FieldBuilder(0).(*array.StringBuilder).Append(c.Name)
	if c.Value.Known {
		s.FieldBuilder(1).(*array.Float64Builder).Append(c.Value.Number)
	} else {
		s.FieldBuilder(1).AppendNull()
	}
}

func readComponents(items arrow.Array, r *ledgerRow, from, to int) {
	s := items.(*array.Struct)
	name, number := s.Field(0).(*array.String), s.Field(1).(*array.Float64)
	r.Components = make([]ledger.Component, 0, to-from)
	for i := from; i < to; i++ {
		c := ledger.Component{Name: name.Value(i)}
		if number.IsValid(i) {
			c.Value = ledger.Of(number.Value(i))
		}
		r.Components = append(r.Components, c)
	}
}

package ledger

// SchemaVersion stands in every ledger file as millrace.schema. It is raised when a column changes its meaning
// or goes away; new columns, a new signal's among them, are added without.
const SchemaVersion = "1"

// ColumnDef is one column of the ledger.
type ColumnDef struct {
	Name     string
	Type     string // Arrow's words
	Nullable bool   // null is "not observed" or "none", never 0
	Doc      string
}

// Columns are the columns of a ledger file in their order: what the row is, the signals in the order of
// their registry, then what was made of them. Rows stand in the order in which they settled in their
// partition (settled_at, then offset).
var Columns = func() []ColumnDef {
	columns := []ColumnDef{
		{"kind", "utf8", false, "turn: a settled turn; amendment: what was observed later"},
		{"source", "utf8", true, "of an amendment: who sent the event"},
		{"event_id", "utf8", true, "of an amendment: with source its key within the turn"},
		{"event_body", "utf8", true, "of an amendment: the event's kind"},
		{"session_id", "utf8", false, "of the events, as the client named it"},
		{"turn_id", "utf8", false, "with session_id the turn's key; of an amendment: of the turn that it is about"},
		{"unit_hash", "utf8", true, "keyed pseudonym of the unit"},
		{"policy_version", "utf8", true, "of the first step; the word none without one"},
		{"policy_versions", "list<utf8>", false, "all of them, in order of appearance"},
		{"experiment", "utf8", true, "id of the A/B test that the turn took part in; null: of none"},
		{"arm", "utf8", true, "control, candidate"},
		{"origin", "utf8", true, "live, simulated, imported"},
		{"intent", "utf8", true, "of the request, as the backend stamped it before the first step: edit, ask, debug, review, unknown"},
		{"harness_version", "utf8", true, "of the agent's harness, as the client sent it"},
		{"language", "utf8", true, "main language of the repository, as the client sent it"},
		{"size_class", "utf8", true, "of the repository, as the client sent it"},
		{"stratum", "utf8", true, "what the turn is compared within: intent/language/size/origin, known before its first step"},
		{"reward_spec", "utf8", true, "name@version"},
		{"reward_spec_digest", "utf8", true, "of the spec's document in the object store"},
		{"classifier_version", "utf8", true, "of what said follow_up_class: the structural rules, or the judge whose evidence counted"},
		{"baseline_version", "utf8", true, "of the frozen baseline that advantage is measured against"},
		{"tool_schema_digest", "utf8", true, "of the tools that the turn could call; null: none were registered"},
	}
	for _, s := range Signals {
		columns = append(columns, ColumnDef{s.Column(), "float64", true, s.Doc})
	}
	return append(columns,
		ColumnDef{"follow_up_class", "utf8", true, "of the next request"},
		ColumnDef{"components", "list<struct<name: utf8, value: float64?>>", false, "of the reward; a null value was not observed"},
		ColumnDef{"reward", "float64", true, "sum of the components that are not null, clipped; null without evidence"},
		ColumnDef{"advantage", "float64", true, "reward minus the frozen baseline"},
		ColumnDef{"disposition", "utf8", true, "the one class in which the turn ended; null in an amendment without one"},
		ColumnDef{"reason", "utf8", true, "why this disposition, in a few words"},
		ColumnDef{"outcome", "utf8", true, "completed, aborted, length, unended, error"},
		ColumnDef{"p_edit_stratum", "utf8", true, "the stratum whose frozen share of edit requests intent_p_edit is; null: it is certain"},
		ColumnDef{"question", "bool", true, "it ended asking instead of editing, and was scored as a question; null in an amendment"},
		ColumnDef{"answered", "bool", true, "its question was answered; null: it asked nothing"},
		ColumnDef{"questions_to_answer", "int32", true, "questions from this turn to the answer; null: it asked nothing"},
		ColumnDef{"answered_by", "utf8", true, "turn_id of the last turn of its chain, whose reward the question shares"},
		ColumnDef{"settle_after_s", "float64", true, "seconds from its end until its outcome was fixed; null: it never ended"},
		ColumnDef{"without_tokens", "utf8", true, "why there are no tokens to train on; null if there are"},
		ColumnDef{"sequences", "int32", true, "token sequences that there are to train on, whatever the disposition; null in an amendment"},
		ColumnDef{"chain", "int32", false, "turns that settled together with this one, 1 if alone"},
		ColumnDef{"branches", "int32", false, "sample rows of the turn: its sequences if it is rewarded, else 0"},
		ColumnDef{"topic", "utf8", false, "of the log"},
		ColumnDef{"partition", "int32", false, "of the topic"},
		ColumnDef{"first_offset", "int64", false, "of the turn's first event in the partition; of an amendment: of its event"},
		ColumnDef{"last_offset", "int64", false, "of the turn's last event; of an amendment: of its event"},
		ColumnDef{"started_at", "timestamp[us, UTC]", true, "the client's clock, skew-corrected"},
		ColumnDef{"ended_at", "timestamp[us, UTC]", true, "null: it never ended"},
		ColumnDef{"settled_at", "timestamp[us, UTC]", true, "log time"},
	)
}()

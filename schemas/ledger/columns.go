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
		{"source", "utf8", true, "of an amendment: with event_id its key"},
		{"event_id", "utf8", true, "of an amendment"},
		{"event_body", "utf8", true, "of an amendment: the event's kind"},
		{"session_id", "utf8", false, ""},
		{"turn_id", "utf8", false, ""},
		{"unit_hash", "utf8", true, "keyed pseudonym of the unit"},
		{"policy_version", "utf8", true, "of the first step; none without one"},
		{"policy_versions", "list<utf8>", false, "all of them, in order of appearance"},
		{"experiment", "utf8", true, ""},
		{"arm", "utf8", true, "control, candidate"},
		{"origin", "utf8", true, "live, simulated, imported"},
		{"intent", "utf8", true, ""},
		{"harness_version", "utf8", true, ""},
		{"language", "utf8", true, ""},
		{"size_class", "utf8", true, ""},
		{"stratum", "utf8", true, "of the baseline"},
		{"reward_spec", "utf8", true, "name@version"},
		{"reward_spec_digest", "utf8", true, ""},
		{"classifier_version", "utf8", true, ""},
		{"baseline_version", "utf8", true, ""},
		{"tool_schema_digest", "utf8", true, ""},
	}
	for _, s := range Signals {
		columns = append(columns, ColumnDef{s.Column(), "float64", true, s.Doc})
	}
	return append(columns,
		ColumnDef{"follow_up_class", "utf8", true, "of the next request"},
		ColumnDef{"components", "list<struct<name: utf8, value: float64?>>", false, "of the reward; a null value was not observed"},
		ColumnDef{"reward", "float64", true, ""},
		ColumnDef{"advantage", "float64", true, "reward minus the frozen baseline"},
		ColumnDef{"disposition", "utf8", true, "the one class in which the turn ended; null in an amendment without one"},
		ColumnDef{"reason", "utf8", true, ""},
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
		ColumnDef{"topic", "utf8", false, ""},
		ColumnDef{"partition", "int32", false, ""},
		ColumnDef{"first_offset", "int64", false, ""},
		ColumnDef{"last_offset", "int64", false, ""},
		ColumnDef{"started_at", "timestamp[us, UTC]", true, "the client's clock, skew-corrected"},
		ColumnDef{"ended_at", "timestamp[us, UTC]", true, "null: it never ended"},
		ColumnDef{"settled_at", "timestamp[us, UTC]", true, "log time"},
	)
}()

package sample

// SchemaVersion stands in every shard as millrace.schema. It is raised when a column changes its meaning or
// goes away; new columns are appended without.
const SchemaVersion = "1"

// Column is one column of a shard.
type Column struct {
	Name     string
	Type     string // Arrow's words: int32, list<uint8>, timestamp[us, UTC], …
	Nullable bool   // null is "not observed" or "none", never 0
	Doc      string
}

const (
	stepType      = "list<struct<start: int32, end: int32, stop_reason: utf8, latency_ms: float32, temperature: float32, top_p: float32, top_k: int32, logprobs_mode: utf8>>"
	spanType      = "list<struct<version: utf8, start: int32, end: int32>>"
	componentType = "list<struct<name: utf8, value: float64?, weight: float64>>"
)

// Columns are the columns of a shard, in their order. All per-token lists have the full length L of the
// sequence; untrained positions have mask 0 and log-prob 0.
var Columns = []Column{
	{"sample_id", "utf8", false, "unique"},
	{"session_id", "utf8", false, ""},
	{"turn_id", "utf8", false, "rows of a turn are contiguous, and never straddle shards"},
	{"branch", "int32", false, "0, 1, … within the turn, in this order"},
	{"branches_in_turn", "int32", false, "so that a long turn doesn't count more"},
	{"origin", "utf8", false, "live, simulated, imported"},
	{"group_id", "utf8", true, "simulated rollouts of one prompt"},
	{"group_index", "int32", true, "null without a group"},
	{"group_size", "int32", true, "null without a group"},
	{"input_ids", "list<int32>", false, "prompt and generations"},
	{"prompt_length", "int32", false, "tokens before the first generated one"},
	{"loss_mask", "list<uint8>", false, "1 where the policy's own tokens are trained"},
	{"behavior_logprobs", "list<float32>", false, "natural logarithm, under the recorded sampling settings"},
	{"steps", stepType, false, "where each generation stands ([start, end) in tokens), and what defines its log-probs"},
	{"policy_version", "utf8", false, "the shard's; equal in all rows"},
	{"policy_ordinal", "int64", true, "the registry's count; null if it isn't registered"},
	{"unit_hash", "utf8", false, "keyed pseudonym of the unit"},
	{"policy_version_spans", spanType, false, "[start, end) in tokens, if weights moved mid-generation"},
	{"reward", "float64", false, "finite"},
	{"advantage", "float64", false, "reward minus the frozen baseline; finite"},
	{"token_advantages", "list<float32>", true, "only where a step has its own blame"},
	{"reward_components", componentType, false, "a null value was not observed"},
	{"outcome", "utf8", false, "completed, aborted, length, unended, error"},
	{"harness_version", "utf8", false, ""},
	{"tool_schema_digest", "utf8", false, ""},
	{"reward_spec", "utf8", false, "name@version"},
	{"classifier_version", "utf8", false, ""},
	{"baseline_version", "utf8", false, ""},
	{"tokenizer_digest", "utf8", false, ""},
	{"chat_template_digest", "utf8", false, ""},
	{"sidecar", "utf8", true, "URI of routed experts, pixels or a sampling mask"},
	{"settled_at", "timestamp[us, UTC]", false, "log time"},
}

package cut

import "time"

// ManifestKey is where a cut's manifest stands in the object store. It is written once, after everything it names.
func ManifestKey(cut string) string { return "cuts/" + cut + "/manifest.json" }

// Manifest names everything a trainer needs to read a cut, and what the cut was made of.
type Manifest struct {
	Version int       `json:"millrace.cut"` // of this format: 1
	Cut     string    `json:"cut"`
	DueAt   time.Time `json:"due_at"`
	Base    string    `json:"base"`
	// PolicyVersions and RewardSpecs of the rows taken.
	PolicyVersions []string `json:"policy_versions"`
	RewardSpecs    []string `json:"reward_specs"`
	Topic          string   `json:"topic"`
	Seed           string   `json:"seed"` // rows are ordered by SHA-256(seed, 0, turn_id)
	Balance
	Tokens int64 `json:"tokens"` // trained
	Units  int64 `json:"units"`
	// The digest that all rows share; empty if they have none, or not the same.
	TokenizerDigest    string  `json:"tokenizer_digest,omitempty"`
	ChatTemplateDigest string  `json:"chat_template_digest,omitempty"`
	Parts              []Part  `json:"parts"`  // in this order
	Shards             []Shard `json:"shards"` // every shard that the cut counts, taken or not
	// Partitions that a person let the cut go on without; nothing of them is in Shards.
	Without []Absence `json:"without,omitempty"`
}

// Part is one file of the cut: Arrow IPC, zstd.
type Part struct {
	Number int    `json:"number"` // 0, 1, …
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Rows   int64  `json:"rows"`
	Tokens int64  `json:"tokens"`
}

// Package trainer is the reference trainer: it pulls a cut, verifies every digest, takes a few honest gradient steps
// on a tiny policy, and hands in the weights with an account of every row.
//
//	GET /v1/candidates ─▶ one in training ─▶ manifest, parts ─▶ verify ─▶ sums per token class ─▶ policy gradient
//	                                                                                                    │
//	POST /v1/candidates ◀── digests, rows trained and dropped, loss, KL ◀── model.safetensors ◀─────────┘
//
// The policy is a softmax table over 64 classes of tokens (token id mod 64), which is what the simulated policies are.
// So the behaviour's log-probs are those of a known distribution, importance ratios begin at exactly 1, and what the
// gradient finds (classes whose tokens make edits last) is really there.
package trainer

// Package ingest is everything up to the log: the gateway that takes events and answers for each, and the assignment of
// checkpoints, which answers from memory.
//
//	POST /v1/events ─▶ body.go: limits, decompression, items
//	                ─▶ item.go: decode, validate, tool schema, privacy, stamp
//	                ─▶ Log.Write (acks=all) ─▶ answer.go: one answer per item
package ingest

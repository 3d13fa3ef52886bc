// Package distill is everything after the log: each partition's worker claims it, rebuilds the engine, applies
// records, flushes files and commits them with the position, exactly once.
//
//	claim ─▶ rebuild ─▶ fetch ─▶ apply ─▶ flush ─▶ commit ─┐
//	  ▲                   ▲                               │
//	  └── ErrFenced ──────┴───────────────────────────────┘
//
// worker.go reads in that order; lease.go, rebuild.go, flush.go and commit.go are its steps.
package distill

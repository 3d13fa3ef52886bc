// Package cut makes the training set of an interval: a mark in every partition of the log, the shards committed
// before it, packed into parts whose bytes and order never change.
//
//	marking ─▶ complete ─▶ packed
//	   └────────┴────────▶ skipped (reason)
//
// A cut is a barrier: a worker closes its batch at the mark, so the cut is exactly the turns settled before it, the
// same on every replay. It is complete when every partition has committed past its mark. Everything after that is a
// function of what was committed, so packing can be repeated after a crash and gives the same files.
package cut

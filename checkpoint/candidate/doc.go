// Package candidate is the life of a candidate checkpoint: an append-only log of typed events whose fold is its
// state, the submission that a trainer hands in, and the reasons for which one is refused.
//
//	training ─▶ submitted ─▶ verified ─▶ evaluating ─▶ testing ─▶ promoted ─▶ superseded │ rolled_back
//	             └▶ refused ─▶ submitted   └▶ rejected   └▶ held │ rolled_back │ invalid
//	every step that misses its time ends in timed_out
package candidate

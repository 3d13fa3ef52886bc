// Package dialect reads what other agents write (transcripts, traces) into the events of this house, and accounts for
// every line of it.
//
//	file ──Add──▶ lines ──identity──▶ records ──chain──▶ turns ──Result──▶ events
//	                 └▶ ignored (by kind) · not understood (file:line reason)
//
// A dialect is one file and what stands beside it under the same prefix. Nothing of a foreign format goes any further.
package dialect

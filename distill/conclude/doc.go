// Package conclude gives settled turns their reward and their disposition: for the engine from the log, and for a
// replay under another spec from the ledger alone.
package conclude

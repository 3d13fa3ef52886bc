// Package replay scores ledger rows again under another reward spec or baseline, without the log, and says what changes.
package replay

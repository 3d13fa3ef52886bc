// Package audit is who did what, when and why: an append-only log that is read from the tables that hold it.
package audit

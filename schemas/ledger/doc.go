// Package ledger is the table with one row for every settled turn, and one for every amendment.
package ledger

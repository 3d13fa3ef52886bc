// Package webhook tells the operator's endpoints what happened: each entry of the audit log that they want, signed, at least
// once, over restarts.
package webhook

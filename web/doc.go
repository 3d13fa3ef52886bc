// Package web is one plain page, and the same facts as JSON at GET /v1/status: what is live, what is in test, what
// the evidence is, and whether everything balances.
package web

package ingest

import (
	"encoding/json"
	"net/http"
	"strconv"

	"millrace/schemas/event"
)

// Status is what became of one item.
type Status string

// The statuses of an item.
const (
	Accepted  Status = "accepted"  // durable in the log, on all in-sync replicas
	Duplicate Status = "duplicate" // the very same event stands before it in this request
	Rejected  Status = "rejected"  // will never be taken as it is: see reason and field
	Retry     Status = "retry"     // nothing wrong with it: send it again later
)

// The reason codes of the gateway, besides those of event.Validate and eventjson.Decode.
const (
	ReasonTooLarge          = "too_large"           // the item is over limits.itemBytes
	ReasonMalformedProtobuf = "malformed_protobuf"  // the item is no SessionEvent
	ReasonConflict          = "conflict"            // another event of the same source and id stands before it in this request
	ReasonUnknownToolSchema = "unknown_tool_schema" // register the document first
	ReasonDigestMismatch    = "digest_mismatch"     // the tools are not what their digest says
	ReasonLogAway           = "log_away"            // retry: the log doesn't take anything now
	ReasonStoreAway         = "store_away"          // retry: tool schemas can't be stored or looked up now
)

// Result is the answer to one item.
type Result struct {
	Index   int    `json:"index"` // the item's place in the request, from 0; blank lines don't count
	EventID string `json:"eventId,omitempty"`
	Status  Status `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Field   string `json:"field,omitempty"` // path in JSON names
	Message string `json:"message,omitempty"`
}

// Answer is the answer to a request: one result per item, in the request's order, and how many there are of each.
type Answer struct {
	Results   []Result `json:"results"`
	Accepted  int      `json:"accepted"`
	Duplicate int      `json:"duplicate"`
	Rejected  int      `json:"rejected"`
	Retry     int      `json:"retry"`
}

func (a *Answer) count() {
	for i := range a.Results {
		switch a.Results[i].Status {
		case Accepted:
			a.Accepted++
		case Duplicate:
			a.Duplicate++
		case Rejected:
			a.Rejected++
		case Retry:
			a.Retry++
		}
	}
}

// httpStatus is 200 if everything was accepted, 503 if nothing was taken and something must be sent again, else 207.
func (a *Answer) httpStatus() int {
	switch {
	case a.Accepted == len(a.Results):
		return http.StatusOK
	case a.Retry > 0 && a.Accepted+a.Duplicate == 0:
		return http.StatusServiceUnavailable
	}
	return http.StatusMultiStatus
}

func (r *Result) reject(bad *event.Invalid) {
	r.Status, r.Reason, r.Field, r.Message = Rejected, bad.Reason, bad.Field, bad.Message
}

func (r *Result) retry(reason, message string) {
	r.Status, r.Reason, r.Field, r.Message = Retry, reason, "", message
}

// problem is an answer to a request as a whole.
type problem struct {
	status     int
	retryAfter int // seconds; 0: not worth retrying as it is

	Code    string  `json:"error"`
	Message string  `json:"message"`
	Limits  *Limits `json:"limits,omitempty"`
	Digest  string  `json:"digest,omitempty"`
}

func (p *problem) write(w http.ResponseWriter) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	writeJSON(w, p.status, p)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) //nolint:errcheck // the client is gone
}

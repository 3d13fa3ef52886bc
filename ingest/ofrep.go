package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"millrace/assignment"
	"millrace/internal/auth"
)

// FlagKey is the one flag that is served: its value is a policy version.
const FlagKey = "composer-checkpoint"

const (
	maxContextBytes   = 64 << 10 // an evaluation's request; contexts are small
	maxAttributeBytes = 4 << 10  // one attribute that is read
)

// evaluation is OFREP's answer for a flag.
type evaluation struct {
	Key      string             `json:"key"`
	Reason   string             `json:"reason"`
	Variant  assignment.Variant `json:"variant"`
	Value    string             `json:"value"`
	Metadata metadata           `json:"metadata"`
}

// metadata are flat scalars, as OFREP wants them.
type metadata struct {
	Experiment  string `json:"experiment,omitempty"`
	Arm         string `json:"arm,omitempty"`
	HashVersion int    `json:"hash_version"`
	ValidUntil  string `json:"valid_until,omitempty"` // RFC 3339
}

// evaluationFailure is OFREP's answer when a flag can't be evaluated. The key is missing in answers to the bulk call.
type evaluationFailure struct {
	status  int
	Key     string `json:"key,omitempty"`
	Code    string `json:"errorCode"`
	Details string `json:"errorDetails"`
}

// evaluationRequest is what is read of a request; a context may have more.
type evaluationRequest struct {
	Context struct {
		TargetingKey      *string `json:"targetingKey"`
		SessionID         *string `json:"sessionId"`
		CurrentCheckpoint *string `json:"currentCheckpoint"`
		CurrentExperiment *string `json:"currentExperiment"`
	} `json:"context"`
}

// Handler serves OFREP (OpenFeature Remote Evaluation Protocol), so that any OpenFeature SDK is a client, and the signed
// ruleset.
func (a *Assigner) Handler(guard Guard) http.Handler {
	mux := http.NewServeMux()
	read := guard.Middleware(auth.AssignRead)
	mux.Handle("POST /ofrep/v1/evaluate/flags/{key}", read(http.HandlerFunc(a.evaluateOne)))
	mux.Handle("POST /ofrep/v1/evaluate/flags", read(http.HandlerFunc(a.evaluateAll)))
	mux.Handle("GET /v1/ruleset", read(http.HandlerFunc(a.ruleset)))
	mux.Handle("GET /v1/ruleset/key", read(http.HandlerFunc(a.rulesetKey)))
	return mux
}

func (a *Assigner) evaluateOne(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	if key != FlagKey {
		a.fail(w, &evaluationFailure{status: http.StatusNotFound, Key: key, Code: "FLAG_NOT_FOUND", Details: "the only flag is " + FlagKey})
		return
	}
	result, failure := a.evaluate(w, r)
	if failure != nil {
		failure.Key = key
		a.fail(w, failure)
		return
	}
	body, err := json.Marshal(result)
	if err != nil {
		a.fail(w, &evaluationFailure{status: http.StatusInternalServerError, Key: key, Code: "GENERAL", Details: err.Error()})
		return
	}
	header := w.Header()
	header["Content-Type"], header["Cache-Control"] = contentJSON, noStore
	_, _ = w.Write(body) // or the client is gone
}

// The values of headers on the hot path, which nobody changes.
var (
	contentJSON = []string{"application/json"}
	noStore     = []string{"no-store"}
	noCache     = []string{"private, no-cache"}
)

// evaluateAll is the bulk call. Its ETag changes when any value in the answer does.
func (a *Assigner) evaluateAll(w http.ResponseWriter, r *http.Request) {
	result, failure := a.evaluate(w, r)
	if failure != nil {
		a.fail(w, failure)
		return
	}
	body, err := json.Marshal(struct {
		Flags []*evaluation `json:"flags"`
	}{[]*evaluation{result}})
	if err != nil {
		a.fail(w, &evaluationFailure{status: http.StatusInternalServerError, Code: "GENERAL", Details: err.Error()})
		return
	}
	writeTagged(w, r, body, tagOf(body))
}

func matches(header, tag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		if candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/"); candidate == tag || candidate == "*" {
			return true
		}
	}
	return false
}

func (a *Assigner) evaluate(w http.ResponseWriter, r *http.Request) (*evaluation, *evaluationFailure) {
	query, session, failure := readQuery(http.MaxBytesReader(w, r.Body, maxContextBytes))
	if failure != nil {
		return nil, failure
	}
	decided, err := a.Evaluate(query, session)
	if err != nil {
		return nil, &evaluationFailure{status: http.StatusServiceUnavailable, Code: "GENERAL", Details: err.Error()}
	}
	a.served[decided.Variant].Inc()
	return evaluationOf(decided), nil
}

// bodies are buffers for requests, used again and again: an evaluation should cost the collector little.
var bodies = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, 1<<10)) }}

func readQuery(from io.Reader) (q assignment.Query, session string, failure *evaluationFailure) {
	body, _ := bodies.Get().(*bytes.Buffer)
	defer bodies.Put(body)
	body.Reset()
	_, err := body.ReadFrom(from)
	var request evaluationRequest
	if err == nil {
		err = json.Unmarshal(body.Bytes(), &request) // copies what it keeps
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return q, "", invalid("%s must be %s, not %s", cmp.Or(wrong.Field, "the request"), kindNames[wrong.Type.Kind()], wrong.Value)
	}
	if err != nil {
		return q, "", &evaluationFailure{
			status: http.StatusBadRequest, Code: "PARSE_ERROR",
			Details: `send {"context":{"targetingKey":"<the unit>","sessionId":"<the session>"}}: ` + err.Error(),
		}
	}
	context := &request.Context
	for _, attribute := range []struct {
		name string
		from *string
		to   *string
	}{
		{"targetingKey", context.TargetingKey, &q.Unit},
		{"sessionId", context.SessionID, &session},
		{"currentCheckpoint", context.CurrentCheckpoint, &q.Checkpoint},
		{"currentExperiment", context.CurrentExperiment, &q.Experiment},
	} {
		if attribute.from == nil {
			continue
		}
		if len(*attribute.from) > maxAttributeBytes {
			return q, "", invalid("context.%s has %d bytes, want at most %d", attribute.name, len(*attribute.from), maxAttributeBytes)
		}
		*attribute.to = *attribute.from
	}
	if q.Unit == "" {
		return q, "", &evaluationFailure{
			status: http.StatusBadRequest, Code: "TARGETING_KEY_MISSING",
			Details: "context.targetingKey must be the unit: a pseudonymous user or organisation id",
		}
	}
	return q, session, nil
}

// kindNames are the kinds of what is read, in JSON's words.
var kindNames = map[reflect.Kind]string{reflect.String: "a string", reflect.Struct: "an object"}

func invalid(format string, args ...any) *evaluationFailure {
	return &evaluationFailure{status: http.StatusBadRequest, Code: "INVALID_CONTEXT", Details: fmt.Sprintf(format, args...)}
}

func evaluationOf(a assignment.Assignment) *evaluation {
	e := &evaluation{
		Key: FlagKey, Reason: "STATIC", Variant: a.Variant, Value: a.Version,
		Metadata: metadata{HashVersion: assignment.HashVersion, Experiment: a.Experiment, Arm: a.Arm},
	}
	switch {
	case a.Experiment != "":
		e.Reason = "SPLIT"
	case a.Variant == assignment.VariantKept:
		e.Reason = "TARGETING_MATCH" // the context's session decided
	}
	if !a.ValidUntil.IsZero() {
		e.Metadata.ValidUntil = a.ValidUntil.UTC().Format(time.RFC3339)
	}
	return e
}

func (a *Assigner) fail(w http.ResponseWriter, f *evaluationFailure) {
	a.failed.Inc()
	if f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, f.status, f)
}

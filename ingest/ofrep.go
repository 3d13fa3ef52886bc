package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"millrace/internal/auth"
)

// FlagKey is the one flag that is served: its value is a policy version.
const FlagKey = "composer-checkpoint"

// maxContextBytes bounds an evaluation's request; contexts are small.
const maxContextBytes = 64 << 10

// evaluation is OFREP's answer for a flag.
type evaluation struct {
	Key      string         `json:"key"`
	Reason   string         `json:"reason,omitempty"`
	Variant  string         `json:"variant,omitempty"`
	Value    string         `json:"value,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"` // flat scalars
}

// evaluationFailure is OFREP's answer when a flag can't be evaluated. The key is missing in answers to the bulk call.
type evaluationFailure struct {
	status  int
	Key     string `json:"key,omitempty"`
	Code    string `json:"errorCode"`
	Details string `json:"errorDetails"`
}

// Handler serves OFREP (OpenFeature Remote Evaluation Protocol), so that any OpenFeature SDK is a client.
func (a *Assigner) Handler(guard Guard) http.Handler {
	mux := http.NewServeMux()
	read := guard.Middleware(auth.AssignRead)
	mux.Handle("POST /ofrep/v1/evaluate/flags/{key}", read(http.HandlerFunc(a.evaluateOne)))
	mux.Handle("POST /ofrep/v1/evaluate/flags", read(http.HandlerFunc(a.evaluateAll)))
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
	writeJSON(w, http.StatusOK, result)
}

// evaluateAll is the bulk call. Its ETag changes when any value in the answer does.
func (a *Assigner) evaluateAll(w http.ResponseWriter, r *http.Request) {
	result, failure := a.evaluate(w, r)
	if failure != nil {
		a.fail(w, failure)
		return
	}
	body, err := json.Marshal(map[string]any{"flags": []*evaluation{result}})
	if err != nil {
		a.fail(w, &evaluationFailure{status: http.StatusInternalServerError, Code: "GENERAL", Details: err.Error()})
		return
	}
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
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
	var request struct {
		Context map[string]any `json:"context"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxContextBytes)).Decode(&request); err != nil {
		return nil, &evaluationFailure{status: http.StatusBadRequest, Code: "PARSE_ERROR", Details: `send {"context":{"targetingKey":"<the unit>","sessionId":"<the session>"}}: ` + err.Error()}
	}
	unit, isText := request.Context["targetingKey"].(string)
	if given := request.Context["targetingKey"]; given != nil && !isText {
		return nil, &evaluationFailure{status: http.StatusBadRequest, Code: "INVALID_CONTEXT", Details: "context.targetingKey must be a string"}
	}
	if unit == "" {
		return nil, &evaluationFailure{status: http.StatusBadRequest, Code: "TARGETING_KEY_MISSING", Details: "context.targetingKey must be the unit: a pseudonymous user or organisation id"}
	}
	session, failure := attribute(request.Context, "sessionId")
	if failure != nil {
		return nil, failure
	}
	current, failure := attribute(request.Context, "currentCheckpoint")
	if failure != nil {
		return nil, failure
	}
	assignment, err := a.Evaluate(unit, session, current)
	if err != nil {
		return nil, &evaluationFailure{status: http.StatusServiceUnavailable, Code: "GENERAL", Details: err.Error()}
	}
	a.served.WithLabelValues(assignment.Variant).Inc()
	return assignment.evaluation(), nil
}

// attribute is a text of the context that may be missing.
func attribute(context map[string]any, name string) (string, *evaluationFailure) {
	text, isText := context[name].(string)
	switch {
	case context[name] != nil && !isText:
		return "", &evaluationFailure{status: http.StatusBadRequest, Code: "INVALID_CONTEXT", Details: "context." + name + " must be a string"}
	case len(text) > maxContextBytes/16:
		return "", &evaluationFailure{status: http.StatusBadRequest, Code: "INVALID_CONTEXT", Details: "context." + name + " is too long"}
	}
	return text, nil
}

func (a Assignment) evaluation() *evaluation {
	e := &evaluation{Key: FlagKey, Reason: "STATIC", Variant: a.Variant, Value: a.Version, Metadata: map[string]any{"hash_version": HashVersion}}
	if a.Experiment != "" {
		e.Reason = "SPLIT"
		e.Metadata["experiment"], e.Metadata["arm"] = a.Experiment, a.Arm
		if !a.ValidUntil.IsZero() {
			e.Metadata["valid_until"] = a.ValidUntil.UTC().Format(time.RFC3339)
		}
	}
	return e
}

func (a *Assigner) fail(w http.ResponseWriter, f *evaluationFailure) {
	a.served.WithLabelValues("error").Inc()
	if f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, f.status, f)
}

package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/internal/objstore"
	"millrace/schemas/event"
)

// toolSchemas registers documents of tool schemas in the object store, under their digest and before anything refers to
// them, and remembers which digests are there.
type toolSchemas struct {
	store SchemaStore

	mu    sync.Mutex
	known map[string]bool
}

// There are as many documents as versions of harnesses; the bound is only against abuse.
const maxKnownSchemas = 100_000

// ToolSchemaKey is where the document of a digest stands in the object store.
func ToolSchemaKey(digest string) string { return "tool-schemas/" + digest + ".json" }

// register stores a document under its digest, durably.
func (s *toolSchemas) register(ctx context.Context, document []byte, digest string) error {
	if s.remembered(digest) {
		return nil
	}
	if err := s.store.PutIfAbsent(ctx, ToolSchemaKey(digest), document); err != nil {
		return fmt.Errorf("store tool schemas %s: %w", digest, err)
	}
	s.remember(digest)
	return nil
}

// registered says whether the document of a digest is in the store.
func (s *toolSchemas) registered(ctx context.Context, digest string) (bool, error) {
	if s.remembered(digest) {
		return true, nil
	}
	if !isDigest(digest) {
		return false, nil
	}
	switch _, err := s.store.Stat(ctx, ToolSchemaKey(digest)); {
	case errors.Is(err, objstore.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up tool schemas %s: %w", digest, err)
	}
	s.remember(digest)
	return true, nil
}

func (s *toolSchemas) remembered(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[digest]
}

func (s *toolSchemas) remember(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnownSchemas {
		clear(s.known)
	}
	s.known[digest] = true
}

// isDigest: SHA-256 in lower-case hex.
func isDigest(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}

// resolveToolSchema registers the schemas that a session brings, and stamps a turn whose schemas are registered. An
// event that refers to unknown ones is invalid; an error says that the store can't be asked.
func (g *Gateway) resolveToolSchema(ctx context.Context, b *batch, e *event.SessionEvent) (*event.Invalid, error) {
	switch body := e.Body.(type) {
	case *event.SessionEvent_SessionStarted:
		s := body.SessionStarted
		const field = "sessionStarted.toolSchemaDigest"
		if len(s.Tools) == 0 {
			return g.knownToolSchema(ctx, b, s.ToolSchemaDigest, field)
		}
		document, digest := event.ToolSchemaDocument(s.Tools)
		switch {
		case !json.Valid(document):
			// Each schema is JSON, but nested so deeply that no reader would take the whole.
			return &event.Invalid{Reason: event.ReasonBadDocument, Field: "sessionStarted.tools", Message: "nested too deeply"}, nil
		case s.ToolSchemaDigest != "" && s.ToolSchemaDigest != digest:
			return &event.Invalid{Reason: ReasonDigestMismatch, Field: field, Message: "the tools' document has the digest " + digest + "; the field may be left to the gateway"}, nil
		}
		if err := g.schemas.register(ctx, document, digest); err != nil {
			return nil, err
		}
		delete(b.unknown, digest)
		s.ToolSchemaDigest = digest
	case *event.SessionEvent_TurnStarted:
		digest := body.TurnStarted.Context.ToolSchemaDigest
		bad, err := g.knownToolSchema(ctx, b, digest, "turnStarted.context.toolSchemaDigest")
		e.SchemaRegistered = digest != "" && bad == nil && err == nil
		return bad, err
	}
	return nil, nil
}

func (g *Gateway) knownToolSchema(ctx context.Context, b *batch, digest, field string) (*event.Invalid, error) {
	if digest == "" {
		return nil, nil
	}
	if !b.unknown[digest] {
		known, err := g.schemas.registered(ctx, digest)
		if known || err != nil {
			return nil, err
		}
		b.unknown[digest] = true
	}
	return &event.Invalid{Reason: ReasonUnknownToolSchema, Field: field, Message: "no document has this digest; send its tools in sessionStarted, or PUT /v1/tool-schemas/{digest}, and send the event again"}, nil
}

// toolDocument is a tool as the document writes it.
type toolDocument struct {
	Name   string          `json:"name"`
	Kind   string          `json:"kind"`
	Schema json.RawMessage `json:"json_schema"`
}

// putToolSchemas takes a document whose digest the client names. What is stored is the canonical form; the client's digest
// must be of that.
func (g *Gateway) putToolSchemas(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.cfg.Limits.ToolSchemaBytes))
	if err != nil {
		limits := g.cfg.Limits
		(&problem{status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Message: fmt.Sprintf("more than %d bytes", limits.ToolSchemaBytes), Limits: &limits}).write(w)
		return
	}
	tools, err := parseToolDocument(body)
	if err != nil {
		(&problem{status: http.StatusBadRequest, Code: "bad_document", Message: err.Error()}).write(w)
		return
	}
	wanted := r.PathValue("digest")
	document, digest := event.ToolSchemaDocument(tools)
	if digest != wanted {
		(&problem{
			status: http.StatusUnprocessableEntity, Code: ReasonDigestMismatch, Digest: digest,
			Message: "the document in its canonical form has another digest; PUT it under that one, and refer to that one",
		}).write(w)
		return
	}
	if err := g.schemas.register(r.Context(), document, digest); err != nil {
		g.logStoreTrouble(err)
		(&problem{status: http.StatusServiceUnavailable, retryAfter: 2, Code: ReasonStoreAway, Message: "tool schemas can't be stored now"}).write(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"digest": wanted})
}

func parseToolDocument(body []byte) ([]*event.ToolSchema, error) {
	var documents []toolDocument
	if err := json.Unmarshal(body, &documents); err != nil {
		return nil, fmt.Errorf("not a JSON array of {\"name\", \"kind\", \"json_schema\"}: %w", err)
	}
	if len(documents) == 0 {
		return nil, errors.New("the document has no tools")
	}
	tools := make([]*event.ToolSchema, len(documents))
	for i, d := range documents {
		kind, ok := event.ToolKind_value[d.Kind]
		if !ok && d.Kind != "" {
			return nil, fmt.Errorf("tool %d: unknown kind %q; there are READ, SEARCH, EDIT_FILE, TERMINAL, QUESTION, OTHER", i, d.Kind)
		}
		tools[i] = &event.ToolSchema{Name: d.Name, Kind: event.ToolKind(kind), JsonSchema: string(d.Schema)}
	}
	if bad := event.Validate(sessionWith(tools)); bad != nil {
		return nil, fmt.Errorf("%s: %s", bad.Field, bad.Message)
	}
	return tools, nil
}

// sessionWith is a session that brings these tools, to have them checked by the schema's own rules.
func sessionWith(tools []*event.ToolSchema) *event.SessionEvent {
	return &event.SessionEvent{
		Source: "tool-schemas", EventId: "document", SessionId: "document", OccurredAt: &timestamppb.Timestamp{Seconds: 1_800_000_000},
		Body: &event.SessionEvent_SessionStarted{SessionStarted: &event.SessionStarted{Tools: tools}},
	}
}

// getToolSchemas gives a registered document back.
func (g *Gateway) getToolSchemas(w http.ResponseWriter, r *http.Request) {
	digest := r.PathValue("digest")
	notFound := &problem{status: http.StatusNotFound, Code: ReasonUnknownToolSchema, Message: "no document has this digest"}
	if !isDigest(digest) {
		notFound.write(w)
		return
	}
	document, err := g.schemas.store.Get(r.Context(), ToolSchemaKey(digest))
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		notFound.write(w)
	case err != nil:
		g.logStoreTrouble(err)
		(&problem{status: http.StatusServiceUnavailable, retryAfter: 2, Code: ReasonStoreAway, Message: "tool schemas can't be looked up now"}).write(w)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Write(document)
	}
}

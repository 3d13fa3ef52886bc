package ingest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"millrace/ingest"
	"millrace/internal/auth"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/schemas/event"
)

// memoryLog keeps what is written, or fails as it is told.
type memoryLog struct {
	mu       sync.Mutex
	messages []eventlog.Message
	fail     func(eventlog.Message) error
	writes   int
}

func (l *memoryLog) Write(_ context.Context, messages ...eventlog.Message) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	failed := make([]error, len(messages))
	for i, m := range messages {
		if l.fail != nil {
			failed[i] = l.fail(m)
		}
		if failed[i] == nil {
			l.messages = append(l.messages, m)
		}
	}
	return failed
}

func (l *memoryLog) events(t *testing.T) []*event.SessionEvent {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*event.SessionEvent, len(l.messages))
	for i, m := range l.messages {
		all[i] = &event.SessionEvent{}
		require.NoError(t, all[i].UnmarshalVT(m.Value))
		require.Nil(t, event.Validate(all[i]), "whatever is in the log is valid")
		require.Equal(t, all[i].SessionId, string(m.Key))
	}
	return all
}

// open lets everybody in who sends any token.
type open struct{}

func (open) Middleware(scope auth.Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" || scope != auth.EventsWrite {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// brokenStore is an object store that can go away.
type brokenStore struct {
	*objstore.Folder
	away bool
}

func (s *brokenStore) PutIfAbsent(ctx context.Context, key string, body []byte) error {
	if s.away {
		return objstore.ErrUnavailable
	}
	return s.Folder.PutIfAbsent(ctx, key, body)
}

func (s *brokenStore) Stat(ctx context.Context, key string) (int64, error) {
	if s.away {
		return 0, objstore.ErrUnavailable
	}
	return s.Folder.Stat(ctx, key)
}

type bundle struct {
	gateway *ingest.Gateway
	log     *memoryLog
	store   *brokenStore
	logged  *bytes.Buffer
	ticks   []*event.ControlRecord
	tickErr error
	ticking func(context.Context) error // what becomes of a tick; nil: it is written
	stop    chan struct{}               // what tells the gateway that the server stops
	probe   error
	now     time.Time
	metrics *prometheus.Registry
}

func setup(t *testing.T, cfg ingest.Config) *bundle {
	t.Helper()
	folder, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	b := &bundle{
		stop: make(chan struct{}), log: &memoryLog{}, store: &brokenStore{Folder: folder}, logged: &bytes.Buffer{},
		now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), metrics: prometheus.NewRegistry(),
	}
	b.gateway, err = ingest.New(cfg, ingest.Deps{
		Log: b.log,
		Control: func(ctx context.Context, r *event.ControlRecord, at time.Time) error {
			require.Equal(t, b.now, at)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if b.ticking != nil {
				return b.ticking(ctx)
			}
			if b.tickErr == nil {
				b.ticks = append(b.ticks, r)
			}
			return b.tickErr
		},
		Probe:    func(ctx context.Context) error { return cmp.Or(b.probe, ctx.Err()) },
		Stopping: b.stop, Schemas: b.store, Guard: open{}, Clock: func() time.Time { return b.now },
		Logger: slog.New(slog.NewTextHandler(b.logged, nil)), Registerer: b.metrics,
	})
	require.NoError(t, err)
	return b
}

func (b *bundle) do(t *testing.T, method, path string, body []byte, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer mr_x")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.gateway.Handler().ServeHTTP(w, r)
	return w
}

func (b *bundle) send(t *testing.T, contentType, body string, headers ...string) (*httptest.ResponseRecorder, ingest.Answer) {
	t.Helper()
	w := b.do(t, http.MethodPost, "/v1/events", []byte(body), append([]string{"Content-Type", contentType}, headers...)...)
	var answer ingest.Answer
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
	return w, answer
}

// ended is a valid event as JSON; extra members come first.
func ended(id string, extra ...string) string {
	return "{" + strings.Join(append(extra,
		`"source":"ide"`, `"eventId":"`+id+`"`, `"sessionId":"s1"`, `"turnId":"t1"`,
		`"occurredAt":"2026-11-01T11:59:59Z"`, `"turnEnded":{"reason":"COMPLETED"}`), ",") + "}"
}

func turnStarted(id, digest string, extra ...string) string {
	return "{" + strings.Join(append(extra,
		`"source":"ide"`, `"eventId":"`+id+`"`, `"sessionId":"s1"`, `"turnId":"t1"`, `"unitId":"u1"`,
		`"occurredAt":"2026-11-01T11:59:59Z"`, `"turnStarted":{"text":"make it so","context":{"toolSchemaDigest":"`+digest+`"}}`), ",") + "}"
}

func statuses(a ingest.Answer) string {
	var all []string
	for i, r := range a.Results {
		if r.Index != i {
			return fmt.Sprintf("index %d at %d", r.Index, i)
		}
		all = append(all, string(r.Status))
	}
	return strings.Join(all, " ")
}

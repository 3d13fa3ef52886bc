package ingest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/ingest"
	"millrace/internal/auth"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/internal/unithash"
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
	probe   error
	now     time.Time
	metrics *prometheus.Registry
}

func setup(t *testing.T, cfg ingest.Config) *bundle {
	t.Helper()
	folder, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	b := &bundle{
		log: &memoryLog{}, store: &brokenStore{Folder: folder}, logged: &bytes.Buffer{},
		now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), metrics: prometheus.NewRegistry(),
	}
	b.gateway, err = ingest.New(cfg, ingest.Deps{
		Log: b.log,
		Control: func(_ context.Context, r *event.ControlRecord, at time.Time) error {
			require.Equal(t, b.now, at)
			if b.tickErr == nil {
				b.ticks = append(b.ticks, r)
			}
			return b.tickErr
		},
		Probe:   func(context.Context) error { return b.probe },
		Schemas: b.store, Guard: open{}, Clock: func() time.Time { return b.now },
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

func TestEventsAccepted(t *testing.T) {
	t.Parallel()
	protobuf := func(t *testing.T) string {
		batch := &event.EventBatch{}
		for _, id := range []string{"a", "b"} {
			batch.Events = append(batch.Events, &event.SessionEvent{
				Source: "ide", EventId: id, SessionId: "s1", TurnId: "t1", OccurredAt: timestamppb.New(time.Date(2026, 11, 1, 11, 59, 59, 0, time.UTC)),
				Body: &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{Reason: event.EndReason_COMPLETED}},
			})
		}
		body, err := batch.MarshalVT()
		require.NoError(t, err)
		return string(body)
	}(t)
	zipped := func(body string) string {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, err := io.WriteString(z, body)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return out.String()
	}
	packed := func(body string) string {
		z, err := zstd.NewWriter(nil)
		require.NoError(t, err)
		return string(z.EncodeAll([]byte(body), nil))
	}
	array := "[" + ended("a") + "," + ended("b") + "]"
	for name, c := range map[string]struct {
		contentType, body, encoding string
		events                      int
	}{
		"one event":           {"application/json", ended("a"), "", 1},
		"array":               {"application/json; charset=utf-8", array, "", 2},
		"batch":               {"application/json", `{"events":` + array + `}`, "", 2},
		"lines":               {"application/x-ndjson", ended("a") + "\n\n" + ended("b") + "\r\n", "", 2},
		"protobuf":            {"application/x-protobuf", protobuf, "", 2},
		"gzip":                {"application/json", zipped(array), "gzip", 2},
		"zstd":                {"application/x-protobuf", packed(protobuf), "zstd", 2},
		"identity":            {"application/json", array, "identity", 2},
		"empty array":         {"application/json", `[]`, "", 0},
		"empty lines":         {"application/x-ndjson", ``, "", 0},
		"empty protobuf":      {"application/x-protobuf", ``, "", 0},
		"stamps are replaced": {"application/json", ended("a", `"receivedAt":"2020-01-01T00:00:00Z"`, `"schemaRegistered":true`), "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, ingest.Config{})
			w, answer := b.send(t, c.contentType, c.body, "Content-Encoding", c.encoding)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			require.Equal(t, c.events, answer.Accepted)
			require.NotNil(t, answer.Results, "always an array")
			events := b.log.events(t)
			require.Len(t, events, c.events)
			for i, e := range events {
				require.Equal(t, answer.Results[i].EventID, e.EventId)
				require.True(t, e.ReceivedAt.AsTime().Equal(b.now), "the gateway's clock")
				require.False(t, e.SchemaRegistered)
				require.True(t, b.log.messages[i].Time.Equal(b.now))
			}
		})
	}
}

// Each bad input has its own answer; what stands before and after it is accepted; it leaves a stub if it can be read who
// it is.
func TestBadItemsHaveNeighbours(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 3000)
	for name, c := range map[string]struct{ item, reason, field, stub string }{
		"two objects on a line": {ended("x") + " " + ended("y"), "malformed_json", "", ""},
		"a string":              {`"hello"`, "not_an_object", "", ""},
		"a number":              {`17`, "not_an_object", "", ""},
		"null":                  {`null`, "not_an_object", "", ""},
		"raw NUL":               {ended("x", "\"unitId\":\"\x00\""), "malformed_json", "unitId", "turnEnded"},
		"escaped NUL in an id":  {ended("x", `"unitId":"\u0000"`), "invalid_text", "unitId", "turnEnded"},
		"lone surrogate":        {ended("x", `"unitId":"\ud800"`), "invalid_text", "unitId", "turnEnded"},
		"duplicate key":         {ended("x", `"source":"ide"`), "duplicate_key", "source", "turnEnded"},
		"1e999":                 {strings.Replace(ended("x"), `"turnEnded":{"reason":"COMPLETED"}`, `"feedbackGiven":{"rating":1e999}`, 1), "out_of_range", "feedbackGiven.rating", "feedbackGiven"},
		"large result":          {strings.Replace(ended("x"), `"turnEnded":{"reason":"COMPLETED"}`, `"toolReturned":{"output":"`+huge+`"}`, 1), "too_large", "", "toolReturned"},
		"unknown body":          {strings.Replace(ended("x"), "turnEnded", "mindRead", 1), "unknown_body", "mindRead", "-"},
		"no body":               {`{"source":"ide","eventId":"x","sessionId":"s1","turnId":"t1","occurredAt":"2026-11-01T11:59:59Z"}`, "unknown_body", "", "-"},
		"unknown field":         {ended("x", `"colour":"red"`), "unknown_field", "colour", "turnEnded"},
		"time in seconds":       {strings.Replace(ended("x"), `"2026-11-01T11:59:59Z"`, `1793534399`, 1), "wrong_type", "occurredAt", "turnEnded"},
		"time in milliseconds":  {strings.Replace(ended("x"), `"2026-11-01T11:59:59Z"`, `1793534399000`, 1), "wrong_type", "occurredAt", "turnEnded"},
		"time in 1970":          {strings.Replace(ended("x"), `2026-11-01`, `1970-01-21`, 1), "out_of_range", "occurredAt", "turnEnded"},
		"no session":            {strings.Replace(ended("x"), `"sessionId":"s1",`, ``, 1), "missing", "sessionId", ""},
		"no turn":               {strings.Replace(ended("x"), `"turnId":"t1",`, ``, 1), "missing", "turnId", ""},
		"no id":                 {strings.Replace(ended("x"), `"eventId":"x",`, ``, 1), "missing", "eventId", ""},
		"text for a flag":       {strings.Replace(ended("x"), `"COMPLETED"`, `"COMPLETED","asksUser":"true"`, 1), "wrong_type", "turnEnded.asksUser", "turnEnded"},
		"a log-prob of +1":      {strings.Replace(ended("x"), `"turnEnded":{"reason":"COMPLETED"}`, `"stepCompleted":{"step":1,"policyVersion":"p","outputTokenIds":[1],"outputLogprobs":[1]}`, 1), "out_of_range", "stepCompleted.outputLogprobs[0]", "stepCompleted"},
		"deep":                  {ended("x", `"unitId":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)), "too_deep", "", "turnEnded"},
	} {
		for contentType, body := range map[string]string{
			"application/json":     "[" + ended("before") + "," + c.item + "," + ended("after") + "]",
			"application/x-ndjson": ended("before") + "\n" + c.item + "\n" + ended("after"),
		} {
			t.Run(name+" "+contentType, func(t *testing.T) {
				t.Parallel()
				b := setup(t, ingest.Config{Limits: ingest.Limits{ItemBytes: 2000}})
				w, answer := b.send(t, contentType, body)
				require.Equal(t, http.StatusMultiStatus, w.Code)
				require.Equal(t, "accepted rejected accepted", statuses(answer), w.Body.String())
				require.Equal(t, c.reason, answer.Results[1].Reason, w.Body.String())
				require.Equal(t, c.field, answer.Results[1].Field, w.Body.String())
				require.NotEmpty(t, answer.Results[1].Message)
				require.Equal(t, 2, answer.Accepted)
				require.Equal(t, 1, answer.Rejected)

				events := b.log.events(t)
				if c.stub == "" {
					require.Len(t, events, 2)
					return
				}
				require.Len(t, events, 3)
				stub := events[1]
				require.Equal(t, "ide x s1 t1", fmt.Sprint(stub.Source, " ", stub.EventId, " ", stub.SessionId, " ", stub.TurnId))
				require.Equal(t, "x", answer.Results[1].EventID)
				require.Equal(t, c.reason, stub.GetStub().Reason)
				require.Equal(t, strings.TrimPrefix(c.stub, "-"), stub.GetStub().Body)
				require.EqualValues(t, len(c.item), stub.GetStub().Bytes)
			})
		}
	}
}

func TestBrokenProtobufItem(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	good := &event.SessionEvent{
		Source: "ide", EventId: "a", SessionId: "s1", TurnId: "t1", OccurredAt: timestamppb.New(b.now),
		Body: &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{}},
	}
	item, err := good.MarshalVT()
	require.NoError(t, err)
	broken := append(bytes.Replace(item, []byte("\x01a"), []byte("\x01b"), 1), 0xff)
	future := good.CloneVT()
	future.EventId, future.Body = "c", nil
	unknown, err := future.MarshalVT()
	require.NoError(t, err)
	unknown = append(unknown, 0xfa, 0x1f, 0) // a body of field 511
	var body []byte
	for _, i := range [][]byte{item, broken, unknown, item} {
		body = append(append(body, 0x0a, byte(len(i))), i...)
	}
	_, answer := b.send(t, "application/x-protobuf", string(body))
	require.Equal(t, "accepted rejected rejected duplicate", statuses(answer))
	require.Equal(t, "malformed_protobuf", answer.Results[1].Reason)
	require.Equal(t, "unknown_body", answer.Results[2].Reason)
	events := b.log.events(t)
	require.Len(t, events, 3)
	require.Equal(t, "b", events[1].EventId)
	require.Equal(t, "turnEnded", events[1].GetStub().Body, "what stood before the fault was read")
}

func TestUnreadableEnvelopes(t *testing.T) {
	t.Parallel()
	limits := ingest.Limits{BodyBytes: 2000, DecompressedBytes: 3000, Items: 3, ItemBytes: 1000}
	bomb := func(size int) string {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, err := z.Write(bytes.Repeat([]byte(" "), size))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return out.String()
	}
	for name, c := range map[string]struct {
		contentType, encoding, body string
		status                      int
		code                        string
	}{
		"nothing":           {"application/json", "", ``, 400, "unreadable_envelope"},
		"cut":               {"application/json", "", `[{"source":`, 400, "unreadable_envelope"},
		"form of curl":      {"application/x-www-form-urlencoded", "", `{}`, 415, "unsupported_media_type"},
		"no content type":   {"", "", `{}`, 415, "unsupported_media_type"},
		"brotli":            {"application/json", "br", `{}`, 415, "unsupported_encoding"},
		"not gzip":          {"application/json", "gzip", `{}`, 400, "unreadable_envelope"},
		"not zstd":          {"application/json", "zstd", `{}`, 400, "unreadable_envelope"},
		"not a batch":       {"application/x-protobuf", "", `{}`, 400, "unreadable_envelope"},
		"batch cut short":   {"application/x-protobuf", "", "\x0a\x7fx", 400, "unreadable_envelope"},
		"large":             {"application/json", "", `["` + strings.Repeat("x", 2000) + `"]`, 413, "body_too_large"},
		"bomb":              {"application/json", "gzip", bomb(1 << 20), 413, "body_too_large"},
		"many":              {"application/json", "", `[1,2,3,4]`, 413, "too_many_items"},
		"many lines":        {"application/x-ndjson", "", "1\n2\n3\n4", 413, "too_many_items"},
		"many in protobuf":  {"application/x-protobuf", "", strings.Repeat("\x0a\x00", 4), 413, "too_many_items"},
		"just not too many": {"application/json", "", `[1,2,3]`, 207, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, ingest.Config{Limits: limits})
			w := b.do(t, http.MethodPost, "/v1/events", []byte(c.body), "Content-Type", c.contentType, "Content-Encoding", c.encoding)
			require.Equal(t, c.status, w.Code, w.Body.String())
			var answer struct {
				Error, Message string
				Limits         *ingest.Limits
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			require.Equal(t, c.code, answer.Error)
			require.Equal(t, c.status == 413, answer.Limits != nil)
			require.Empty(t, b.log.messages)
		})
	}
}

func TestDuplicatesAndConflicts(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	other := strings.Replace(ended("a"), "COMPLETED", "LENGTH", 1)
	elsewhere := strings.Replace(ended("a"), `"ide"`, `"engine"`, 1)
	w, answer := b.send(t, "application/json", "["+strings.Join([]string{ended("a"), ended("a"), other, elsewhere, ended("b")}, ",")+"]")
	require.Equal(t, http.StatusMultiStatus, w.Code)
	require.Equal(t, "accepted duplicate rejected accepted accepted", statuses(answer))
	require.Equal(t, "conflict", answer.Results[2].Reason)
	require.Contains(t, answer.Results[2].Message, "item 0")
	require.Len(t, b.log.events(t), 3, "the conflict leaves no stub: its identity is taken")

	_, answer = b.send(t, "application/json", ended("a"))
	require.Equal(t, "accepted", statuses(answer), "a repeat in another request is for the reader to find")

	// The log refuses the first of two equal events: the second one can't stand for it.
	b.log.fail = func(eventlog.Message) error { return errors.New("gone") }
	_, answer = b.send(t, "application/json", "["+ended("c")+","+ended("c")+"]")
	require.Equal(t, "retry retry", statuses(answer))
}

func TestLogAway(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	refused := errors.New("connection refused")
	b.log.fail = func(m eventlog.Message) error {
		if string(m.Key) == "s2" {
			return refused
		}
		return nil
	}
	elsewhere := strings.Replace(ended("b"), `"s1"`, `"s2"`, 1)
	w, answer := b.send(t, "application/x-ndjson", ended("a")+"\n"+elsewhere)
	require.Equal(t, http.StatusMultiStatus, w.Code, "one partition is away")
	require.Equal(t, "accepted retry", statuses(answer))
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, http.StatusOK, b.do(t, http.MethodGet, "/readyz", nil).Code)

	b.log.fail, b.probe = func(eventlog.Message) error { return refused }, refused
	bad := strings.Replace(ended("c"), "COMPLETED", "BORED", 1)
	for range 3 {
		w, answer = b.send(t, "application/x-ndjson", ended("a")+"\n"+bad+"\n"+`"x"`)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Equal(t, "retry retry rejected", statuses(answer), "an item whose stub isn't durable is not done with")
	}
	require.Equal(t, 2, b.log.writes, "what is known to be away is not tried by every request")
	require.Equal(t, 1, strings.Count(b.logged.String(), "level=ERROR"), "an outage is logged once: %s", b.logged)
	require.Equal(t, http.StatusServiceUnavailable, b.do(t, http.MethodGet, "/readyz", nil).Code)
	require.Equal(t, http.StatusOK, b.do(t, http.MethodGet, "/healthz", nil).Code)
	require.ErrorIs(t, b.gateway.Tick(t.Context()), refused)

	b.log.fail, b.probe = nil, nil
	require.Eventually(t, func() bool { return b.do(t, http.MethodGet, "/readyz", nil).Code == http.StatusOK }, 10*time.Second, 50*time.Millisecond)
	_, answer = b.send(t, "application/x-ndjson", ended("a")+"\n"+bad)
	require.Equal(t, "accepted rejected", statuses(answer))
	require.Contains(t, b.logged.String(), "the log is back")
}

func TestPrivacyAtTheDoor(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 16)
	b := setup(t, ingest.Config{UnitKey: key})
	secret := "AKIA" + "IOSFODNN7EXAMPLE"
	_, answer := b.send(t, "application/x-ndjson",
		turnStarted("a", "", `"privacy":"NO_CONTENT"`)+"\n"+
			strings.Replace(turnStarted("b", ""), "make it so", "use "+secret, 1)+"\n"+
			turnStarted("c", "", `"colour":1`))
	require.Equal(t, "accepted accepted rejected", statuses(answer))
	events := b.log.events(t)
	require.Len(t, events, 3)
	require.Empty(t, events[0].GetTurnStarted().Text)
	require.Equal(t, "use [redacted:aws-key]", events[1].GetTurnStarted().Text)
	for _, e := range events {
		require.Equal(t, unithash.Pseudonym(key, "u1"), e.UnitId, "stubs too")
	}
	for _, m := range b.log.messages {
		require.NotContains(t, string(m.Value), secret)
		require.NotContains(t, string(m.Value), "u1\x1a")
	}
}

func TestToolSchemas(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	tools := []*event.ToolSchema{{Name: "Edit", Kind: event.ToolKind_EDIT_FILE, JsonSchema: `{"type": "object"}`}}
	document, digest := event.ToolSchemaDocument(tools)
	session := func(id, extra string) string {
		return `{"source":"ide","eventId":"` + id + `","sessionId":"s1","occurredAt":"2026-11-01T11:59:59Z","sessionStarted":{` + extra + `}}`
	}
	const brought = `"tools":[{"name":"Edit","kind":"EDIT_FILE","jsonSchema":"{\"type\":\"object\"}"}]`
	unknown := strings.Repeat("ab", 32)

	_, answer := b.send(t, "application/x-ndjson", turnStarted("a", digest)+"\n"+turnStarted("b", "short")+"\n"+turnStarted("c", ""))
	require.Equal(t, "rejected rejected accepted", statuses(answer))
	require.Equal(t, "unknown_tool_schema", answer.Results[0].Reason)
	require.Equal(t, "turnStarted.context.toolSchemaDigest", answer.Results[0].Field)
	require.Len(t, b.log.events(t), 1, "no stub: the same event comes again when the document is registered")
	require.False(t, b.log.events(t)[0].SchemaRegistered)

	b.store.away = true
	_, answer = b.send(t, "application/x-ndjson", session("s", brought)+"\n"+turnStarted("a", digest)+"\n"+ended("e"))
	require.Equal(t, "retry retry accepted", statuses(answer))
	require.Equal(t, "store_away", answer.Results[0].Reason)
	b.store.away = false

	_, answer = b.send(t, "application/x-ndjson", turnStarted("a", digest)+"\n"+session("s", brought)+"\n"+turnStarted("a", digest)+"\n"+
		session("s2", `"toolSchemaDigest":"`+digest+`"`)+"\n"+session("s3", brought+`,"toolSchemaDigest":"`+unknown+`"`)+"\n"+session("s4", `"toolSchemaDigest":"`+unknown+`"`))
	require.Equal(t, "rejected accepted accepted accepted rejected rejected", statuses(answer))
	require.Equal(t, "digest_mismatch", answer.Results[4].Reason)
	require.Contains(t, answer.Results[4].Message, digest)
	require.Equal(t, "unknown_tool_schema", answer.Results[5].Reason)
	events := b.log.events(t)
	require.Equal(t, digest, events[len(events)-3].GetSessionStarted().ToolSchemaDigest)
	require.True(t, events[len(events)-2].SchemaRegistered)
	stored, err := b.store.Get(t.Context(), "tool-schemas/"+digest+".json")
	require.NoError(t, err)
	require.Equal(t, document, stored)

	b.store.away = true
	_, answer = b.send(t, "application/json", turnStarted("z", digest))
	require.Equal(t, "accepted", statuses(answer), "known digests are remembered")
	b.store.away = false

	read := []*event.ToolSchema{{Name: "Read", Kind: event.ToolKind_READ, JsonSchema: `{}`}}
	document, digest = event.ToolSchemaDocument(read)
	path := "/v1/tool-schemas/" + digest
	require.Equal(t, http.StatusNotFound, b.do(t, http.MethodGet, path, nil).Code)
	require.Equal(t, http.StatusNotFound, b.do(t, http.MethodGet, "/v1/tool-schemas/x", nil).Code)
	require.Equal(t, http.StatusOK, b.do(t, http.MethodPut, path, document).Code)
	require.Equal(t, http.StatusOK, b.do(t, http.MethodPut, path, []byte(" [ {\"kind\":\"READ\",\"name\":\"Read\",\"json_schema\":{ } } ]")).Code, "white space is the client's own")
	require.Equal(t, document, b.do(t, http.MethodGet, path, nil).Body.Bytes())
	w := b.do(t, http.MethodPut, "/v1/tool-schemas/"+unknown, document)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), digest)
	for _, bad := range []string{``, `{}`, `[]`, `[{"name":"x","kind":"MAGIC","json_schema":{}}]`, `[{"kind":"READ","json_schema":{}}]`, `[{"name":"x","json_schema":[]}]`} {
		require.Equal(t, http.StatusBadRequest, b.do(t, http.MethodPut, path, []byte(bad)).Code, bad)
	}
	_, answer = b.send(t, "application/json", turnStarted("y", digest))
	require.Equal(t, "accepted", statuses(answer))
}

func TestTicks(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{Name: "g1"})
	require.NoError(t, b.gateway.Tick(t.Context()))
	require.Len(t, b.ticks, 1)
	require.Equal(t, fmt.Sprintf("tick:g1:%d", b.now.UnixMilli()), b.ticks[0].Id)
	require.NotNil(t, b.ticks[0].GetTick())
	b.now = b.now.Add(5 * time.Second)
	require.NoError(t, b.gateway.Tick(t.Context()))
	require.NotEqual(t, b.ticks[0].Id, b.ticks[1].Id)

	b.tickErr, b.probe = errors.New("refused"), errors.New("refused")
	require.ErrorContains(t, b.gateway.Tick(t.Context()), "refused")
	b.tickErr = nil
	require.ErrorContains(t, b.gateway.Tick(t.Context()), "accepts nothing")
	require.Len(t, b.ticks, 2, "none while the gateway doesn't accept")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, b.gateway.Run(ctx))
	require.ErrorContains(t, b.gateway.Tick(t.Context()), "shutting down")
	_, answer := b.send(t, "application/json", ended("a"))
	require.Equal(t, "retry", statuses(answer))
}

func TestRatesAndLimits(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{RatePerToken: .001, Limits: ingest.Limits{Items: 2}})
	w := b.do(t, http.MethodGet, "/v1/limits", nil)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"items":2`)
	require.Contains(t, w.Body.String(), `"itemBytes":8388608`)
	_, answer := b.send(t, "application/json", "["+ended("a")+","+ended("b")+"]")
	require.Equal(t, 2, answer.Accepted)
	w = b.do(t, http.MethodPost, "/v1/events", []byte(ended("c")), "Content-Type", "application/json")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))

	b = setup(t, ingest.Config{})
	require.Equal(t, http.StatusMethodNotAllowed, b.do(t, http.MethodGet, "/v1/events", nil).Code)
	r := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader(ended("a")))
	recorder := httptest.NewRecorder()
	b.gateway.Handler().ServeHTTP(recorder, r)
	require.Equal(t, http.StatusUnauthorized, recorder.Code)
}

func TestPackedArrays(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	step := func(id, output string) string {
		return strings.Replace(ended(id), `"turnEnded":{"reason":"COMPLETED"}`,
			`"stepCompleted":{"step":1,"policyVersion":"p1","promptTokenIds":[1,2,3],`+output+`}`, 1)
	}
	tokens := base64.StdEncoding.EncodeToString([]byte{4, 0, 0, 0, 5, 0, 0, 0})
	_, answer := b.send(t, "application/x-ndjson",
		step("a", `"outputTokenIds":[4,5],"outputLogprobs":[-0.25,-1]`)+"\n"+
			step("b", `"outputTokenIds":"`+tokens+`","outputLogprobs":[-0.25,-1],"outputMask":[1,1]`)+"\n"+
			step("c", `"outputTokenIds":[4,5],"outputLogprobs":[-0.25]`))
	require.Equal(t, "accepted accepted rejected", statuses(answer))
	require.Equal(t, "length_mismatch", answer.Results[2].Reason)
	events := b.log.events(t)
	require.Equal(t, events[0].GetStepCompleted().OutputTokenIds, events[1].GetStepCompleted().OutputTokenIds)
	require.Len(t, events[0].GetStepCompleted().PromptTokenIds, 12)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, ingest.Config{}.Validate())
	for name, cfg := range map[string]ingest.Config{
		"negative":              {Limits: ingest.Limits{Items: -1}},
		"too large for the log": {Limits: ingest.Limits{ItemBytes: 20 << 20}},
		"short key":             {UnitKey: []byte("short")},
		"little memory":         {MemoryBytes: 1},
		"rate":                  {RatePerToken: -1},
		"timeout":               {WriteTimeout: -1},
	} {
		require.Error(t, cfg.Validate(), name)
	}
	_, err := ingest.New(ingest.Config{}, ingest.Deps{})
	require.ErrorContains(t, err, "no log")
}

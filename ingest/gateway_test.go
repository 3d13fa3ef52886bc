package ingest_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/ingest"
	"millrace/schemas/event"
)

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

package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"millrace/ingest"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/schemas/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What was answered "accepted" is in the log, in its partition, valid, and in order; ticks are in every partition, signed.
// With the broker gone, answers are "retry" and nothing is accepted.
func TestAcceptedIsDurable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	cfg := eventlog.Config{Brokers: broker.ListenAddrs(), Topic: "events", Partitions: 4}
	require.NoError(t, eventlog.Ensure(ctx, cfg))
	writer, err := eventlog.NewWriter(cfg, cfg.Topic)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, writer.Close()) })
	keys, err := eventlog.NewKeyring(map[string][]byte{"k1": []byte("0123456789abcdef")}, "k1")
	require.NoError(t, err)
	folder, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	gateway, err := ingest.New(ingest.Config{WriteTimeout: 3 * time.Second}, ingest.Deps{
		Log: writer, Schemas: folder, Guard: open{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Control: func(ctx context.Context, r *event.ControlRecord, at time.Time) error {
			return eventlog.WriteControl(ctx, writer, keys, cfg, r, at)
		},
	})
	require.NoError(t, err)
	send := func(lines []string) (int, ingest.Answer) {
		r := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader(strings.Join(lines, "\n")))
		r.Header.Set("Authorization", "Bearer mr_x")
		r.Header.Set("Content-Type", "application/x-ndjson")
		w := httptest.NewRecorder()
		gateway.Handler().ServeHTTP(w, r)
		var answer ingest.Answer
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
		return w.Code, answer
	}

	var lines []string
	for i := range 200 {
		lines = append(lines, strings.Replace(ended(fmt.Sprintf("e%03d", i)), `"s1"`, fmt.Sprintf(`"s%d"`, i%10), 1))
	}
	lines[50] = `"not an event"`
	status, answer := send(lines)
	require.Equal(t, http.StatusMultiStatus, status)
	require.Equal(t, 199, answer.Accepted)
	require.NoError(t, gateway.Tick(ctx))

	reader, err := eventlog.NewReader(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	found, ticks, last := map[string]bool{}, 0, map[string]string{}
	for p := range int32(4) {
		_, next, err := reader.Bounds(ctx, p)
		require.NoError(t, err)
		for offset := int64(0); offset < next; {
			records, err := reader.Fetch(ctx, p, offset)
			require.NoError(t, err)
			for _, r := range records {
				e, control, reject := eventlog.Decode(r, keys, 4)
				require.Empty(t, reject)
				if control != nil {
					require.NotNil(t, control.GetTick())
					ticks++
				} else {
					require.Less(t, last[e.SessionId], e.EventId, "in order within the session")
					last[e.SessionId] = e.EventId
					found[e.EventId] = true
				}
				offset = r.Offset + 1
			}
		}
	}
	require.Equal(t, 4, ticks)
	for _, r := range answer.Results {
		require.Equal(t, r.Status == ingest.Accepted, found[r.EventID], r)
	}

	broker.Close()
	status, answer = send(lines[:3])
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "retry retry retry", statuses(answer))
	require.Error(t, gateway.Tick(ctx))
}

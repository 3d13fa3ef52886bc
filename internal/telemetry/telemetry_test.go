package telemetry_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/internal/telemetry"
)

func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, "json", "warn")
	require.NoError(t, err)
	log.Info("not this")
	log.Warn("this", "partition", 3)
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "this", line["msg"])
	require.EqualValues(t, 3, line["partition"])

	out.Reset()
	log, err = telemetry.NewLogger(&out, "text", "info")
	require.NoError(t, err)
	log.Info("hello")
	require.Regexp(t, `^time=\d\d:\d\d:\d\d level=INFO msg=hello\n$`, out.String())

	_, err = telemetry.NewLogger(&out, "xml", "info")
	require.ErrorContains(t, err, "json or text")
	_, err = telemetry.NewLogger(&out, "json", "loud")
	require.ErrorContains(t, err, "debug, info, warn or error")
}

func TestMetricsHandler(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	telemetry.MetricsHandler(telemetry.NewRegistry()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "go_goroutines")
}

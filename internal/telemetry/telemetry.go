package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewLogger logs to w as "json" (for machines: one object a line) or "text" (for people), from the level on:
// "debug", "info", "warn" or "error".
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var from slog.Level
	if err := from.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: use debug, info, warn or error", level)
	}
	options.Level = from
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case "text":
		options.ReplaceAttr = shortTime
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: use json or text", format)
}

// shortTime leaves of a line's own time what a person at the terminal needs.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		return slog.String(slog.TimeKey, a.Value.Time().Format(time.TimeOnly))
	}
	return a
}

// NewRegistry is a registry of its own with the process's and the runtime's metrics in it.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// MetricsHandler serves the registry for Prometheus to scrape, at /metrics by custom.
func MetricsHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
}

package ingest

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	events   *prometheus.CounterVec
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
	write    prometheus.Histogram
	stubs    prometheus.Counter
	stripped *prometheus.CounterVec
	redacted prometheus.Counter
	ticks    prometheus.Counter
	ready    prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		events:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_ingest_events_total", Help: "Items answered, by status and reason."}, []string{"status", "reason"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_ingest_requests_total", Help: "Requests to POST /v1/events, by HTTP status."}, []string{"code"}),
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_ingest_body_bytes_total", Help: "Bytes of bodies read, after decompression."}),
		write: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "millrace_ingest_write_seconds", Help: "Time until a batch was durable in the log.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10},
		}),
		stubs:    prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_ingest_stubs_total", Help: "Stubs made of rejected items."}),
		stripped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_ingest_stripped_fields_total", Help: "Fields removed because the event's privacy level forbids them."}, []string{"privacy"}),
		redacted: prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_ingest_redacted_secrets_total", Help: "Credentials redacted in text."}),
		ticks:    prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_ingest_ticks_total", Help: "Ticks written, each to every partition."}),
		ready:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_ingest_ready", Help: "1 while events are taken."}),
	}
	for _, c := range []prometheus.Collector{m.events, m.requests, m.bytes, m.write, m.stubs, m.stripped, m.redacted, m.ticks, m.ready} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

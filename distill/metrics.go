package distill

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/distill/account"
	"millrace/distill/engine"
	"millrace/schemas/event"
)

// metrics of the distill role, counted at the commit: what was dropped is not in them.
type metrics struct {
	records, turns  *prometheus.CounterVec
	shards, commits prometheus.Counter
	fenced, halted  prometheus.Counter
	commitSeconds   prometheus.Histogram
	logTime         *prometheus.GaugeVec
	offset          *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		records:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_records_total", Help: "Records of the log by what became of them."}, []string{"class"}),
		turns:         prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_turns_total", Help: "Settled turns."}, []string{"disposition", "policy_version", "arm"}),
		shards:        prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_shards_total", Help: "Committed sample shards."}),
		commits:       prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_commits_total", Help: "Commits of partitions."}),
		fenced:        prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_fenced_total", Help: "Partitions lost to another worker or by time."}),
		halted:        prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_halted_total", Help: "Partitions halted until a person resumes them."}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "millrace_commit_seconds", Help: "Time of flush and commit of one batch.", Buckets: prometheus.ExponentialBuckets(.005, 2, 12)}),
		logTime:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "millrace_log_time_seconds", Help: "Committed log time, seconds since 1970."}, []string{"partition"}),
		offset:        prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "millrace_committed_offset", Help: "First offset whose effects are not durable yet."}, []string{"partition"}),
	}
	if r != nil {
		r.MustRegister(m.records, m.turns, m.shards, m.commits, m.fenced, m.halted, m.commitSeconds, m.logTime, m.offset)
	}
	return m
}

func (m *metrics) committed(partitionNumber int32, b *batch, files []object, counts account.Balance, eng *engine.Engine, took time.Duration) {
	m.commits.Inc()
	m.commitSeconds.Observe(took.Seconds())
	for class, n := range counts.Records {
		m.records.WithLabelValues(string(class)).Add(float64(n))
	}
	for k, n := range counts.Settled {
		version, arm := labels(eng.Config(), k)
		m.turns.WithLabelValues(string(k.Disposition), version, arm).Add(float64(n))
	}
	for _, o := range files {
		if o.kind == "sample" {
			m.shards.Inc()
		}
	}
	partition := strconv.Itoa(int(partitionNumber))
	m.logTime.WithLabelValues(partition).Set(float64(eng.LogTime()) / 1e6)
	m.offset.WithLabelValues(partition).Set(float64(b.last + 1))
}

// labels are the version and the arm by which a settled turn is counted. Both are what a client wrote, so only those
// that we know have a series of their own.
func labels(c *event.ConfigAdopted, k account.Settled) (version, arm string) {
	version, arm = k.PolicyVersion, k.Arm
	if _, registered := c.GetPolicyOrdinals()[version]; !registered && version != "none" {
		version = "other"
	}
	if arm != "" && arm != "control" && arm != "candidate" {
		arm = "other"
	}
	return version, arm
}

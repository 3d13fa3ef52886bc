package judge

import (
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the judge. What a fraction is made of is counted since the process began.
type metrics struct {
	verdicts  *prometheus.CounterVec
	abstained *prometheus.CounterVec
	votes     *prometheus.CounterVec
	notAsked  *prometheus.CounterVec
	feedback  *prometheus.CounterVec
	unwritten prometheus.Counter
	seconds   prometheus.Histogram

	mu                  sync.Mutex
	said, neutral, sure float64
}

func newMetrics(r prometheus.Registerer, j *Judging) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		verdicts:  counter("millrace_judge_verdicts_total", "Verdicts that became evidence.", "class", "polarity"),
		abstained: counter("millrace_judge_abstained_total", "Exchanges that were judged without a verdict.", "reason"),
		votes:     counter("millrace_judge_votes_total", "Votes by how they ended; failed: the endpoint was away or refused us.", "outcome"),
		notAsked:  counter("millrace_judge_not_asked_total", "Next requests that no judge was asked about.", "reason"),
		feedback:  counter("millrace_judge_feedback_total", "Judged turns that the user rated too.", "agreement"),
		unwritten: prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_judge_unwritten_total", Help: "Verdicts that the log did not take."}),
		seconds:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "millrace_judge_seconds", Help: "Time of one exchange at the endpoint, all votes.", Buckets: prometheus.ExponentialBuckets(.05, 2, 10)}),
	}
	if r == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	r.MustRegister(
		m.verdicts, m.abstained, m.votes, m.notAsked, m.feedback, m.unwritten, m.seconds,
		gauge("millrace_judge_neutral_share", "Share of verdicts with polarity 0; public base rate: about .77.", func() float64 { return m.share(&m.neutral) }),
		gauge("millrace_judge_mean_confidence", "Mean confidence of the verdicts.", func() float64 { return m.share(&m.sure) }),
		gauge("millrace_judge_waiting", "Exchanges that wait for the endpoint.", func() float64 { return float64(j.queue.length()) }),
		gauge("millrace_judge_caught_up", "Partitions that were read to their end since the start.", func() float64 { return float64(j.caughtUp.Load()) }),
		gauge("millrace_judge_away", "1 while the endpoint does not answer and is left alone.", func() float64 {
			if j.breaker.open() {
				return 1
			}
			return 0
		}),
	)
	return m
}

// share is a part of all verdicts; NaN before the first.
func (m *metrics) share(part *float64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.said == 0 {
		return math.NaN()
	}
	return *part / m.said
}

func (m *metrics) voted(v Votes) {
	for outcome, n := range map[string]int{
		"cast": v.Cast, "unclear": v.Unclear, "unreadable": v.Unreadable, "refused": v.Refused, "timeout": v.Timeout, "failed": v.Failed,
	} {
		m.votes.WithLabelValues(outcome).Add(float64(n))
	}
}

func (m *metrics) verdict(v Verdict) {
	if v.Abstained != "" {
		m.abstained.WithLabelValues(v.Abstained).Inc()
		return
	}
	m.verdicts.WithLabelValues(strings.ToLower(v.Class.String()), strconv.Itoa(int(v.Polarity))).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said++
	m.sure += v.Confidence
	if v.Polarity == 0 {
		m.neutral++
	}
}

// rated counts how a judged turn's verdict and the user's own rating go together.
func (m *metrics) rated(rating, polarity float64) {
	agreement := "agree"
	switch product := rating * polarity; {
	case product < 0:
		agreement = "disagree"
	case product == 0:
		agreement = "neutral" // one of them takes no side
	}
	m.feedback.WithLabelValues(agreement).Inc()
}

func (m *metrics) skipped(reason string) { m.notAsked.WithLabelValues(reason).Inc() }

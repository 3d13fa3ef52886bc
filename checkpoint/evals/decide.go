package evals

import (
	"fmt"
	"time"
)

// Outcome is what the reports say of a candidate. It passes if nothing failed and nothing is missing.
type Outcome struct {
	Failed  []string `json:"failed,omitempty"`  // bounds that were not kept; nothing can mend them but another report
	Missing []string `json:"missing,omitempty"` // reports that are not there, or don't count
}

// Passed says whether the candidate may be tested.
func (o Outcome) Passed() bool { return len(o.Failed) == 0 && len(o.Missing) == 0 }

// Decide holds the newest reports on a candidate and its base against the suites.
func (s *Suites) Decide(reports []Report, candidate, base string, now time.Time) Outcome {
	var o Outcome
	for i := range s.Suites {
		s.Suites[i].decide(&o, s.HarnessVersion, find(reports, candidate, s.Suites[i].Name), find(reports, base, s.Suites[i].Name), candidate, base, now)
	}
	return o
}

func (s *Suite) decide(o *Outcome, harness string, own, of *Report, candidate, base string, now time.Time) {
	if why := s.unusable(own, harness, now); why != "" {
		o.Missing = append(o.Missing, fmt.Sprintf("%s on %s: %s", s.Name, candidate, why))
		return
	}
	if s.relative() {
		// The base's may be old, as the base is; but it must be of the same harness.
		switch {
		case of == nil:
			o.Missing = append(o.Missing, fmt.Sprintf("%s on its base %s: no report", s.Name, base))
			return
		case of.HarnessVersion != own.HarnessVersion:
			o.Missing = append(o.Missing, fmt.Sprintf("%s on its base %s: of harness %s, the candidate's is of %s", s.Name, base, of.HarnessVersion, own.HarnessVersion))
			return
		}
	}
	for _, b := range s.Bounds {
		b.decide(o, s.Name, own, of)
	}
}

// unusable says why a report doesn't count; "" if it does.
func (s *Suite) unusable(r *Report, harness string, now time.Time) string {
	switch {
	case r == nil:
		return "no report"
	case harness != "" && r.HarnessVersion != harness:
		return fmt.Sprintf("of harness %s, production is %s", r.HarnessVersion, harness)
	case now.Sub(r.At) > s.MaxAge:
		return fmt.Sprintf("%s old, at most %s", now.Sub(r.At).Round(time.Minute), s.MaxAge)
	}
	return ""
}

func (b Bound) decide(o *Outcome, suite string, own, base *Report) {
	v, ok := own.Metrics[b.Metric]
	if !ok {
		o.Missing = append(o.Missing, fmt.Sprintf("%s: the report has no metric %s", suite, b.Metric))
		return
	}
	fail := func(format string, args ...any) {
		o.Failed = append(o.Failed, fmt.Sprintf("%s: %s is %.4g, ", suite, b.Metric, v)+fmt.Sprintf(format, args...))
	}
	if b.Min != nil && v < *b.Min {
		fail("at least %.4g", *b.Min)
	}
	if b.Max != nil && v > *b.Max {
		fail("at most %.4g", *b.Max)
	}
	if b.MaxDrop == nil && b.MaxRise == nil {
		return
	}
	was, ok := base.Metrics[b.Metric]
	if !ok {
		o.Missing = append(o.Missing, fmt.Sprintf("%s: the base's report has no metric %s", suite, b.Metric))
		return
	}
	if b.MaxDrop != nil && v < was-*b.MaxDrop {
		fail("its base's is %.4g and it may fall by %.4g", was, *b.MaxDrop)
	}
	if b.MaxRise != nil && v > was+*b.MaxRise {
		fail("its base's is %.4g and it may rise by %.4g", was, *b.MaxRise)
	}
}

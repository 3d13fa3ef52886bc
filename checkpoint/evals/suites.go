package evals

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"gopkg.in/yaml.v3"
)

// Suites are the offline suites that every candidate has to pass.
type Suites struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// HarnessVersion is the production harness's: reports of another one don't count. Empty: candidate and base need only be
	// of the same one.
	HarnessVersion string  `yaml:"harness_version"`
	Suites         []Suite `yaml:"suites"`
}

// Suite is one of them.
type Suite struct {
	Name   string        `yaml:"name"`
	MaxAge time.Duration `yaml:"max_age"` // of a report; default 24 h
	Bounds []Bound       `yaml:"bounds"`
}

// Bound is what one metric of a suite has to keep. At least one of the limits is there.
type Bound struct {
	Metric  string   `yaml:"metric"`
	Min     *float64 `yaml:"min"`      // absolute floor
	Max     *float64 `yaml:"max"`      // absolute ceiling
	MaxDrop *float64 `yaml:"max_drop"` // by so much it may lie below the base's, ≥ 0
	MaxRise *float64 `yaml:"max_rise"` // or above it, ≥ 0
}

// Kind is what a document of suites calls itself.
const Kind = "EvalSuites"

const maxAge = 24 * time.Hour

// Parse reads a document of suites (YAML), strictly; its errors name the suite and what to do.
func Parse(data []byte) (*Suites, error) {
	s := &Suites{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the document is empty")
		}
		return nil, fmt.Errorf("eval suites: %w", err)
	}
	if s.APIVersion != "millrace/v1" || s.Kind != Kind {
		return nil, fmt.Errorf("eval suites: apiVersion %q, kind %q; want millrace/v1 and %s", s.APIVersion, s.Kind, Kind)
	}
	if len(s.Suites) == 0 {
		return nil, errors.New("eval suites: there are none; leave the setting out if no suite is to be passed")
	}
	seen := map[string]bool{}
	for i := range s.Suites {
		x := &s.Suites[i]
		if x.Name == "" || seen[x.Name] {
			return nil, fmt.Errorf("eval suites: suite %d: name %q is missing, or there twice", i+1, x.Name)
		}
		seen[x.Name] = true
		if x.MaxAge == 0 {
			x.MaxAge = maxAge
		}
		if x.MaxAge < 0 {
			return nil, fmt.Errorf("eval suites: %s: max_age %s is below 0", x.Name, x.MaxAge)
		}
		if err := x.check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Suite) check() error {
	if len(s.Bounds) == 0 {
		return fmt.Errorf("eval suites: %s has no bounds, so nothing could fail; give {metric: …, min: …} or {metric: …, max_drop: …}", s.Name)
	}
	for _, b := range s.Bounds {
		limits := 0
		for _, l := range []*float64{b.Min, b.Max, b.MaxDrop, b.MaxRise} {
			if l == nil {
				continue
			}
			limits++
			if math.IsNaN(*l) || math.IsInf(*l, 0) {
				return fmt.Errorf("eval suites: %s: %s: %v is no number", s.Name, b.Metric, *l)
			}
		}
		switch {
		case b.Metric == "" || limits == 0:
			return fmt.Errorf("eval suites: %s: a bound needs a metric and at least one of min, max, max_drop and max_rise", s.Name)
		case b.MaxDrop != nil && *b.MaxDrop < 0 || b.MaxRise != nil && *b.MaxRise < 0:
			return fmt.Errorf("eval suites: %s: %s: max_drop and max_rise are 0 or more", s.Name, b.Metric)
		}
	}
	return nil
}

// Find is the suite of that name; nil without one.
func (s *Suites) Find(name string) *Suite {
	for i := range s.Suites {
		if s.Suites[i].Name == name {
			return &s.Suites[i]
		}
	}
	return nil
}

// relative says whether the suite compares with the base.
func (s *Suite) relative() bool {
	for _, b := range s.Bounds {
		if b.MaxDrop != nil || b.MaxRise != nil {
			return true
		}
	}
	return false
}
